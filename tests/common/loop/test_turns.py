"""Long work in turns."""

import asyncio
import contextlib

import pytest

from rocketq.common.loop.turns import Turns


class Clockwork:
    """A clock that moves with every look at it."""

    def __init__(self, step_s: float) -> None:
        self.now_s = 0.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


async def collect(turns: Turns, name: str, count: int, done: list[str]) -> None:
    async for number in turns.over(range(count)):
        done.append(f"{name}{number}")  # noqa: PERF401 - each is seen as it is done


async def test_nothing_is_left_out_and_others_get_their_turns() -> None:
    turns = Turns(1.0, Clockwork(0.3))
    done: list[str] = []
    rounds = 0
    work = asyncio.create_task(collect(turns, "a", 100, done))
    while not work.done():
        await asyncio.sleep(0)
        rounds += 1
    assert done == [f"a{number}" for number in range(100)]
    assert rounds > 20


async def test_long_works_take_turns_slice_by_slice() -> None:
    """However many there are, no two of them work in one turn of the loop."""
    turns = Turns(1.0, Clockwork(0.6))
    done: list[str] = []
    work = [asyncio.create_task(collect(turns, name, 10, done)) for name in "abc"]
    most = 0
    while not all(task.done() for task in work):
        before = len(done)
        await asyncio.sleep(0)
        most = max(most, len(done) - before)
    assert sorted(done) == sorted(f"{name}{number}" for name in "abc" for number in range(10))
    assert most <= 4
    assert done.index("b0") < done.index("a9")


async def test_work_that_is_given_up_lets_others_go_on() -> None:
    turns = Turns(1.0, Clockwork(0.6))

    async def fail() -> None:
        async for _ in turns.over(range(10)):
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        await fail()
    endless = asyncio.create_task(collect(turns, "x", 10**9, []))
    await asyncio.sleep(0)
    endless.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await endless
    done: list[str] = []
    async with asyncio.timeout(10):
        await collect(turns, "a", 3, done)
    assert len(done) == 3
