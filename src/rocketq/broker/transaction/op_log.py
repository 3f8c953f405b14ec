"""The log of decisions: which half messages are decided.

A half message stays where it was stored; that it was committed or rolled back is written
behind it, into the op topic. The body of an op message lists half-queue offsets as text,
each with a comma after it, and its tag is always `d`:

    body         12,13,20,
    properties   TAGS 0x01 d 0x02 WAIT 0x01 true 0x02

Offsets are collected and written together: when their text has grown long, and otherwise a
few seconds after the first of them. RocketMQ 4.9 writes one offset an op message, without
the comma; both forms are read.

How far the op queue is used up is the offset of its first message that names a half message
not yet below the half queue's own progress.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.writer import MessageWriter
from rocketq.common.clock import Clock
from rocketq.common.numbers import parse_natural
from rocketq.message.names import TRANSACTION_OP_TOPIC
from rocketq.store import MessageInner, PutStatus

logger = logging.getLogger(__name__)

_PROPERTIES: Final = b"TAGS\x01d\x02WAIT\x01true\x02"


def encode_marks(offsets: list[int], max_size: int) -> Iterator[tuple[list[int], bytes]]:
    """Cut a list of offsets into bodies no longer than `max_size`, one offset at the least."""
    part: list[int] = []
    texts: list[bytes] = []
    size = 0
    for offset in offsets:
        text = b"%d," % offset
        if part and size + len(text) > max_size:
            yield part, b"".join(texts)
            part, texts, size = [], [], 0
        part.append(offset)
        texts.append(text)
        size += len(text)
    if part:
        yield part, b"".join(texts)


def decode_marks(body: bytes) -> list[int]:
    """The half-queue offsets an op message names; what is no number is left out."""
    numbers = (parse_natural(word) for word in body.split(b","))
    return [number for number in numbers if number is not None]


class OpLog:
    """Collects decisions and writes them. Used by the transaction service alone."""

    def __init__(self, live: LiveConfig, writer: MessageWriter, host: bytes, clock: Clock) -> None:
        self._live = live
        self._writer = writer
        self._host = host
        self._clock = clock
        self._marks: list[int] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        # (op offset, highest half offset it names), oldest first
        self._records: deque[tuple[int, int]] = deque()
        self._end = 0

    def note_record(self, op_offset: int, offsets: list[int]) -> None:
        """An op message lies in the store."""
        self._records.append((op_offset, max(offsets, default=-1)))
        self._end = op_offset + 1

    def skip_to(self, op_offset: int) -> None:
        """What lies before `op_offset` is used up."""
        self._end = max(self._end, op_offset)

    def progress(self, half_progress: int) -> int:
        """The first op message still needed when half messages below that are decided."""
        records = self._records
        while records and records[0][1] < half_progress:
            records.popleft()
        return records[0][0] if records else self._end

    def mark(self, offset: int) -> None:
        """A half message is decided; written soon, at once when many are."""
        self._marks.append(offset)
        self._size += len(str(offset)) + 1
        if self._size > self._live.broker.transaction_op_msg_max_size:
            self.flush()
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None:
            interval_s = self._live.broker.transaction_op_batch_interval / 1000
            self._timer = asyncio.get_running_loop().call_later(interval_s, self.flush)

    @property
    def waiting(self) -> int:
        """How many decisions are not written yet."""
        return len(self._marks)

    def flush(self) -> None:
        """Write what was collected; what cannot be written now is tried again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        marks, self._marks, self._size = self._marks, [], 0
        max_size = self._live.broker.transaction_op_msg_max_size
        for part, body in encode_marks(marks, max_size):
            try:
                result = self._writer.put(self._op_message(body))
            except Exception:
                # Who decided has been answered: the decision must not be lost here.
                logger.exception("decisions not written yet")
                self._keep(part)
                continue
            if result.status is PutStatus.PUT_OK:
                self.note_record(result.queue_offset, part)
            else:
                logger.warning("decisions not written yet: %s", result.status.name)
                self._keep(part)

    def _keep(self, offsets: list[int]) -> None:
        """Have decisions written with the next ones, or a few seconds from now."""
        self._marks += offsets
        self._size += sum(len(str(offset)) + 1 for offset in offsets)
        self._set_timer()

    def begin(self) -> None:
        """Know nothing of the queue; what could not be written before is asked about again."""
        self._marks = []
        self._size = 0
        self._records.clear()
        self._end = 0

    def close(self) -> None:
        """Write what was collected, once; nothing more comes."""
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._marks:
            logger.error("%d decisions could not be written", len(self._marks))

    def _op_message(self, body: bytes) -> MessageInner:
        return MessageInner(
            topic=TRANSACTION_OP_TOPIC,
            queue_id=0,
            born_timestamp=self._clock.now_ms(),
            born_host=self._host,
            store_host=self._host,
            body=body,
            properties=_PROPERTIES,
        )
