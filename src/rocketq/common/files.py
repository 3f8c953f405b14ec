"""Small files that must survive a crash: written whole or not at all.

    name       the current content
    name.bak   the content before the last change
    name.tmp   a write under way; worthless after a crash

RocketMQ keeps its JSON tables this way, and reads the backup when the file is missing,
empty or damaged.
"""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


def write_atomically(
    path: Path, data: bytes | Iterable[bytes], *, keep_backup: bool = True
) -> None:
    """Replace a file's content; the old content stays readable in `.bak`.

    At every instant either the old or the new content is complete on the disk under one
    of the two names.
    """
    make_folder(path.parent)
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        if isinstance(data, bytes):
            file.write(data)
        else:
            file.writelines(data)
        file.flush()
        os.fsync(file.fileno())
    if keep_backup and path.exists():
        os.replace(path, backup_of(path))
    os.replace(temporary, path)
    _sync_folder(path.parent)


def read_with_backup(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """Decode a file, or its backup when the file is missing, empty or damaged.

    `None` when there is neither. When nothing can be decoded, the error of the file
    itself is raised: a damaged table must not pass for an empty one.
    """
    damage: Exception | None = None
    for candidate in (path, backup_of(path)):
        try:
            data = candidate.read_bytes()
        except FileNotFoundError:
            continue
        if not data.strip():
            logger.warning("%s is empty", candidate)
            continue
        try:
            decoded = decode(data)
        except Exception as error:
            logger.warning("%s cannot be read: %s", candidate, error)
            damage = damage or error
            continue
        if candidate is not path:
            logger.warning("%s was read in place of %s", candidate, path)
        return decoded
    if damage is not None:
        raise damage
    return None


def backup_of(path: Path) -> Path:
    """Where the content before the last change is kept."""
    return path.with_name(path.name + ".bak")


def make_folder(folder: Path) -> None:
    """Make a directory, and those above it that are missing, for good.

    Its name lives in the directory above: until that is synced, a loss of power can take the name,
    and with it whatever was synced below.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Make renames durable; a rename lives in the folder, not in the file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
