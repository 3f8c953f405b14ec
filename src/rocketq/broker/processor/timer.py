"""Takes timed messages back, and tells slaves and tools how timers stand."""

from typing import Final

from rocketq.broker import remarks
from rocketq.broker.config import LiveConfig
from rocketq.broker.processor.send import check_stored
from rocketq.broker.tables.topics import Topics
from rocketq.broker.timer import TimerMessages
from rocketq.broker.timer.recall import RecallHandle
from rocketq.broker.writer import MessageWriter
from rocketq.common.clock import Clock
from rocketq.message.hosts import encode_host
from rocketq.message.properties.codec import PropertyName, encode_properties
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.headers import RecallMessage, RecallMessageResponse
from rocketq.store import MessageInner, PutStatus

_RECALL_TAG: Final = "_RECALL_TAG_"
_UNSAFE_BUT_STORED: Final = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)


class TimerProcessor:
    """Stores delete markers; reads progress."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        timers: TimerMessages,
        writer: MessageWriter,
        clock: Clock,
        store_host: bytes,
    ) -> None:
        self._live = live
        self._topics = topics
        self._timers = timers
        self._writer = writer
        self._clock = clock
        self._store_host = store_host

    def handlers(self) -> Handlers:
        return {
            RequestCode.RECALL_MESSAGE: self._recall,
            RequestCode.GET_TIMER_CHECK_POINT: self._check_point,
            RequestCode.GET_TIMER_METRICS: self._metrics,
        }

    # Recall

    async def _recall(self, request: Command, connection: Connection) -> Command:
        header = request.header(RecallMessage)
        handle = self._check(header)
        properties = {
            PropertyName.TIMER_DELIVER_MS: str(handle.deliver_ms),
            PropertyName.TIMER_DELETE_UNIQUE_KEY: self._delete_key(handle),
            PropertyName.UNIQUE_KEY: handle.unique_key,
            PropertyName.TAGS: _RECALL_TAG,
            PropertyName.BORN_TIMESTAMP: str(self._clock.now_ms()),
            PropertyName.PRODUCER_GROUP: header.producer_group or "DEFAULT_PRODUCER",
        }
        marker = MessageInner(
            topic=handle.topic,
            queue_id=0,
            body=b"0",
            properties=encode_properties(properties),
            born_timestamp=self._clock.now_ms(),
            born_host=encode_host(*connection.peer),
            store_host=self._store_host,
        )
        result = await self._writer.put_durably(marker)
        if result.status not in _UNSAFE_BUT_STORED:
            check_stored(result)
        return request.reply(
            RecallMessageResponse(msg_id=handle.unique_key, region_id=self._live.broker.region_id)
        )

    def _check(self, header: RecallMessage) -> RecallHandle:
        """Refuse what cannot be taken back, in RocketMQ's order."""
        config = self._live.broker
        if not config.recall_message_enable:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden"
            )
        if self._clock.now_ms() < config.start_accept_send_request_time_stamp or not (
            config.is_writable or config.allow_recall_when_broker_not_writeable
        ):
            raise RequestRejected(
                ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
            )
        if header.topic not in self._topics:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, remarks.topic_missing(header.topic))
        handle = RecallHandle.decode(header.recall_handle)
        now_ms = self._clock.now_ms()
        if (
            handle is None
            or handle.topic != header.topic
            or handle.broker_name != config.broker_name
            or not 0 < handle.deliver_ms - now_ms < self._live.store.timer_max_delay_sec * 1_000
        ):
            raise RequestRejected(
                ResponseCode.ILLEGAL_OPERATION, "recall failed, the handle is invalid or too late"
            )
        return handle

    def _delete_key(self, handle: RecallHandle) -> str:
        if self._live.broker.append_topic_for_timer_delete_key:
            return f"{handle.topic}+{handle.unique_key}"
        return handle.unique_key

    # Progress

    def _check_point(self, request: Command, connection: Connection) -> Command:
        return request.reply(body=self._timers.progress.encode())

    def _metrics(self, request: Command, connection: Connection) -> Command:
        return request.reply(body=self._timers.metrics.encode())
