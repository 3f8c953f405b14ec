"""A page cache that fills the memory, as on every machine whose broker has run for a day.

A virtual machine may not own its free memory: the host takes it back, and hands it out again page
by page, at seconds of CPU time for a gigabyte. That is more than all else that storing one takes,
and it hits whoever runs first, or stores more. In a full cache new pages come from old ones.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MOST: Final = 64 << 30
_PIECE: Final = 8 << 20


@contextmanager
def full_page_cache(folder: Path) -> Iterator[None]:
    """Fill it by reading a file that has no blocks; in the end the file is removed."""
    filling = folder / "filling"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    piece = bytearray(_PIECE)
    with filling.open("wb+", buffering=0) as file:
        file.truncate(min(memory, _MOST))
        while file.readinto(piece):
            pass
    try:
        yield
    finally:
        filling.unlink()
