"""Sends: one message (codes 10 and 310) or a batch of one topic (320).

    checks        may a message with this header be stored, and where
    complete      properties the broker adds, retry and dead-letter rules
    put           through the writer, which delays it, or as a half message
    acknowledge   at once, or when the message is safe on disk and in the slaves

What comes most, plain messages with one-letter headers, takes the shorter way through
`plain_send`, which hands everything unusual to this class.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from rocketq.broker import remarks
from rocketq.broker.acknowledgements import Acknowledgements
from rocketq.broker.config import LiveConfig
from rocketq.broker.processor.new_queues import NewQueues
from rocketq.broker.processor.plain_send import PlainSends
from rocketq.broker.retry import RetryTopics
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.topics import Topics, check_topic_name, describe, queue_count
from rocketq.broker.timer.recall import RecallHandle
from rocketq.broker.transaction import TransactionalMessages
from rocketq.broker.writer import MessageWriter
from rocketq.common.clock import Clock
from rocketq.common.numbers import INT32_MAX, parse_natural
from rocketq.message import names
from rocketq.message.flags import SysFlag
from rocketq.message.hosts import encode_host
from rocketq.message.ids import UniqueIds
from rocketq.message.properties.codec import (
    PropertyName,
    decode_properties,
    encode_properties,
    get_property,
)
from rocketq.message.record import layout
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
    RunHandler,
)
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.headers import SendMessage, SendMessageResponse, SendMessageV2
from rocketq.remoting.hot.send import SendFields, message_ids, read_send
from rocketq.store import AppendResult, MessageInner, MessageStore, PutStatus
from rocketq.store.config import BrokerRole

logger = logging.getLogger(__name__)

SendHeader = SendMessage | SendMessageV2 | SendFields

# Topic flags.
_UNIT: Final = 1
_UNIT_SUBSCRIPTION: Final = 2

_STORED: Final = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
}
_REFUSED: Final = {
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now: the disk is full, this is a slave, or the store is closed",
    ),
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "create mapped file failed, the disk is full or broken",
    ),
    PutStatus.MESSAGE_ILLEGAL: (
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal: its body or its topic is too long, or it has no body",
    ),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal: its properties are longer than "
        f"{layout.MAX_PROPERTIES_SIZE} bytes",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_BUSY,
        remarks.broker_busy("PC_SYNCHRONIZED"),
    ),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: (
        ResponseCode.SYSTEM_ERROR,
        "in-sync replicas not enough",
    ),
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: (
        ResponseCode.MESSAGE_ILLEGAL,
        "the message's delivery time is illegal",
    ),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: (
        ResponseCode.SYSTEM_ERROR,
        "messages with a delivery time are not enabled here, timerWheelEnable is false",
    ),
}


_HAS_NO_PRIORITY: Final = frozenset(
    {
        PropertyName.DELAY,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELIVER_MS,
        PropertyName.SHARDING_KEY,
        PropertyName.TRANSACTION_PREPARED,
    }
)


def response_code(status: PutStatus) -> ResponseCode:
    """What a store's outcome is called on the wire."""
    stored = _STORED.get(status)
    if stored is not None:
        return stored
    return _REFUSED.get(status, (ResponseCode.SYSTEM_ERROR, ""))[0]


def refuse_on_slave(store: MessageStore) -> None:
    """A slave has no room of its own in the log, and says so as RocketMQ's does."""
    if store.role is BrokerRole.SLAVE:
        raise RequestRejected(ResponseCode.SYSTEM_BUSY, remarks.system_busy("REJECTREQUEST"))


def check_stored(result: AppendResult) -> None:
    """Raise unless the message is in the log."""
    if not result.is_stored:
        code, text = _REFUSED.get(
            result.status, (ResponseCode.SYSTEM_ERROR, f"the store answered {result.status.name}")
        )
        raise RequestRejected(code, text)


