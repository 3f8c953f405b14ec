"""What the commands leave behind in this process, put back."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A command sets up the logs of its process, which here is that of all tests."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)
