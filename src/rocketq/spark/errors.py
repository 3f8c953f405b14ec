"""How a failure of ours reaches the user of Spark: as one sentence.

Spark runs a data source in Python processes of its own, and shows of a failure there all frames
it came through. Ours say nothing to who has misspelt an option, so at the methods that Spark
calls they are cut, and Spark is asked to leave its own out as well.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from rocketq.common.errors import RocketqError

_IS_WORKER: Final = ("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def one_sentence() -> Iterator[None]:
    """What is raised on purpose in this block comes out without frames and causes."""
    try:
        yield
    except RocketqError as error:
        name, value = _IS_WORKER
        if os.environ.get(name) == value:
            # Spark reads it as it reports this error; the process ends then.
            os.environ[_HIDE_TRACEBACK] = "1"
        raise error.with_traceback(None) from None


def in_one_sentence(method: Callable[P, R]) -> Callable[P, R]:
    """For a method that Spark calls."""

    @wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_sentence():
            return method(*args, **kwargs)

    return wrapped
