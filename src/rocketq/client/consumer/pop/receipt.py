"""The receipt of a popped message: what its broker wants to see with the acknowledgement.

    start-offset pop-time invisible-time revive-queue retry-kind broker queue offset

Made of the pop's answer (`popped.py`), kept in the message's property POP_CK, and made anew when
the message gets more time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rocketq.client.errors import InvalidMessage
from rocketq.common.numbers import parse_natural
from rocketq.message.message import MessageExt
from rocketq.message.pop_topics import RetryKind
from rocketq.message.properties.codec import PropertyName

_WORDS: Final = 8


class PopReceipt(NamedTuple):
    """One popped message, as its broker knows it."""

    start_offset: int
    """The first offset that this pop took from the queue."""
    pop_time: int
    invisible_time: int
    revive_queue: int
    retry_kind: str
    broker_name: str
    queue_id: int
    offset: int

    @classmethod
    def of(cls, message: MessageExt) -> PopReceipt:
        """The receipt that a message carries; `InvalidMessage` if it was not popped."""
        text = message.get_property(PropertyName.POP_CHECK_POINT)
        words = (text or "").split(" ")
        if len(words) == _WORDS - 1:  # of brokers that leave the offset out
            words.append(str(message.queue_offset))
        if len(words) == _WORDS and words[4] in RetryKind.ALL:
            start, pop_time, invisible, revive_queue = map(parse_natural, words[:4])
            queue_id, offset = map(parse_natural, words[6:])
            if (
                start is not None
                and pop_time is not None
                and invisible is not None
                and revive_queue is not None
                and queue_id is not None
                and offset is not None
            ):
                return cls(
                    *(start, pop_time, invisible, revive_queue, words[4], words[5]),
                    *(queue_id, offset),
                )
        raise InvalidMessage(
            f"message {message.msg_id} was not received by a pop: it has no receipt"
        )

    def put_on(self, message: MessageExt) -> None:
        message.properties[PropertyName.POP_CHECK_POINT] = str(self)

    @property
    def visible_again_ms(self) -> int:
        """When others may get the message, by the broker's clock."""
        return self.pop_time + self.invisible_time

    def __str__(self) -> str:
        return " ".join(map(str, self))
