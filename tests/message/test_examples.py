"""The examples in the docstrings."""

import doctest

import pytest

from rocketq.message import hashing, message, names

MODULES = [hashing, message, names]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_examples_run(module: object) -> None:
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner()
    examples = 0
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == getattr(module, "__name__", None):
            for found in finder.find(value, name, globs=dict(vars(module))):
                examples += len(found.examples)
                runner.run(found)
    assert examples
    assert runner.summarize(verbose=False).failed == 0
