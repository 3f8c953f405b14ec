"""What was in the way, and might be missed by somebody: kept, and never read again.

    <root>/aside/commitlog-00000000000000004711        bytes of the log from a position on
    <root>/aside/commitlog-00000000000000004711-1      the same, another time
    <root>/aside/00000000001073741824                  a whole file

A store goes on where its log can be trusted to end. If there is anything behind that place that
was once known to be on the disk, or that looks like a message, it is put here before its place
is used again. Nothing here is ever deleted by a store.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from rocketq.common.files import make_folder
from rocketq.store.files.segment import Segment

FOLDER_NAME: Final = "aside"
_PIECE: Final = 1 << 20


class Aside:
    """Owned by the store."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER_NAME

    def take_file(self, path: Path) -> Path:
        """Move a file here, which may be on another disk; returns where it is now."""
        goal = self._free_name(path.name)
        shutil.move(path, goal)
        self._sync(goal.parent)
        return goal

    def copy_from(self, segment: Segment, position: int, end: int | None = None) -> Path | None:
        """Copy what a file holds from a position on; None if that is nothing but zeros."""
        ranges = segment.data_ranges(position, segment.end if end is None else end)
        if not any(any(segment.slice(start, end - start)) for start, end in ranges):
            return None
        goal = self._free_name(f"commitlog-{position:020d}")
        unfinished = goal.with_name(goal.name + ".tmp")
        with open(unfinished, "wb") as file:
            for start, end in ranges:
                file.seek(start - position)
                for at in range(start, end, _PIECE):
                    file.write(segment.slice(at, min(_PIECE, end - at)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, goal)
        self._sync(goal.parent)
        return goal

    def _free_name(self, name: str) -> Path:
        make_folder(self._folder)
        goal = self._folder / name
        number = 0
        while goal.exists():
            number += 1
            goal = self._folder / f"{name}-{number}"
        return goal

    def _sync(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
