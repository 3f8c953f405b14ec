"""The examples in the docstrings."""

import doctest

from rocketq.filter import sql, tags


def test_examples_run() -> None:
    for module in (sql, tags):
        result = doctest.testmod(module)
        assert result.attempted
        assert result.failed == 0
