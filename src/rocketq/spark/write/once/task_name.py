"""The name of what one task writes."""

import hashlib
from dataclasses import dataclass
from typing import Final

BATCH_PROPERTY: Final = "SPARK_BATCH"
"""What a row of a transactional batch says of it: the sink's tag, a colon, the batch's number."""

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

    @property
    def sink_tag(self) -> str:
        """The sink, as a tag of what is left beside the rows."""
        return hashlib.blake2b(self.sink.encode(), digest_size=12).hexdigest()

    @property
    def label(self) -> str:
        """What rows say of their batch (`BATCH_PROPERTY`)."""
        return f"{self.sink_tag}:{self.batch}"

    def attempt_prefix(self, attempt: str) -> bytes:
        """What the unique keys of one attempt's rows begin with."""
        return (self.prefix + attempt[:4].upper()).encode()
