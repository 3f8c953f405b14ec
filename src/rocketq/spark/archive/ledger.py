"""What an archive holds: the list of its files, as a row of small commits.

    DIR/ledger/00000000000000000000.json      what a commit adds and removes, numbered
    DIR/data/topic=orders/day=2026-01-31/broker-a-0-1200-1800.parquet

A file has the messages of one queue from `start` to before `end`, of one day, in order. Files count
when a commit names them; what else lies in `data` is left over from a crash. A commit appears under
its number at once and whole, or not: two archivers at work on one archive would both want the same
number, and only one gets it.
"""

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue

_LEDGER: Final = "ledger"
DATA: Final = "data"


class ArchiveInUse(RocketqError):
    """Somebody else has changed the archive meanwhile."""


class NoArchive(RocketqError):
    """A folder without an archive in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """One file, and what is in it."""

    path: str  # below `data`
    topic: str
    broker: str
    queue_id: int
    start: int
    end: int
    rows: int
    size: int
    first_ms: int  # store times
    last_ms: int
    day: str

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker, self.queue_id)


class Ledger:
    """The commits of an archive. One archiver writes it, anybody reads it."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self._clock = clock
        self._next = 0
        self._files: dict[str, ArchivedFile] = {}
        self._ends: dict[MessageQueue, int] = {}
        self._removed: dict[str, float] = {}

    @classmethod
    def opened(
        cls, root: Path, *, create: bool = False, clock: Callable[[], float] = time.time
    ) -> "Ledger":
        if create:
            (root / _LEDGER).mkdir(parents=True, exist_ok=True)
            (root / DATA).mkdir(exist_ok=True)
        if not (root / _LEDGER).is_dir():
            raise NoArchive(f"{root} is no archive: `rocketq archive run` makes one")
        ledger = cls(root, clock)
        ledger.refresh()
        return ledger

    def refresh(self) -> None:
        """Take in the commits that are new."""
        while True:
            try:
                text = self._commit_path(self._next).read_text(encoding="utf-8")
            except FileNotFoundError:
                return
            self._take_in(json.loads(text))
            self._next += 1

    def _take_in(self, commit: dict[str, Any]) -> None:
        for path in commit["remove"]:
            self._files.pop(path, None)
            self._removed[path] = commit["at"]
        for each in commit["add"]:
            file = ArchivedFile(**each)
            self._files[file.path] = file
            self._removed.pop(file.path, None)
            self._ends[file.queue] = max(file.end, self._ends.get(file.queue, 0))

    # What there is

    @property
    def files(self) -> list[ArchivedFile]:
        """By queue and offset."""
        return sorted(self._files.values(), key=lambda file: (file.queue, file.start))

    def ends(self) -> dict[MessageQueue, int]:
        """How far each queue has been archived, whatever was removed since."""
        return dict(self._ends)

    def removed_before(self, moment: float) -> list[str]:
        """Files that have not counted since then."""
        return [path for path, at in self._removed.items() if at < moment]

    def forget(self, path: str) -> None:
        self._removed.pop(path, None)

    def data_path(self, path: str) -> Path:
        return self.root / DATA / path

    # What is new

    def commit(self, add: Iterable[ArchivedFile] = (), remove: Iterable[str] = ()) -> None:
        """Let files count, and others no longer, in one step."""
        said = {
            "at": self._clock(),
            "add": [asdict(file) for file in add],
            "remove": list(remove),
        }
        target = self._commit_path(self._next)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        with open(draft, "w", encoding="utf-8") as out:
            json.dump(said, out)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, target)
        except FileExistsError:
            raise ArchiveInUse(f"another archiver works on {self.root}") from None
        finally:
            draft.unlink()
        sync_folder(target.parent)
        self._take_in(said)
        self._next += 1

    def _commit_path(self, number: int) -> Path:
        return self.root / _LEDGER / f"{number:020d}.json"


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
