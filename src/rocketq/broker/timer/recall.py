"""Recall handles: what a producer keeps to take a timed message back.

    base64 of "v1 <topic> <broker name> <deliver ms> <unique key>"

URL-safe, with padding. The time is one millisecond behind the message's tick, so that a delete
marker for it lands in the same slot.
"""

import base64
import binascii
from typing import Final, NamedTuple

from rocketq.common.numbers import parse_natural

_HANDLE_LIMIT: Final = 2_048
"""A topic and a broker name of full length, and a unique key of a few hundred characters."""


class RecallHandle(NamedTuple):
    """Which message, and where it waits."""

    topic: str
    broker_name: str
    deliver_ms: int
    unique_key: str

    def encode(self) -> str:
        text = f"v1 {self.topic} {self.broker_name} {self.deliver_ms} {self.unique_key}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> "RecallHandle | None":
        """None for anything that is no handle."""
        if len(text) > _HANDLE_LIMIT:
            return None
        try:
            words = base64.b64decode(text.encode(), altchars=b"-_", validate=True).decode()
        except (binascii.Error, UnicodeError):
            return None
        parts = words.split(" ")
        if len(parts) != 5 or parts[0] != "v1" or not all(parts):
            return None
        deliver_ms = parse_natural(parts[3])
        return None if deliver_ms is None else cls(parts[1], parts[2], deliver_ms, parts[4])
