"""Settings for the whole suite."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from rocketq.cli.version import compiled_modules

# How long one example takes says more about the machine's other work than about the code.
settings.register_profile("rocketq", deadline=None)
settings.load_profile("rocketq")


def pytest_report_header() -> str | None:
    """Say it when the suite is not about the compiled modules, unless that was asked for."""
    if compiled_modules() or os.environ.get("ROCKETQ_PURE") == "1":
        return None
    return "rocketq is not compiled here: the suite runs on the sources (see docs/compiled.md)"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down what failed where somebody wants to run it again, alone."""
    file = os.environ.get("ROCKETQ_FAILED_TESTS")
    if file and report.failed:
        with Path(file).open("a") as failed:
            failed.write(f"{report.nodeid}\n")


@pytest.fixture(autouse=True)
def _logs_at_their_usual_level() -> Iterator[None]:
    """A command sets up the logs of its process, which here is that of all tests."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    root.setLevel(logging.WARNING)
    yield
    root.setLevel(logging.WARNING)
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)
