"""Looks at all objects are short, or what has passed one is not looked at again."""

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


def test_what_has_passed_a_long_look_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    promptness.be_prompt()
    kept = [[number] for number in range(1_000)]
    before = gc.get_freeze_count()
    monkeypatch.setattr(promptness, "_LONG_S", 3_600.0)
    gc.collect()
    # Of what other tests have left, some may be gone by now.
    assert gc.get_freeze_count() <= before
    before = gc.get_freeze_count()
    monkeypatch.setattr(promptness, "_LONG_S", 0.0)
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


def test_asking_twice_watches_once() -> None:
    promptness.be_prompt()
    count = len(gc.callbacks)
    promptness.be_prompt()
    assert len(gc.callbacks) == count
