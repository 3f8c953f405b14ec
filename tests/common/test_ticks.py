"""The time of hot modules: that of the computer, and the same functions in C and in Python."""

import inspect
import re
import time
from pathlib import Path

from rocketq.common import ticks


def test_it_is_the_time_of_the_computer() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= ticks.now_ms() <= time.time_ns() // 1_000_000
    earlier = time.monotonic_ns()
    assert earlier <= ticks.monotonic_ns() <= time.monotonic_ns()


def test_c_and_python_have_the_same_functions() -> None:
    written = {name for name, _ in inspect.getmembers(ticks, inspect.isfunction)}
    pxd = Path(inspect.getfile(ticks)).with_suffix(".pxd").read_text()
    assert set(re.findall(r"^cdef inline long long (\w+)\(", pxd, re.MULTILINE)) == written
