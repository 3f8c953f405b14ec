"""SendMessage, RecallMessage and EndTransaction: what producers do."""

from typing import Any, Final

from rocketq.broker.timer.recall import RecallHandle
from rocketq.common.clock import Clock
from rocketq.message import names
from rocketq.message.flags import SysFlag
from rocketq.message.ids import InvalidMessageId, parse_offset_message_id
from rocketq.proxy.adapter import checks
from rocketq.proxy.adapter.handles import TransactionHandle
from rocketq.proxy.adapter.outgoing import Outgoing, OutgoingMessages
from rocketq.proxy.adapter.queues import WriteQueue, accepted_types
from rocketq.proxy.calls import Call, Rpcs
from rocketq.proxy.cluster import Cluster, Topic
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import OK, Refused, code_of, common_status, refusal_for, refusal_of
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers.send import (
    RecallMessage,
    RecallMessageResponse,
    SendMessageResponse,
    SendMessageV2,
)
from rocketq.remoting.headers.transaction import EndTransaction

_STORED: Final = frozenset(
    {
        int(ResponseCode.SUCCESS),
        int(ResponseCode.FLUSH_DISK_TIMEOUT),
        int(ResponseCode.FLUSH_SLAVE_TIMEOUT),
        int(ResponseCode.SLAVE_NOT_AVAILABLE),
    }
)
_DECISIONS: Final = {
    pb.COMMIT: SysFlag.TRANSACTION_COMMIT,
    pb.ROLLBACK: SysFlag.TRANSACTION_ROLLBACK,
}
_MOST_MESSAGES: Final = 1_024
_MOST_ENDED: Final = 10_000


