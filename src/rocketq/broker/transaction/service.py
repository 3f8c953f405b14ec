"""Transactional messages: kept half until their producer decides, asked about if it does not.

    send       a half message is stored; the producer does its own work
    end        commit stores the real message, rollback stores nothing; either way the half
               message is marked as decided in the op log
    check      a half message nobody decided within `transactionTimeOut` is asked about: a
               copy with a higher counter is appended, and some live producer of the group
               gets the question; again every `transactionCheckInterval`
    give up    after `transactionCheckMax` questions, or past the store's retention, it is
               moved to TRANS_CHECK_MAX_TIME_TOPIC

Which half messages are open is known in memory, and one timer is set to the moment the
next of them has to be asked about: open transactions cost nothing while they wait. The
table is rebuilt at start from both queues, beginning at the progress that is kept as
consumer offsets of CID_RMQ_SYS_TRANS.
"""

import asyncio
import logging
from typing import Final

from rocketq.broker.access.references import References
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.topics import Topics
from rocketq.broker.transaction import half as stages
from rocketq.broker.transaction.half import HALF_QUEUE
from rocketq.broker.transaction.op_log import OpLog, decode_marks
from rocketq.broker.transaction.question import ask
from rocketq.broker.transaction.undecided import Undecided
from rocketq.broker.writer import MessageWriter
from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.message.hosts import encode_host
from rocketq.message.message import MessageExt
from rocketq.message.names import (
    TRANSACTION_CHECK_MAX_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)
from rocketq.message.properties.codec import PropertyName
from rocketq.store import MessageInner, MessageStore, PutStatus

logger = logging.getLogger(__name__)

_QUESTIONS_A_TURN: Final = 64
_HOUR_MS: Final = 3_600_000
_LOOK_AGAIN_S: Final = 0.02
_LONGEST_SLEEP_S: Final = 3_600.0


