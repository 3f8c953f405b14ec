"""The name of what one task writes."""

import hashlib
from dataclasses import dataclass
from typing import Final

_PREFIX_SIZE: Final = 20
"""How much of a unique key names sink, batch and partition; four digits more name the attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskName:
    """Which rows these are: the same again after every failure."""

    sink: str
    batch: int
    partition: int
    since_ms: int = 0
    """Nobody can have tried before this time."""

    @property
    def prefix(self) -> str:
        name = f"{self.sink}/{self.batch}/{self.partition}"
        return hashlib.blake2b(name.encode(), digest_size=_PREFIX_SIZE // 2).hexdigest().upper()
