"""The loads of pop and of timers, run small so that they cannot rot."""

import asyncio
from pathlib import Path

from benchmarks import pop, timers


async def test_pops_and_timers_are_counted(tmp_path: Path) -> None:
    with pop.started("rocketq", tmp_path / "broker", (pop.MERGE,)) as running:
        popped, timed = await asyncio.gather(
            pop.drain(running, consumers=2, count=640),
            timers.measure(running, count=64, head_start_s=1.0),
        )
    assert popped["messages"] == 640
    assert popped["messages_per_s"] > 0
    assert timed["messages"] == 64
    assert -100 < timed["first_ms"] <= timed["last_ms"]


def test_medians_are_taken_by_system_and_load() -> None:
    lines: list[dict[str, object]] = [
        {"system": system, "load": "plain", "rate": rate}
        for system, rates in (("one", (1, 5, 3)), ("two", (7,)))
        for rate in rates
    ]
    assert pop.medians(lines, ("rate",)) == [
        {"system": "one", "load": "plain", "median_of": 3, "rate": 3},
        {"system": "two", "load": "plain", "median_of": 1, "rate": 7},
    ]