class TransactionalMessages:
    """Every open transaction of this broker. All calls come from the loop."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        store: MessageStore,
        writer: MessageWriter,
        offsets: ConsumerOffsets,
        producers: ProducerTable,
        clock: Clock,
        references: References | None = None,
    ) -> None:
        self._live = live
        self._topics = topics
        self._store = store
        self._writer = writer
        self._offsets = offsets
        self._producers = producers
        self._clock = clock
        self._references = references or References()
        self._undecided = Undecided()
        host = encode_host(live.broker.broker_ip1, live.broker.listen_port)
        self._op_log = OpLog(live, writer, host, clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._is_look_planned = False
        self._silent_groups: set[str | None] = set()

    # Producers

    def prepare(self, message: MessageInner) -> None:
        """Make a half message of a message that is about to be stored."""
        stages.prepare(message)
        if self._loop is not None and not self._is_look_planned:
            # It is in the queue when this turn is over; its deadline starts to run then.
            self._is_look_planned = True
            self._loop.call_soon(self._look_for_new)

    def was_decided(self, half_offset: int) -> bool:
        """Whether a decision about this half message has been carried out lately."""
        return self._undecided.was_closed(half_offset)

    def decide(self, half_offset: int) -> None:
        """A half message was committed or rolled back: nobody needs to be asked any more."""
        self._take_until(half_offset + 1)
        current = self._undecided.close(half_offset)
        self._op_log.mark(half_offset)
        if current is not None and current != half_offset:
            self._op_log.mark(current)

    def resume(self, message: MessageExt) -> bool:
        """Ask about a message anew, as if it had just been sent; false if it cannot be stored."""
        result = self._writer.put(stages.checked_copy(message, check_times=0))
        self._look_for_new()
        return result.status is PutStatus.PUT_OK

    @property
    def open_count(self) -> int:
        """How many transactions nobody has decided."""
        self._take_new()
        return len(self._undecided)

    @property
    def open_offsets(self) -> frozenset[int]:
        """Where those are in the half queue that nobody has decided."""
        self._take_new()
        return self._undecided.open

    def topic_of(self, offset: int) -> str:
        """Where a half message would go; nothing if it is gone."""
        message = self._half_message(offset)
        queue = None if message is None else stages.real_queue(message)
        return "" if queue is None else queue[0]

    # Life of service

    async def run(self, stop: asyncio.Event) -> None:
        while not self._are_queues_available():
            if await asked_to_stop(stop, within_s=_LOOK_AGAIN_S):
                self._op_log.close()
                return
        self._loop = asyncio.get_running_loop()
        self.recover()
        self._set_timer()
        try:
            await stop.wait()
        finally:
            self._loop = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        self._op_log.close()
        self._note_progress()

    def _are_queues_available(self) -> bool:
        return all(
            self._store.is_available(topic, HALF_QUEUE)
            for topic in (TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC)
        )

    def recover(self) -> None:
        """Find the open transactions in the store, whatever was known of them before.

        Another may have been master since then.
        """
        self._undecided = Undecided()
        self._op_log.begin()
        decided = self._read_op_log()
        first, end = self._range(TRANSACTION_HALF_TOPIC)
        self._undecided.skip_to(first)
        # Nobody is asked before its producers had time to come back.
        earliest_ms = self._steady_ms() + self._live.broker.transaction_check_interval
        # What stands for a transaction so far: where, and how often it was asked about.
        newest: dict[tuple[str, int], tuple[int, int]] = {}
        for offset in range(first, end):
            is_decided = offset in decided
            if is_decided and not newest:
                continue
            try:
                found = self._read_half(offset)
            except Exception:
                # One message that cannot be understood must not keep the others from going on.
                logger.exception("half message %d cannot be read and is left out", offset)
                continue
            if found is None:
                continue
            identity, times, prepared, due_ms = found
            original, original_times = newest.get(identity, (-1, 0))
            # A copy stands for its original, which is struck off only with the progress.
            is_copy = original >= 0 and times > original_times
            if is_decided or prepared in decided:
                if is_copy:
                    self._undecided.close(original)
                    del newest[identity]
                continue
            due_ms = max(due_ms, earliest_ms)
            if is_copy:
                self._undecided.move(original, to=offset, due_ms=due_ms)
            else:
                self._undecided.add(offset, due_ms)
            newest[identity] = (offset, times)
        self._undecided.skip_to(end)
        if self._undecided:
            logger.info("%d transactions are open", len(self._undecided))

    def _read_half(self, offset: int) -> tuple[tuple[str, int], int, int, int] | None:
        """Of one half message: who it is, its counter, its original and when it is due."""
        message = self._half_message(offset)
        if message is None:
            return None
        times = stages.check_times(message)
        identity = (message.unique_key or message.offset_msg_id, message.born_timestamp)
        return identity, times, stages.prepared_offset(message), self._due_ms(message, times)

    def _read_op_log(self) -> set[int]:
        """Half messages that are decided, as far as the op queue still matters."""
        decided: set[int] = set()
        first, end = self._range(TRANSACTION_OP_TOPIC)
        self._op_log.skip_to(first)
        for op_offset in range(first, end):
            try:
                message = self._store.message_by_queue_offset(
                    TRANSACTION_OP_TOPIC, HALF_QUEUE, op_offset
                )
                offsets = [] if message is None else decode_marks(message.raw_body)
            except Exception:
                logger.exception("op message %d cannot be read and is left out", op_offset)
                continue
            decided.update(offsets)
            self._op_log.note_record(op_offset, offsets)
        self._op_log.skip_to(end)
        return decided

    def _range(self, topic: str) -> tuple[int, int]:
        """From where a queue has to be read, and to where."""
        low = self._store.min_offset(topic, HALF_QUEUE)
        high = self._store.max_offset(topic, HALF_QUEUE)
        stored = self._offsets.query(TRANSACTION_GROUP, topic, HALF_QUEUE)
        return min(max(stored, low, 0), max(high, 0)), max(high, 0)

    def _note_progress(self) -> None:
        half_progress = self._undecided.progress
        for topic, offset in (
            (TRANSACTION_HALF_TOPIC, half_progress),
            (TRANSACTION_OP_TOPIC, self._op_log.progress(half_progress)),
        ):
            if offset > self._offsets.query(TRANSACTION_GROUP, topic, HALF_QUEUE):
                self._offsets.commit(TRANSACTION_GROUP, topic, HALF_QUEUE, offset)

    # Asking

    def _look_for_new(self) -> None:
        """Half messages were stored: from now on they may have to be asked about."""
        self._is_look_planned = False
        self._take_new()
        self._set_timer()
        if self._loop is not None and self._is_something_unread():
            # With SYNC_FLUSH a message can be read only when it is on the disk.
            self._is_look_planned = True
            self._loop.call_later(_LOOK_AGAIN_S, self._look_for_new)

    def _is_something_unread(self) -> bool:
        return (
            self._store.dispatched_position < self._store.max_physical_offset
            or not self._store.is_available(TRANSACTION_HALF_TOPIC, HALF_QUEUE)
        )

    def _take_new(self) -> None:
        if self._store.is_available(TRANSACTION_HALF_TOPIC, HALF_QUEUE):
            self._take_until(self._store.max_offset(TRANSACTION_HALF_TOPIC, HALF_QUEUE))

    def _take_until(self, end: int) -> None:
        """Half messages below an offset that were not known yet get their deadline."""
        if self._loop is None:
            return
        due_ms = self._steady_ms() + self._live.broker.transaction_time_out
        for offset in range(self._undecided.end, end):
            self._undecided.add(offset, due_ms)

    def _turn(self) -> None:
        self._timer = None
        if self._loop is None:
            return
        try:
            self.check_due()
        except Exception:
            logger.exception("transactions could not be checked")
        self._note_progress()
        self._set_timer()

    def check_due(self) -> None:
        """Ask about what is due, but not too much at once."""
        self._take_new()
        now_ms = self._steady_ms()
        for offset in self._undecided.take_due(now_ms, _QUESTIONS_A_TURN):
            retry_ms = now_ms + self._live.broker.transaction_check_interval
            try:
                self._check(offset, retry_ms)
            except Exception:
                logger.exception("half message %d could not be checked", offset)
                self._undecided.postpone(offset, retry_ms)

    def _check(self, offset: int, retry_ms: int) -> None:
        message = self._half_message(offset)
        if message is None:
            logger.warning("half message %d is gone", offset)
            self._undecided.close(offset)
            return
        times = stages.check_times(message)
        wait_ms = self._due_ms(message, times) - self._steady_ms()
        if wait_ms > 0:
            self._undecided.postpone(offset, self._steady_ms() + wait_ms)
        elif times >= self._live.broker.transaction_check_max or self._is_too_old(message):
            self._give_up(offset, message, retry_ms)
        else:
            self._ask(offset, message, times + 1, retry_ms)

    def _ask(self, offset: int, message: MessageExt, times: int, retry_ms: int) -> None:
        copy = stages.checked_copy(message, times)
        result = self._writer.put(copy)
        if result.status is not PutStatus.PUT_OK:
            logger.warning("half message %d not checked: %s", offset, result.status.name)
            self._undecided.postpone(offset, retry_ms)
            return
        self._take_until(result.queue_offset)
        self._undecided.move(offset, to=result.queue_offset, due_ms=retry_ms)
        group = message.get_property(PropertyName.PRODUCER_GROUP)
        name = self._live.broker.broker_name
        is_asked = ask(self._producers, group, name, message, copy, result, self._references)
        self._note_answerable(group, is_asked)

    def _note_answerable(self, group: str | None, was_asked: bool) -> None:
        """Say once that nobody of a group can be asked, however much it has left open."""
        if was_asked:
            self._silent_groups.discard(group)
        elif group not in self._silent_groups:
            self._silent_groups.add(group)
            logger.warning("no producer of %s is online to decide its transactions", group)

    def _give_up(self, offset: int, message: MessageExt, retry_ms: int) -> None:
        self._topics.ensure(TRANSACTION_CHECK_MAX_TOPIC, 1)
        result = self._writer.put(stages.abandoned(message))
        if result.status is not PutStatus.PUT_OK:
            self._undecided.postpone(offset, retry_ms)
            return
        logger.warning("transaction %s was never decided, given up", message.transaction_id)
        self._undecided.close(offset)
        self._op_log.mark(offset)

    def _half_message(self, offset: int) -> MessageExt | None:
        return self._store.message_by_queue_offset(TRANSACTION_HALF_TOPIC, HALF_QUEUE, offset)

    def _is_too_old(self, message: MessageExt) -> bool:
        age_ms = self._clock.now_ms() - message.born_timestamp
        return age_ms > self._live.store.file_reserved_time * _HOUR_MS

    def _due_ms(self, message: MessageExt, times: int) -> int:
        """When a half message has to be asked about, on the steady clock."""
        config = self._live.broker
        if times > 0:
            wait_ms = config.transaction_check_interval
        else:
            timeout_ms = config.transaction_time_out
            wait_ms = stages.immunity_ms(message, timeout_ms) or timeout_ms
        age_ms = self._clock.now_ms() - message.store_timestamp
        # A message from the future: the clock was set back, and its age says nothing.
        return self._steady_ms() + (wait_ms - age_ms if age_ms >= 0 else 0)

    # Timer

    def _steady_ms(self) -> int:
        return round(self._clock.monotonic() * 1000)

    def _set_timer(self) -> None:
        due_ms = self._undecided.next_due_ms
        if due_ms is None or self._loop is None:
            return
        if self._timer is not None:
            if self._timer_at_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = due_ms
        delay_s = min(max(due_ms - self._steady_ms() + 1, 0) / 1000, _LONGEST_SLEEP_S)
        self._timer = self._loop.call_later(delay_s, self._turn)
