"""The receipt of a popped message: what its consumer needs to acknowledge it.

    start-offset pop-time invisible-time revive-queue retry-kind broker queue [offset]

Blank separated. The client makes it of the pop's answer and sends it back as `extraInfo`;
nothing in it can be trusted more than any other text.
"""

from typing import Final, NamedTuple

from rocketq.common.numbers import INT32_MAX, INT64_MAX, parse_natural
from rocketq.message.pop_topics import RetryKind
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected

ORDERED_QUEUE: Final = 999
"""Stands for a revive queue where order is kept: there is no check point."""

_LONGEST: Final = 1_024


class Receipt(NamedTuple):
    """One popped message, or all of one pop from one queue."""

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue: int
    retry_kind: str
    broker_name: str

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue == ORDERED_QUEUE

    @property
    def revive_time(self) -> int:
        return self.pop_time + self.invisible_time

    @classmethod
    def parse(cls, text: str, revive_queues: int) -> "Receipt":
        """Raises `RequestRejected` for what no pop here has given out."""
        words = text.split(" ") if len(text) <= _LONGEST else []
        if len(words) >= 6:
            start_offset = parse_natural(words[0])
            pop_time = parse_natural(words[1], INT64_MAX // 2)
            invisible_time = parse_natural(words[2], INT64_MAX // 2)
            revive_queue = parse_natural(words[3], INT32_MAX)
            if (
                start_offset is not None
                and pop_time is not None
                and invisible_time is not None
                and revive_queue is not None
                and (revive_queue < revive_queues or revive_queue == ORDERED_QUEUE)
                and words[4] in RetryKind.ALL
            ):
                return cls(start_offset, pop_time, invisible_time, revive_queue, words[4], words[5])
        raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, "the receipt is not one of a pop")
