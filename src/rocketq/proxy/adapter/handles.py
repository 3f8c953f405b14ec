"""What clients are given to hold, and hand back: receipts of messages, ids of transactions.

receipt       that of a pop, and behind it the message's place in the log
transaction   base64 of "t1 <broker> <half offset> <log position> <message id>", which is all
              a proxy must know to end it, so any proxy can; "c1" when a broker asked
"""

import base64
import binascii
from typing import Final, NamedTuple

from rocketq.client.consumer.pop.receipt import PopReceipt
from rocketq.common.numbers import INT64_MAX, parse_natural
from rocketq.message.pop_topics import RetryKind, real_topic

_LONGEST: Final = 2_048
UNKNOWN_POSITION: Final = -1


class ReceiptHandle(NamedTuple):
    """A popped message, as its broker knows it."""

    receipt: PopReceipt
    log_position: int = UNKNOWN_POSITION

    @classmethod
    def decode(cls, text: str) -> "ReceiptHandle | None":
        """None for anything that is no handle."""
        words = text.split(" ") if len(text) <= _LONGEST else []
        if len(words) not in (8, 9) or words[4] not in RetryKind.ALL or not words[5]:
            return None
        numbers = [parse_natural(word, INT64_MAX) for word in (*words[:4], *words[6:8])]
        position: int | None = UNKNOWN_POSITION
        if len(words) == 9 and words[8] != str(UNKNOWN_POSITION):
            position = parse_natural(words[8], INT64_MAX)
        start, pop_time, invisible, revive_queue, queue_id, offset = numbers
        if (
            start is None
            or pop_time is None
            or invisible is None
            or revive_queue is None
            or queue_id is None
            or offset is None
            or position is None
        ):
            return None
        receipt = PopReceipt(
            *(start, pop_time, invisible, revive_queue, words[4], words[5]), *(queue_id, offset)
        )
        return cls(receipt, position)

    def __str__(self) -> str:
        return f"{self.receipt} {self.log_position}"

    @property
    def place(self) -> tuple[str, int, int, str]:
        """Which message, whatever the pop."""
        receipt = self.receipt
        return receipt.broker_name, receipt.queue_id, receipt.offset, receipt.retry_kind

    def is_expired(self, now_ms: int) -> bool:
        return self.receipt.visible_again_ms <= now_ms

    def topic(self, group: str, topic: str) -> str:
        """Where the message lies."""
        return real_topic(group, topic, self.receipt.retry_kind)


class TransactionHandle(NamedTuple):
    """A half message, and whether its broker asked about it."""

    broker_name: str
    half_offset: int
    log_position: int
    message_id: str
    was_asked: bool = False

    def encode(self) -> str:
        kind = "c1" if self.was_asked else "t1"
        text = f"{kind} {self.broker_name} {self.half_offset} {self.log_position} {self.message_id}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> "TransactionHandle | None":
        """None for anything that is no handle."""
        if len(text) > _LONGEST:
            return None
        try:
            words = base64.b64decode(text.encode(), altchars=b"-_", validate=True).decode()
        except (binascii.Error, UnicodeError):
            return None
        parts = words.split(" ", 4)
        if len(parts) != 5 or parts[0] not in ("t1", "c1") or not all(parts):
            return None
        half_offset, position = parse_natural(parts[2]), parse_natural(parts[3])
        if half_offset is None or position is None:
            return None
        return cls(parts[1], half_offset, position, parts[4], parts[0] == "c1")
