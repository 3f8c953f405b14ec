"""The curves of how costs grow, run small so that they cannot rot."""

import json
from pathlib import Path

import pytest
from benchmarks import growth
from benchmarks.growth_curves import Point, Scale

TINY = Scale(messages=300, slices=1, idle_s=0.05, volume_mb=1)
STEPS: dict[str, tuple[float, ...]] = {
    "topics": (1, 4),
    "active-connections": (1, 3),
    "groups": (1, 2),
    "backlog": (0.002,),
    "held-pulls": (0, 3),
    "invisible": (0, 64),
    "timers": (0, 50),
}


@pytest.mark.parametrize("name", sorted(STEPS))
async def test_a_curve_has_a_figure_for_each_step(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    points = await growth.answer(growth.QUESTIONS[name], STEPS[name], TINY, folder)
    assert [point.x for point in points] == list(STEPS[name])
    assert all(point.cpu_s_per_million > 0 and point.messages_per_s > 0 for point in points)
    assert not folder.exists()


def test_the_page_says_what_is_flat_and_shows_every_curve(tmp_path: Path) -> None:
    answers = {
        "topics": [Point(1, 4.0, 100_000), Point(10_000, 4.4, 90_000)],
        "delayed": [Point(0, 4.0, 9e4, {"idle CPU %": 0.1}), Point(10, 8, 9e4, {"idle CPU %": 1})],
    }
    growth.write(answers, tmp_path, tmp_path / "raw" / "growth.jsonl")
    page = (tmp_path / "benchmarks-growth.md").read_text()
    assert "| [Topics](#topics) | 1 | 10,000 | 4.00 | 4.40 | 1.10, flat |" in page
    assert "Last / first: 2.00." in page
    assert "idle CPU %" in page
    for name in answers:
        chart = (tmp_path / "charts" / f"growth-{name}.svg").read_text()
        assert "<polyline" in chart
        assert f"charts/growth-{name}.svg" in page
    lines = (tmp_path / "raw" / "growth.jsonl").read_text().splitlines()
    assert [json.loads(line)["x"] for line in lines] == [1, 10_000, 0, 10]


def test_a_smaller_backlog_is_the_last_step_of_its_curve() -> None:
    question = growth.QUESTIONS["backlog"]
    assert growth.steps_of(question, quick=False, backlog_gb=3) == (0.25, 1, 3)
    assert growth.steps_of(question, quick=True, backlog_gb=3) == question.quick_steps


def test_curves_that_were_measured_before_are_found_again(tmp_path: Path) -> None:
    raw = tmp_path / "growth.jsonl"
    assert growth.measured_before(raw) == {}
    points = [Point(1, 4.5, 100.0), Point(10, 5.25, 90.0, {"idle CPU %": 0.5})]
    growth.write({"topics": points}, tmp_path / "docs", raw)
    assert growth.measured_before(raw) == {"topics": points}
