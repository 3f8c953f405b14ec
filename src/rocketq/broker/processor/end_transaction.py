"""Commits and rollbacks of transactions (END_TRANSACTION).

Clients send these one way, so most answers go nowhere; what an answer would say is still
worked out, for those who ask. A decision that could not be carried out is not lost: the
half message stays open, and its producer is asked later.
"""

import asyncio
import logging
from collections.abc import Awaitable

from rocketq.broker.access.references import References
from rocketq.broker.config import LiveConfig
from rocketq.broker.processor.send import response_code
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.transaction import TransactionalMessages
from rocketq.broker.transaction import half as stages
from rocketq.broker.writer import MessageWriter
from rocketq.common.clock import Clock
from rocketq.message.flags import SysFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import TRANSACTION_HALF_TOPIC
from rocketq.message.properties.codec import PropertyName
from rocketq.remoting import Command, Connection, Handlers, RequestRejected, ResponseCode
from rocketq.remoting.access.needs import PUB
from rocketq.remoting.headers import EndTransaction
from rocketq.store import AppendResult, MessageStore, PutStatus
from rocketq.store.config import BrokerRole

logger = logging.getLogger(__name__)


class EndTransactionProcessor:
    """Carries out what producers decide about their half messages."""

    def __init__(
        self,
        live: LiveConfig,
        transactions: TransactionalMessages,
        writer: MessageWriter,
        store: MessageStore,
        stats: BrokerStats,
        clock: Clock,
        references: References,
    ) -> None:
        self._live = live
        self._transactions = transactions
        self._writer = writer
        self._store = store
        self._stats = stats
        self._clock = clock
        self._references = references

    def handlers(self) -> Handlers:
        return {EndTransaction.CODE: self._end}

    def _end(self, request: Command, connection: Connection) -> Command | Awaitable[Command] | None:
        if self._store.role is BrokerRole.SLAVE:
            raise RequestRejected(
                ResponseCode.SLAVE_NOT_AVAILABLE, "this is a slave, which decides no transactions"
            )
        header = request.header(EndTransaction)
        if header.commit_or_rollback == SysFlag.TRANSACTION_COMMIT:
            half = self._own_half_message(request, connection, header)
            if self._transactions.was_decided(half.queue_offset):
                # Said twice, or by two copies of one half message; what was stored for the
                # first may not be safe yet.
                end = self._store.max_physical_offset
            else:
                end = self._commit(half).end
            durable = self._store.durable(end) if half.wait_store_ok else None
            if durable is not None and not request.is_oneway:
                return self._reply_when(durable, request)
            return request.reply()
        if header.commit_or_rollback == SysFlag.TRANSACTION_ROLLBACK:
            half = self._own_half_message(request, connection, header)
            if not self._transactions.was_decided(half.queue_offset):
                self._transactions.decide(half.queue_offset)
                self._count(half, is_commit=False)
            return request.reply()
        # "Unknown" decides nothing; the producer will be asked again.
        logger.debug("%s has not decided %s yet", connection.peer_address, header.msg_id)
        return None

    def _half_message(self, header: EndTransaction) -> MessageExt:
        """The half message a decision is about, if the decision is entitled to it."""
        half = self._store.message_at(header.commit_log_offset)
        if half is None or half.topic != TRANSACTION_HALF_TOPIC:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed"
            )
        if not header.from_transaction_check and self._is_too_late(half):
            raise RequestRejected(
                ResponseCode.ILLEGAL_OPERATION,
                "the time for a decision of its own is over, the producer will be asked",
            )
        if half.get_property(PropertyName.PRODUCER_GROUP) != header.producer_group:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong"
            )
        return half

    def _own_half_message(
        self, request: Command, connection: Connection, header: EndTransaction
    ) -> MessageExt:
        """The same, of a topic that whoever decides may send to."""
        half = self._half_message(header)
        topic = half.get_property(PropertyName.REAL_TOPIC)
        if topic is not None and self._references.are_checked:
            said = None if header.topic == TRANSACTION_HALF_TOPIC else header.topic
            self._references.check(request, connection, topic, PUB, said)
        return half

    def _is_too_late(self, half: MessageExt) -> bool:
        immunity_ms = stages.immunity_ms(half, self._live.broker.transaction_time_out)
        if immunity_ms is None:
            return False
        return self._clock.now_ms() - half.born_timestamp > immunity_ms

    def _commit(self, half: MessageExt) -> AppendResult:
        queue = stages.real_queue(half)
        if queue is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "the message names no real topic")
        result = self._writer.put(stages.real_message(half, *queue))
        if not result.is_stored:
            raise RequestRejected(response_code(result.status), result.status.name)
        # Decided in the same turn as stored: a second decision finds it done.
        self._transactions.decide(half.queue_offset)
        self._stats.messages_put(*queue, 1, result.size)
        self._count(half, is_commit=True)
        return result

    def _count(self, half: MessageExt, *, is_commit: bool) -> None:
        topic = half.get_property(PropertyName.REAL_TOPIC) or ""
        after_ms = max(self._clock.now_ms() - half.born_timestamp, 0)
        self._stats.transaction_ended(topic, is_commit=is_commit, after_ms=after_ms)

    async def _reply_when(self, durable: asyncio.Future[PutStatus], request: Command) -> Command:
        status = await asyncio.shield(durable)  # others wait for the same flush
        return request.reply(
            code=response_code(status),
            remark=None if status is PutStatus.PUT_OK else status.name,
        )
