"""Looks at all objects are short, or what has passed one is not looked at again."""

import asyncio
import gc
import sys
from collections.abc import Iterator

import pytest

from rocketq.common.loop import promptness


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    interval = sys.getswitchinterval()
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    gc.unfreeze()
    sys.setswitchinterval(interval)


async def _looked_at_all() -> None:
    """A look at what is new, and the turn in which everything is looked at."""
    gc.collect(0)
    await asyncio.sleep(0)


async def test_what_has_passed_a_long_look_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    promptness.be_prompt()
    kept = [[number] for number in range(1_000)]
    before = gc.get_freeze_count()
    monkeypatch.setattr(promptness, "_LONG_S", 3_600.0)
    await _looked_at_all()
    # Of what other tests have left, some may be gone by now.
    assert gc.get_freeze_count() <= before
    before = gc.get_freeze_count()
    monkeypatch.setattr(promptness, "_LONG_S", 0.0)
    await _looked_at_all()
    assert gc.get_freeze_count() >= before + len(kept)


async def test_everything_is_looked_at_when_some_has_been_kept_and_not_by_python() -> None:
    promptness.be_prompt()
    looks: list[int] = []
    gc.callbacks.append(
        lambda phase, about: looks.append(about["generation"]) if phase == "start" else None
    )
    kept = [[number] for number in range(100_000)]
    assert 2 not in looks
    await asyncio.sleep(0)
    assert looks.count(2) == 1
    assert len(kept) == 100_000


async def test_asking_twice_watches_once() -> None:
    promptness.be_prompt()
    count = len(gc.callbacks)
    promptness.be_prompt()
    assert len(gc.callbacks) == count


def test_a_loop_that_is_closed_is_not_asked() -> None:
    async def server() -> None:
        promptness.be_prompt()

    asyncio.run(server())
    gc.collect(0)
