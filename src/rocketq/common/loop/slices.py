"""Long work in short slices, so that nobody who shares the loop waits for all of it.

The work is a generator that yields wherever it may be interrupted, some milliseconds after
the last time, and returns its result:

    def count(lines: list[bytes]) -> Slices[int]:
        total = 0
        for number, line in enumerate(lines):
            total += len(line.split())
            if number % 1000 == 999:
                yield
        return total

    count_now = at_once(count(lines))
    count_later = await in_slices(count(lines))

Whatever it reads may have changed when it goes on: it looks again.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

Slices = Generator[None, None, T]


def at_once(work: Slices[T]) -> T:
    """Do all of it now: for little work, and for callers without a loop."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def in_slices(work: Slices[T]) -> T:
    """Do it a slice at a time, and let others have their turn in between."""
    try:
        while True:
            next(work)
            await asyncio.sleep(0)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        work.close()


class Done(NamedTuple, Generic[T]):
    """What came of work that is done."""

    result: T


def begin(work: Slices[T], is_enough: Callable[[], bool]) -> Done[T] | None:
    """Do it now as long as it is not enough; None where something is left to do."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return Done(end.value)
        if is_enough():
            return None
