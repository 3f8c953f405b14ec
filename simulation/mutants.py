"""Planted mistakes. A checker that has never found one is worth nothing.

    python -m simulation --mutant ack_before_sync --seeds 50

Each mutant changes the running code in one place, as a careless edit might. They need the
uncompiled modules (ROCKETQ_PURE=1): compiled classes cannot be changed.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from rocketq.broker.delay import ScheduledMessages
from rocketq.broker.pop import Revival, revival
from rocketq.broker.processor.end_transaction import EndTransactionProcessor
from rocketq.broker.processor.send_back import SendBackProcessor
from rocketq.broker.retry import RetryTopics
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.timer import TimerMessages
from rocketq.broker.transaction import TransactionalMessages
from rocketq.client.consumer.process_queue import NOTHING_TO_COMMIT, ProcessQueue
from rocketq.controller.broker_set import BrokerSet
from rocketq.controller.decisions import mastership
from rocketq.controller.decisions.decision import Living
from rocketq.message.flags import SysFlag
from rocketq.message.message import MessageExt
from rocketq.remoting import Command, Connection
from rocketq.remoting.headers import EndTransaction
from rocketq.store import MessageInner, PutStatus
from rocketq.store.durability.flush import LogFlush
from rocketq.store.files.segment import Segment
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queue import ConsumeQueue
from rocketq.store.replication.received_log import ReceivedLog
from rocketq.store.replication.reign import ALL
from rocketq.store.replication.replicas import Replicas
from rocketq.store.replication.waits import ReplicaWaits
from rocketq.store.timer.wheel import TimerWheel


def ack_before_sync() -> None:
    """SYNC_FLUSH answers at once, and lets the disk follow."""
    original = LogFlush.durable

    def durable(self: LogFlush, position: int) -> asyncio.Future[PutStatus]:
        original(self, position)
        return _done()

    LogFlush.durable = durable  # type: ignore[method-assign]


def sync_nothing() -> None:
    """Files are never synced."""
    Segment.sync = _nothing  # type: ignore[method-assign]


def forget_new_names() -> None:
    """Files are synced, the directory that names them is not."""
    original = Segment.sync

    def sync(self: Segment) -> None:
        self.new_folder = None
        original(self)

    Segment.sync = sync  # type: ignore[method-assign]


def skip_the_slave() -> None:
    """A SYNC_MASTER does not wait for its slave."""

    def wait(self: ReplicaWaits, position: int, needed: int) -> asyncio.Future[PutStatus]:
        return _done()

    ReplicaWaits.wait = wait  # type: ignore[method-assign]


def report_before_writing() -> None:
    """A slave reports more than it has."""
    ReceivedLog.safe_end = property(  # type: ignore[method-assign, assignment]
        lambda self: self._log.end + 10_000
    )


def damage_on_the_way() -> None:
    """A slave writes one byte of its log wrong."""
    original = CommitLog.receive

    def receive(self: CommitLog, position: int, pieces: Sequence[memoryview]) -> None:
        if position > 5_000 and len(pieces[0]) > 40:
            first = bytearray(pieces[0])
            first[33] ^= 1
            pieces = [memoryview(first), *pieces[1:]]
        original(self, position, pieces)

    CommitLog.receive = receive  # type: ignore[method-assign]


def commit_before_consuming() -> None:
    """Consumers store how far they have pulled, instead of how far they have consumed."""
    ProcessQueue.commit_offset = property(  # type: ignore[assignment, method-assign]
        lambda self: self.max_offset + 1 if self.max_offset >= 0 else NOTHING_TO_COMMIT
    )


def forget_what_is_sent_back() -> None:
    """What a consumer refuses is acknowledged, and not stored again."""

    def send_back(self: SendBackProcessor, request: Command, connection: Connection) -> Command:
        return request.reply()

    SendBackProcessor._send_back = send_back  # type: ignore[method-assign]


def keep_progress_beyond_the_log() -> None:
    """Groups stay ahead of a log that has lost its end."""
    ConsumerOffsets.follow_log = _nothing  # type: ignore[method-assign]


def lose_the_last_entry() -> None:
    """A queue that is opened again has one entry less."""
    original = ConsumeQueue.open

    def open_(self: ConsumeQueue, log_end: int) -> None:
        original(self, max(0, log_end - 1))

    ConsumeQueue.open = open_  # type: ignore[method-assign]


def elect_anybody() -> None:
    """A controller makes the first broker that lives master, whatever that one has."""

    def choose(
        state: BrokerSet, pool: Iterable[int], living: Living, designated: int | None
    ) -> int | None:
        candidates = [number for number in state.replicas if number in living]
        return state.master_id if state.master_id in candidates else min(candidates, default=None)

    mastership._choose = choose


def forget_truncation() -> None:
    """A slave keeps what its new master never had."""

    async def truncate(self: ReceivedLog, position: int) -> None:
        pass

    ReceivedLog.truncate = truncate  # type: ignore[method-assign]


def count_one_of_them() -> None:
    """A master in an elected set waits for one of those in sync, and not for all."""
    original = Replicas.safe_position

    def safe_position(self: Replicas, needed: int) -> int:
        return original(self, 1 if needed == ALL else needed)

    Replicas.safe_position = safe_position  # type: ignore[method-assign]


def show_what_is_not_confirmed() -> None:
    """Consumers read what only the master has."""
    Replicas.is_limiting = property(lambda self: False)  # type: ignore[assignment, method-assign]


def commit_what_is_rolled_back() -> None:
    """A transaction that is rolled back is committed."""
    original = EndTransactionProcessor._end

    def end(self: EndTransactionProcessor, request: Command, connection: Connection) -> Any:
        header = request.header(EndTransaction)
        if header.commit_or_rollback == SysFlag.TRANSACTION_ROLLBACK:
            half = self._half_message(header)
            if not self._transactions.was_decided(half.queue_offset):
                self._commit(half)
                return request.reply()
        return original(self, request, connection)

    EndTransactionProcessor._end = end  # type: ignore[method-assign]


def never_ask_back() -> None:
    """Nobody is asked what became of a transaction."""
    TransactionalMessages._ask = _nothing  # type: ignore[method-assign]


def forget_decisions() -> None:
    """What was decided is not written down, so it is asked and decided again."""
    TransactionalMessages.decide = _nothing  # type: ignore[method-assign]
    TransactionalMessages.was_decided = (  # type: ignore[method-assign]
        lambda self, half_offset: False
    )


def deliver_levels_early() -> None:
    """A message with a delay level waits half of its time."""

    def due_ms(self: Any, level: Any, offset: int, delivery_ms: int, now_ms: int) -> int:
        return delivery_ms - int(level.delay_ms) // 2

    ScheduledMessages._due_ms = due_ms  # type: ignore[method-assign]


def deliver_timed_early() -> None:
    """A message with a time comes a second before it."""
    original = TimerMessages._slot_ms

    def slot_ms(self: TimerMessages, deliver_ms: int) -> int:
        return original(self, deliver_ms) - 1_000

    TimerMessages._slot_ms = slot_ms  # type: ignore[method-assign]


def lose_timed_with_the_process() -> None:
    """How far the wheel is, is written down before what it holds."""
    TimerWheel.write = _nothing  # type: ignore[method-assign]


def forget_to_count() -> None:
    """What is sent back always comes for the first time."""
    before = SendBackProcessor._next_try

    def next_try(self: SendBackProcessor, original: MessageExt, level: int) -> MessageInner:
        message = before(self, original, level)
        message.reconsume_times = 0
        return message

    SendBackProcessor._next_try = next_try  # type: ignore[method-assign]


def one_try_too_many() -> None:
    """The limit of tries is off by one."""
    original = RetryTopics.limit

    def limit(config: Any, version: int, asked: int | None) -> int:
        return original(config, version, asked) + 1

    RetryTopics.limit = staticmethod(limit)  # type: ignore[method-assign]


def revive_nothing() -> None:
    """What is popped and not acknowledged is gone."""
    Revival._revive = lambda self, check_point, offset: True  # type: ignore[method-assign]


def ignore_acks() -> None:
    """What is popped and acknowledged comes again all the same."""
    revival._ReviveQueue.acknowledge = _nothing  # type: ignore[method-assign]


def step_back() -> None:
    """Now and then a group is stored one message behind where it is."""
    original = ConsumerOffsets.commit

    def commit(
        self: ConsumerOffsets, group: str, topic: str, queue_id: int, offset: int, client: str = ""
    ) -> bool:
        if offset % 7 == 5:
            offset -= 3
        return original(self, group, topic, queue_id, offset, client)

    ConsumerOffsets.commit = commit  # type: ignore[method-assign]


def _done() -> asyncio.Future[PutStatus]:
    future: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
    future.set_result(PutStatus.PUT_OK)
    return future


def _nothing(*arguments: Any, **options: Any) -> None:
    pass


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    mutant.__name__: mutant
    for mutant in (
        ack_before_sync,
        sync_nothing,
        forget_new_names,
        skip_the_slave,
        report_before_writing,
        damage_on_the_way,
        commit_before_consuming,
        forget_what_is_sent_back,
        keep_progress_beyond_the_log,
        lose_the_last_entry,
        elect_anybody,
        forget_truncation,
        count_one_of_them,
        show_what_is_not_confirmed,
        commit_what_is_rolled_back,
        never_ask_back,
        forget_decisions,
        deliver_levels_early,
        deliver_timed_early,
        lose_timed_with_the_process,
        forget_to_count,
        one_try_too_many,
        revive_nothing,
        ignore_acks,
        step_back,
    )
}
