from typing import final

import numpy as np
import numpy.typing as npt

from rocketq.common.buffers import Buffer

class UnfitRow(ValueError):
    row: int
    def __init__(self, row: int, why: str) -> None: ...

@final
class Numbers:
    def __init__(self, buffer: Buffer | npt.NDArray[np.int32]) -> None: ...
    @property
    def count(self) -> int: ...

@final
class Texts:
    def __init__(
        self, validity: Buffer | None, offsets: Buffer, data: Buffer, shift: int
    ) -> None: ...
    def java_hashes(self, count: int) -> bytearray: ...

@final
class BatchRows:
    def __init__(
        self,
        count: int,
        bodies: Texts,
        tags: Texts | None,
        keys: Texts | None,
        sharding_keys: Texts | None,
        properties: tuple[Numbers, Texts, Texts] | None,
        flags: Numbers | None,
        reserved: frozenset[bytes],
        prefix: bytes,
        first_row: int,
    ) -> None: ...
    @property
    def count(self) -> int: ...
    def encode(
        self, rows: Numbers | None, begin: int, max_bytes: int, max_messages: int
    ) -> tuple[bytearray, int]: ...
