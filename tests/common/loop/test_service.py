"""Background loops and clocks."""

import asyncio

import pytest

from rocketq.common.clock import SYSTEM_CLOCK, ManualClock
from rocketq.common.loop.service import asked_to_stop, running


async def test_leaving_the_block_stops_the_loop_and_waits_for_it() -> None:
    events: list[str] = []
    started = asyncio.Event()

    async def loop(stop: asyncio.Event) -> None:
        events.append("started")
        started.set()
        await stop.wait()
        events.append("stopped")

    async with running("loop", loop):
        await started.wait()
        events.append("block")
    assert events == ["started", "block", "stopped"]


async def test_a_loop_that_dies_ends_the_block() -> None:
    async def loop(stop: asyncio.Event) -> None:
        raise OSError("disk")

    with pytest.raises(ExceptionGroup) as caught:
        async with running("loop", loop):
            await asyncio.Event().wait()
    assert caught.group_contains(OSError, match="disk")


async def test_waiting_for_the_next_round_ends_early_when_asked_to_stop() -> None:
    stop = asyncio.Event()
    assert not await asked_to_stop(stop, within_s=0.001)
    stop.set()
    assert await asked_to_stop(stop, within_s=3600)


def test_a_manual_clock_moves_only_when_it_is_moved() -> None:
    clock = ManualClock(1_000)
    assert (clock.now_ms(), clock.monotonic()) == (1_000, 0.0)
    clock.advance(1_500)
    assert (clock.now_ms(), clock.monotonic()) == (2_500, 1.5)
    clock.set_wall(0)
    assert (clock.now_ms(), clock.monotonic()) == (0, 1.5)


def test_the_system_clock_tells_the_time() -> None:
    assert SYSTEM_CLOCK.now_ms() > 1_700_000_000_000
    assert SYSTEM_CLOCK.monotonic() <= SYSTEM_CLOCK.monotonic()