class SendService:
    """Checks messages, chooses their queues, and says what became of them."""

    def __init__(self, config: ProxyConfig, cluster: Cluster, clock: Clock) -> None:
        self._config = config
        self._cluster = cluster
        self._clock = clock
        self._outgoing = OutgoingMessages(config)
        # What ended here lately, by topic, broker and position. Said twice it happens once:
        # brokers of RocketMQ deliver a message as often as it is committed.
        self._ended: dict[tuple[str, str, int], int] = {}

    def add_to(self, rpcs: Rpcs) -> None:
        rpcs.unary("SendMessage", self._send)
        rpcs.unary("RecallMessage", self._recall)
        rpcs.unary("EndTransaction", self._end_transaction)

    # Sending

    async def _send(self, request: Any, call: Call) -> Any:
        messages = request.messages
        if not messages:
            raise Refused(pb.MESSAGE_CORRUPTED, "no message to send")
        if len(messages) > _MOST_MESSAGES:
            raise Refused(pb.PAYLOAD_TOO_LARGE, f"more than {_MOST_MESSAGES} messages at once")
        name = checks.topic_of(messages[0].topic)
        if any(message.topic != messages[0].topic for message in messages):
            raise Refused(pb.MESSAGE_CORRUPTED, "messages of several topics at once")
        now_ms = self._clock.now_ms()
        peer = call.connection.peer_address
        made = [self._outgoing.make(name, message, now_ms, peer) for message in messages]
        topic = await self._cluster.topic(name)
        self._check_type(topic, made[0].type)
        if not topic.writable.queues:
            raise Refused(pb.FORBIDDEN, f"topic {name} has no queue that takes messages")
        entries = [await self._send_one(topic, each, call) for each in made]
        return pb.SendMessageResponse(
            status=common_status([entry.status for entry in entries]), entries=entries
        )

    def _check_type(self, topic: Topic, wanted: int) -> None:
        if not self._config.enable_topic_message_type_check:
            return
        if names.is_retry_topic(topic.name) or names.is_dlq_topic(topic.name):
            return
        if (topic.message_type or "").upper() == "MIXED":
            return
        if wanted not in accepted_types(topic.message_type):
            raise Refused(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"topic {topic.name} takes {topic.message_type} messages, this is another one",
            )

    async def _send_one(self, topic: Topic, message: Outgoing, call: Call) -> Any:
        if message.message_group:
            queue = topic.writable.of_group(message.message_group)
        else:
            queue = topic.writable.next()
        header = SendMessageV2(
            producer_group=topic.name,
            topic=topic.name,
            default_topic=names.AUTO_CREATE_TOPIC,
            default_topic_queue_nums=4,
            queue_id=queue.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            flag=0,
            properties=message.properties,
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=queue.broker_name,
        )
        try:
            reply = await self._cluster.ask(
                queue.broker_name, Command.request(header, message.body), call=call
            )
            if reply.code not in _STORED:
                raise refusal_of(reply)
        except RemotingError as error:
            self._cluster.topics.forget(topic.name)
            return pb.SendResultEntry(status=refusal_for(error).status)
        except Refused as error:
            if error.code == pb.TOPIC_NOT_FOUND:
                self._cluster.topics.forget(topic.name)
            return pb.SendResultEntry(status=error.status)
        if reply.code != ResponseCode.SUCCESS:
            status = pb.Status(code=code_of(reply.code), message=reply.remark or "not yet safe")
            return pb.SendResultEntry(status=status)
        return self._stored(message, queue, reply.header(SendMessageResponse))

    @staticmethod
    def _stored(message: Outgoing, queue: WriteQueue, answer: SendMessageResponse) -> Any:
        transaction_id = message.message_id
        if message.type == pb.TRANSACTION:
            transaction_id = TransactionHandle(
                queue.broker_name,
                answer.queue_offset,
                _log_position(answer.msg_id),
                message.message_id,
            ).encode()
        return pb.SendResultEntry(
            status=OK,
            message_id=message.message_id,
            transaction_id=transaction_id,
            offset=answer.queue_offset,
            recall_handle=answer.recall_handle or "",
        )

    # Taking back

    async def _recall(self, request: Any, call: Call) -> Any:
        name = checks.topic_of(request.topic)
        topic = await self._cluster.topic(name)
        self._check_type(topic, pb.DELAY)
        handle = RecallHandle.decode(request.recall_handle)
        if handle is None:
            raise Refused(pb.BAD_REQUEST, "this is no recall handle")
        header = RecallMessage(
            producer_group=name,
            topic=name,
            recall_handle=request.recall_handle,
            broker_name=handle.broker_name,
        )
        reply = await self._cluster.ask(handle.broker_name, Command.request(header), call=call)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal_of(reply)
        return pb.RecallMessageResponse(
            status=OK, message_id=reply.header(RecallMessageResponse).msg_id
        )

    # Transactions

    async def _end_transaction(self, request: Any, call: Call) -> Any:
        name = checks.topic_of(request.topic)
        if not request.transaction_id.strip():
            raise Refused(pb.INVALID_TRANSACTION_ID, "a transaction needs its id")
        handle = TransactionHandle.decode(request.transaction_id)
        if handle is None:
            raise Refused(pb.INVALID_TRANSACTION_ID, "this is no id of a transaction")
        decision = _DECISIONS.get(request.resolution)
        if decision is None:
            # Not decided yet: the broker will ask again.
            return pb.EndTransactionResponse(status=OK)
        was_asked = handle.was_asked or request.source == pb.SOURCE_SERVER_CHECK
        half = (name, handle.broker_name, handle.log_position)
        if not was_asked and half in self._ended:
            if self._ended[half] == decision:
                return pb.EndTransactionResponse(status=OK)
            raise Refused(pb.INVALID_TRANSACTION_ID, "the transaction has ended otherwise")
        if not self._cluster.knows(handle.broker_name):
            await self._cluster.topic(name)
        header = EndTransaction(
            producer_group=name,
            topic=name,
            tran_state_table_offset=handle.half_offset,
            commit_log_offset=handle.log_position,
            commit_or_rollback=decision,
            # Some clients never say that they were asked; the id knows.
            from_transaction_check=was_asked,
            msg_id=request.message_id or handle.message_id,
            transaction_id=handle.message_id,
            broker_name=handle.broker_name,
        )
        reply = await self._cluster.ask(handle.broker_name, Command.request(header), call=call)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal_of(reply)
        self._ended[half] = decision
        if len(self._ended) > _MOST_ENDED:
            self._ended.pop(next(iter(self._ended)))
        return pb.EndTransactionResponse(status=OK)


def _log_position(offset_message_id: str) -> int:
    try:
        return parse_offset_message_id(offset_message_id.split(",")[0])[2]
    except InvalidMessageId:
        return 0
