"""A broker that is always busy neither grows nor slows down; and what the page says of one."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import endurance
from benchmarks.endurance import Sample

USUAL = Sample(
    minute=0.0,
    memory_mb=40.0,
    descriptors=80,
    threads=9,
    sent_per_s=50_000,
    send_p50_ms=1.0,
    send_p99_ms=3.0,
    through_p50_ms=2.0,
    store_mb=800.0,
    topics_made=10,
    clients_gone=20,
    cpu_percent=90,
)


def test_what_grows_is_named_on_the_page(tmp_path: Path) -> None:
    samples = [
        replace(USUAL, minute=number / 10, memory_mb=40.0 + number, topics_made=number)
        for number in range(1, 41)
    ]
    assert set(endurance.grown(samples)) == {"memory_mb"}
    endurance.write(samples, tmp_path / "endurance.md", "something else ran beside it")
    page = (tmp_path / "endurance.md").read_text()
    assert "| anonymous memory, MB | 55.5 | 75.5 | 1.36 |" in page
    assert "| threads | 9 | 9 | 1.00, flat |" in page
    assert "something else ran beside it" in page
    for name in endurance.CHARTS:
        assert (tmp_path / "charts" / f"{name}.svg").read_text().startswith("<svg")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a small disk of its own")
async def test_a_busy_broker_does_not_grow(tmp_path: Path) -> None:
    """ROCKETQ_ENDURANCE_MINUTES makes it another time."""
    minutes = float(os.environ.get("ROCKETQ_ENDURANCE_MINUTES", "5"))
    samples = await endurance.endure(tmp_path, minutes)
    assert samples[-1].topics_made
    assert endurance.grown(samples) == {}
