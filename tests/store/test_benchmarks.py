"""The benchmarks of the store run, so that they cannot rot."""

from pathlib import Path

import pytest
from benchmarks.bench_store import Bench, run


@pytest.mark.parametrize("part", ["append", "read", "recovery", "queues"])
async def test_the_benchmarks_run_small(tmp_path: Path, part: str) -> None:
    bench = Bench(is_smoke=True, folder=tmp_path)
    await run(bench, [part])
    assert bench.results
    assert all(value > 0 for value in bench.results.values())
