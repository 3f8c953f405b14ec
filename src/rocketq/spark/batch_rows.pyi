from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from rocketq.common.buffers import Buffer

class UnfitRow(ValueError):
    row: int
    def __init__(self, row: int, why: str) -> None: ...

@final
class Texts:
    def __init__(
        self, validity: Buffer | None, offsets: Buffer, data: Buffer, shift: int
    ) -> None: ...

@final
class BatchRows:
    def __init__(
        self,
        count: int,
        bodies: Texts,
        tags: Texts | None,
        keys: Texts | None,
        properties: tuple[Sequence[int], Texts, Texts] | None,
        reserved: frozenset[bytes],
        prefix: bytes,
        first_row: int,
    ) -> None: ...
    @property
    def count(self) -> int: ...
    def encode(
        self,
        rows: Sequence[int] | npt.NDArray[np.int32] | None,
        begin: int,
        max_bytes: int,
        max_messages: int,
    ) -> tuple[bytearray, int]: ...
