"""A server whose loop's beat is taken: how long was the longest time between two looks at events?

    python -m tests.beat NOTES broker --set ...

The loop is asked to call back every other millisecond. What passes beyond that is one turn of
it, and while a turn lasts everybody waits. Two figures are kept in the file NOTES: the processor
time that the loop's thread took, and the time that it did not leave to others: working, or
waiting for a disk or a thread of its own, but not for a processor that another program had.
Whoever reads them sets them back.
"""

import asyncio
import gc
import mmap
import os
import struct
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Final, NamedTuple

from rocketq.cli.servers import serving
from rocketq_command import rocketq

EVERY_S: Final = 0.002
_LONG_S: Final = 0.03
_FIGURES: Final = struct.Struct("<dd")
_PLACE_SIZE: Final = 4_000
_SIZE: Final = _FIGURES.size + _PLACE_SIZE


class LongestTurn(NamedTuple):
    held_s: float
    """By the clock on the wall, without what others took."""
    worked_s: float
    """By the clock of the processor."""
    where: str


class Notes:
    """The figures of one server, shared with whoever watches it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)

    def read(self) -> LongestTurn:
        where = self._map[_FIGURES.size :].rstrip(b"\0").decode(errors="replace")
        held_s, worked_s = _FIGURES.unpack_from(self._map)
        return LongestTurn(held_s, worked_s, where)

    def write(self, turn: LongestTurn) -> None:
        _FIGURES.pack_into(self._map, 0, turn.held_s, turn.worked_s)
        self._map[_FIGURES.size :] = turn.where.encode()[-_PLACE_SIZE:].ljust(_PLACE_SIZE, b"\0")

    def reset(self) -> None:
        self.write(LongestTurn(0.0, 0.0, ""))


class Beat:
    """Belongs to the loop; a thread looks what a long turn is about."""

    def __init__(self, loop: asyncio.AbstractEventLoop, notes: Notes) -> None:
        self._loop = loop
        self._notes = notes
        self._thread = threading.get_ident()
        own = f"/proc/self/task/{threading.get_native_id()}/schedstat"
        self._scheduling = os.open(own, os.O_RDONLY)
        self._seen = self._collections = ""
        self._collection_at = 0.0
        self._start()
        gc.callbacks.append(self._collecting)
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self) -> None:
        self._at, self._worked = time.perf_counter(), time.thread_time()
        self._queued = self._queued_s()
        self._loop.call_later(EVERY_S, self._beat)

    def _queued_s(self) -> float:
        """How long the thread could have run and had no processor."""
        return int(os.pread(self._scheduling, 100, 0).split()[1]) / 1e9

    def _beat(self) -> None:
        passed = time.perf_counter() - self._at - EVERY_S
        worked = time.thread_time() - self._worked
        held = max(passed - (self._queued_s() - self._queued), 0.0)
        before = self._notes.read()
        if worked > before.worked_s or held > before.held_s:
            where = self._collections + self._seen
            self._notes.write(
                LongestTurn(max(held, before.held_s), max(worked, before.worked_s), where)
            )
        self._seen = self._collections = ""
        self._start()

    def _collecting(self, phase: str, about: dict[str, int]) -> None:
        """The garbage collector stops everything, in whatever thread it runs."""
        if phase == "start":
            self._collection_at = time.perf_counter()
        else:
            took = time.perf_counter() - self._collection_at
            if took > _LONG_S / 2:
                self._collections += (
                    f"collection {about['generation']}: {took * 1000:.0f} ms,"
                    f" {about['collected']} objects\n"
                )

    def _watch(self) -> None:
        while True:
            time.sleep(0.01)
            if time.perf_counter() - self._at > _LONG_S:
                frame = sys._current_frames().get(self._thread)
                self._seen = "".join(traceback.format_stack(frame)[-6:])


def _measured(runner: asyncio.Runner, notes: Notes) -> asyncio.Runner:
    loop = runner.get_loop()
    loop.call_soon(Beat, loop, notes)
    return runner


if __name__ == "__main__":
    notes = Notes(Path(sys.argv.pop(1)))
    plain_runner = serving._runner
    serving._runner = lambda: _measured(plain_runner(), notes)
    rocketq()