class SendProcessor:
    """Stores what producers send. Every check is here; the fast path only repeats the results."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        retries: RetryTopics,
        store: MessageStore,
        writer: MessageWriter,
        transactions: TransactionalMessages,
        acknowledgements: Acknowledgements,
        stats: BrokerStats,
        clock: Clock,
        store_host: bytes,
    ) -> None:
        self._live = live
        self._topics = topics
        self._retries = retries
        self._store = store
        self._writer = writer
        self._transactions = transactions
        self._acknowledgements = acknowledgements
        self._stats = stats
        self._clock = clock
        self._store_host = store_host
        self._unique_ids = UniqueIds(now_ms=clock.now_ms)
        self._unanswered: set[asyncio.Task[None]] = set()
        self.new_queues = NewQueues()
        self._plain = PlainSends(self, live, topics, store, acknowledgements, stats, store_host)

    def handlers(self) -> Handlers:
        return {
            RequestCode.SEND_MESSAGE: self.handle,
            RequestCode.SEND_MESSAGE_V2: RunHandler(self._plain.handle_run),
            RequestCode.SEND_BATCH_MESSAGE: self._plain.handle_batch,
        }

    # One message

    def handle(self, request: Command, connection: Connection) -> Command | None:
        """Store one message; None when it is acknowledged later."""
        header = read_header(request)
        try:
            is_new = header.topic not in self._topics
            if self._must_wait(header):
                self.new_queues.wait(connection, [request])
                return None
            topic = self.check(request, header, connection)
            message, unique_key = self._complete(request, header, topic, connection)
            queue_id = message.queue_id
            result = self._put(message)
        except RequestRejected as refusal:
            return self._refusal(request, refusal)
        reply = self._reply(
            request, result, queue_id, unique_key, self._recall_handle(header, message, unique_key)
        )
        return self._acknowledge(request, reply, result, message, connection, is_new=is_new)

    def _must_wait(self, header: SendHeader) -> bool:
        """Whether its message needs a queue to be made, and this turn has made enough."""
        topic = self._topics.get(header.topic)
        if topic is not None:
            if header.queue_id >= 0:
                is_ready = self._store.is_ready(header.topic, header.queue_id)
            else:
                is_ready = self._store.queue_count(header.topic) >= topic.write_queue_nums
            if is_ready:
                return False
        return not self.new_queues.may_make()

    def _complete(
        self, request: Command, header: SendHeader, topic: TopicConfig, connection: Connection
    ) -> tuple[MessageInner, str]:
        """The message as it will be stored, and its unique key."""
        config = self._live.broker
        properties = decode_properties(encoded_properties(header))
        properties.pop(PropertyName.POP_CHECK_POINT, None)
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(topic.write_queue_nums, 1))
        unique_key = properties.get(PropertyName.UNIQUE_KEY)
        if unique_key is None:
            unique_key = self._unique_ids.next()
            properties[PropertyName.UNIQUE_KEY] = unique_key
        queue_id = self._queue_by_priority(properties, topic, queue_id)
        if is_compacted(topic) and PropertyName.KEYS not in properties:
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")
        properties[PropertyName.MSG_REGION] = config.region_id
        properties[PropertyName.TRACE_SWITCH] = "true" if config.trace_on else "false"
        properties[PropertyName.CLUSTER] = config.broker_cluster_name
        reconsume_times = header.reconsume_times or 0
        sys_flag = header.sys_flag
        if topic.topic_filter_type == "MULTI_TAG":
            sys_flag |= SysFlag.MULTI_TAGS
        message = MessageInner(
            topic=header.topic,
            queue_id=queue_id,
            body=request.body,
            properties=encode_properties(properties),
            born_timestamp=header.born_timestamp,
            born_host=encode_host(*connection.peer),
            store_host=self._store_host,
            flag=header.flag,
            sys_flag=sys_flag,
            reconsume_times=reconsume_times,
            wait_store=properties.get(PropertyName.WAIT, "true").lower() == "true",
        )
        if names.is_retry_topic(header.topic):
            self._retries.divert_exhausted(
                message,
                connection,
                version=request.version,
                reconsume_times=reconsume_times,
                max_reconsume_times=max_reconsume_times(header),
            )
        is_half = properties.get(PropertyName.TRANSACTION_PREPARED, "").lower() == "true"
        if is_half and not (reconsume_times > 0 and _level(properties) > 0):
            if config.reject_transaction_message:
                raise RequestRejected(
                    ResponseCode.NO_PERMISSION,
                    f"the broker[{config.broker_ip1}] sending transaction message is forbidden",
                )
            self._transactions.prepare(message)
        return message, unique_key

    @staticmethod
    def _queue_by_priority(properties: dict[str, str], topic: TopicConfig, queue_id: int) -> int:
        """The queue of a message with a priority: the higher, the more important.

        A message that waits, keeps an order or is part of a transaction has none.
        """
        text = properties.get(PropertyName.PRIORITY)
        if text is None:
            return queue_id
        priority = parse_natural(text, INT32_MAX)
        if priority is None or not _HAS_NO_PRIORITY.isdisjoint(properties):
            del properties[PropertyName.PRIORITY]
            return queue_id
        return min(priority, max(topic.write_queue_nums, 1) - 1)

    def _put(self, message: MessageInner) -> AppendResult:
        self.refuse_when_full()
        result = self._writer.put(message)
        check_stored(result)
        self._stats.messages_put(message.topic, message.queue_id, result.count, result.size)
        self._stats.batch_sized(message.topic, result.count, result.size)
        return result

    def role_taken(self) -> None:
        """The store has another role: what is waited for, and what is taken, may be different."""
        self._plain.configure()

    # For the short way

    def handle_in_run(self, request: Command, connection: Connection) -> Command | None:
        """As `handle`; a failure concerns this request alone, not the run it came in."""
        return self._guarded(self.handle, request, connection)

    @staticmethod
    def _guarded(
        handle: Callable[[Command, Connection], Command | None],
        request: Command,
        connection: Connection,
    ) -> Command | None:
        try:
            return handle(request, connection)
        except RequestRejected as refusal:
            return request.reply(code=refusal.code, remark=refusal.remark)
        except Exception as error:
            logger.exception("a send from %s failed", connection.peer_address)
            return request.reply(
                code=ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}"
            )

    def is_plain_topic(self, topic: TopicConfig) -> bool:
        """Whether messages for a topic pass all checks and need no special treatment."""
        try:
            check_topic_name(topic.topic_name)
        except RequestRejected:
            return False
        return not (
            names.is_forbidden_topic(topic.topic_name)
            or names.is_retry_topic(topic.topic_name)
            or (topic.order and not self._live.broker.is_writable)
            or topic.topic_filter_type == "MULTI_TAG"
            or is_compacted(topic)
        )

    def refuse(self, request: Command, result: AppendResult) -> Command:
        """The answer to a message the store did not take."""
        try:
            check_stored(result)
        except RequestRejected as refusal:
            return self._refusal(request, refusal)
        raise AssertionError(result)

    def unsafe_reply(self, reply: Command, status: PutStatus) -> Command:
        """The same reply for a message that is stored, but not as safe as it should be."""
        return Command(
            response_code(status),
            ext_fields=dict(reply.ext_fields),
            flag=reply.flag,
            opaque=reply.opaque,
            serialize_type=reply.serialize_type,
        )

    # A batch

    def handle_batch(self, request: Command, connection: Connection) -> Command | None:
        """Store the messages of a batch, each under its own offset."""
        header = read_header(request)
        try:
            is_new = header.topic not in self._topics
            if self._must_wait(header):
                self.new_queues.wait(connection, [request])
                return None
            topic = self.check(request, header, connection)
            message, unique_key = self._dress_batch(request, header, topic, connection)
            self.refuse_when_full()
            result = self._store.append_batch(message)
            check_stored(result)
        except RequestRejected as refusal:
            return self._refusal(request, refusal)
        self._stats.messages_put(message.topic, message.queue_id, result.count, result.size)
        self._stats.batch_sized(message.topic, result.count, result.size)
        reply = self._reply(request, result, message.queue_id, unique_key)
        return self._acknowledge(request, reply, result, message, connection, is_new=is_new)

    def _dress_batch(
        self, request: Command, header: SendHeader, topic: TopicConfig, connection: Connection
    ) -> tuple[MessageInner, str | None]:
        if names.is_retry_topic(header.topic):
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be sent to a retry topic"
            )
        if len(header.topic) > names.TOPIC_MAX_LENGTH:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL, "a batch's topic is longer than 127 characters"
            )
        properties = decode_properties(encoded_properties(header))
        if _level(properties) > 0 or header.sys_flag & SysFlag.TRANSACTION_MASK:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL, "a batch can be neither delayed nor transactional"
            )
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(topic.write_queue_nums, 1))
        message = MessageInner(
            topic=header.topic,
            queue_id=queue_id,
            body=request.body,
            born_timestamp=header.born_timestamp,
            born_host=encode_host(*connection.peer),
            store_host=self._store_host,
            flag=header.flag,
            sys_flag=header.sys_flag,
            reconsume_times=header.reconsume_times or 0,
            wait_store=properties.get(PropertyName.WAIT, "true").lower() == "true",
        )
        return message, properties.get(PropertyName.UNIQUE_KEY)

    # Checks, in RocketMQ's order

    def check(self, request: Command, header: SendHeader, connection: Connection) -> TopicConfig:
        """Refuse what may not be stored; find or make the topic."""
        config = self._live.broker
        refuse_on_slave(self._store)
        if self._clock.now_ms() < config.start_accept_send_request_time_stamp:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "broker unable to service, until "
                + str(config.start_accept_send_request_time_stamp),
            )
        topic = self._topics.get(header.topic)
        if topic is not None and topic.order and not config.is_writable:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{config.broker_ip1}] sending message is forbidden",
            )
        check_topic_name(header.topic)
        if names.is_forbidden_topic(header.topic):
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"Sending message to topic[{header.topic}] is forbidden.",
            )
        if topic is None:
            topic = self._create_topic(header, connection)
        if header.queue_id >= queue_count(topic):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{header.queue_id}] is illegal, {describe(topic)} "
                f"Producer: {connection.peer_address}",
            )
        return topic

    def _create_topic(self, header: SendHeader, maker: Connection) -> TopicConfig:
        is_retry = names.is_retry_topic(header.topic)
        sys_flag = 0
        if header.unit_mode:
            sys_flag = _UNIT_SUBSCRIPTION if is_retry else _UNIT
        topic = self._topics.create_on_send(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            sys_flag=sys_flag,
            maker=maker,
        )
        if topic is None and is_retry:
            topic = self._topics.ensure_for(maker, header.topic, 1, sys_flag=sys_flag)
        if topic is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, remarks.topic_missing(header.topic))
        return topic

    def refuse_when_full(self) -> None:
        if self._acknowledgements.is_full:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, remarks.system_busy("OVERLOAD"))

    # Answers

    def _reply(
        self,
        request: Command,
        result: AppendResult,
        queue_id: int,
        unique_key: str | None,
        recall_handle: str | None = None,
    ) -> Command:
        config = self._live.broker
        return request.reply(
            SendMessageResponse(
                msg_id=message_ids(self._store_host, result.physical_offsets).decode(),
                queue_id=queue_id,
                queue_offset=result.queue_offset,
                transaction_id=unique_key,
                recall_handle=recall_handle,
                region_id=config.region_id,
                trace_on="true" if config.trace_on else "false",
            ),
            code=response_code(result.status),
        )

    def _recall_handle(
        self, header: SendHeader, message: MessageInner, unique_key: str
    ) -> str | None:
        """What takes a timed message back; None for any other."""
        if message.topic != names.TIMER_TOPIC or names.is_retry_topic(header.topic):
            return None
        tick_ms = int(get_property(message.properties, b"TIMER_OUT_MS") or b"0")
        broker_name = self._live.broker.broker_name
        return RecallHandle(header.topic, broker_name, tick_ms + 1, unique_key).encode()

    def _refusal(self, request: Command, refusal: RequestRejected) -> Command:
        config = self._live.broker
        return request.reply(
            code=refusal.code,
            remark=refusal.remark,
            ext={
                "MSG_REGION": config.region_id,
                "TRACE_ON": "true" if config.trace_on else "false",
            },
        )

    def _acknowledge(
        self,
        request: Command,
        reply: Command,
        result: AppendResult,
        message: MessageInner,
        connection: Connection,
        *,
        is_new: bool,
    ) -> Command | None:
        """Now, or when the message is safe and its topic, if it was made just now, is known."""
        if request.is_oneway:
            return reply

        def answer(status: PutStatus) -> None:
            reply.code = response_code(status)
            if is_new:
                self._send_when_published(reply, connection)
            else:
                connection.send(reply)

        if message.wait_store and self._acknowledgements.when_safe(
            result.end, result.count, answer
        ):
            return None
        if is_new:
            self._send_when_published(reply, connection)
            return None
        return reply

    def _send_when_published(self, reply: Command, connection: Connection) -> None:
        """Hold back the reply until the new topic's route can be had: clients ask for it next."""

        async def send() -> None:
            await self._topics.published()
            connection.send(reply)

        task = asyncio.get_running_loop().create_task(send())
        self._unanswered.add(task)
        task.add_done_callback(self._unanswered.discard)


def read_header(request: Command) -> SendHeader:
    """The header under its long or its one-letter names."""
    if request.code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE):
        _require(request, "bornTimestamp")
        return request.header(SendMessage)
    fields = read_send(request)
    if fields is not None and fields.born_timestamp != 0:
        return fields
    _require(request, "g")
    return request.header(SendMessageV2)


def _require(request: Command, name: str) -> None:
    if name not in request.ext_fields:
        raise RequestRejected(ResponseCode.SYSTEM_ERROR, "the header has no bornTimestamp")


def encoded_properties(header: SendHeader) -> bytes:
    """The properties in UTF-8, whichever way the header was read."""
    properties = header.properties
    if isinstance(properties, bytes):
        return properties
    return (properties or "").encode("utf-8", "replace")


def max_reconsume_times(header: SendHeader) -> int | None:
    limit = header.max_reconsume_times
    return None if limit is None or limit < 0 else limit


def is_compacted(topic: TopicConfig) -> bool:
    return topic.attributes.get("cleanup.policy") == "COMPACTION"


def _level(properties: dict[str, str]) -> int:
    return parse_natural(properties.get(PropertyName.DELAY), highest=INT32_MAX) or 0
