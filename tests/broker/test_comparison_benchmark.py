"""The parts of `make bench` that need no Java, run small so that they cannot rot."""

from pathlib import Path

from benchmarks.flood import flood
from benchmarks.report import page
from benchmarks.scenarios import scenarios

from rocketq.testing import LocalBroker


def test_every_message_of_a_one_way_flood_is_stored(rocketq_broker: LocalBroker) -> None:
    figures = flood(rocketq_broker.namesrv, 20_000)
    assert figures["sent"] == figures["stored"] == 20_000


def test_the_page_compares_medians_with_the_goals(tmp_path: Path) -> None:
    lines = [
        {"system": system, "scenario": "sync-64", "round": number, **figures}
        for system, costs in (("java", (70.0, 60.0, 65.0)), ("rocketq", (9.0, 5.0, 8.0)))
        for number, cost in enumerate(costs, 1)
        for figures in [{"tps": 50_000 / cost, "broker_cpu_s_per_million": cost, "errors": 0}]
    ]
    text = page(lines, scenarios(quick=True), 3, tmp_path / "charts")
    assert "| sync, 64 threads | 8.1x reached | 1/8.1 reached | - | - |" in text
    assert "| 8.0 (5.0-9.0) |" in text
    assert "benchmarks-growth.md" not in text, "that page does not exist here"
    assert (tmp_path / "charts" / "cpu.svg").read_text().startswith("<svg")
