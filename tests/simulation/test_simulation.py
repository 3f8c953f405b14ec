"""The simulated cluster: short runs of it, its being repeatable, and what its checks find."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def simulate(*options: str, pure: bool = False) -> tuple[int, str]:
    environment = {**os.environ, **({"ROCKETQ_PURE": "1"} if pure else {})}
    done = subprocess.run(
        [sys.executable, "-m", "simulation", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def digest(text: str) -> str:
    found = re.search(r"; ([0-9a-f]{16})$", text, re.MULTILINE)
    assert found is not None, text
    return found[1]


def test_some_seeds_keep_every_promise() -> None:
    code, text = simulate("--seed", "1", "--seeds", "12", "--minutes", "0.15")
    assert code == 0, text


def test_a_slave_that_has_more_than_its_master_kept_stands_aside() -> None:
    code, text = simulate("--seed", "1077", "--minutes", "0.3", "--verbose")
    assert code == 0, text
    assert "they have parted before" in text


def test_the_same_seed_gives_the_same_history() -> None:
    runs = [simulate("--seed", "3", "--minutes", "0.1")[1] for _ in range(2)]
    assert digest(runs[0]) == digest(runs[1])


@pytest.mark.parametrize(
    ("mutant", "shape", "seed"),
    [
        ("sync_nothing", "SYNC_FLUSH", 1),
        ("skip_the_slave", "PAIR", 1),
        ("damage_on_the_way", "PAIR", 1),
    ],
)
def test_a_planted_mistake_is_found(mutant: str, shape: str, seed: int) -> None:
    code, text = simulate(
        *("--mutant", mutant, "--shape", shape, "--seed", str(seed)),
        *("--seeds", "20", "--first", "--minutes", "0.1"),
        pure=True,
    )
    assert code == 1, text
    assert "!" in text
