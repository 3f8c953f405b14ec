"""Calling functions of the application: listeners, hooks, checks, strategies.

Whatever such a function raises is its own failure: it is logged or told, and its caller goes on.
That includes SystemExit and everything else beyond `Exception`: they would end a task, or the
whole event loop, which others need as well.

Three go on all the same: Ctrl-C, the cancellation of the task that made the call, and the end of
a coroutine that nobody runs any more. They come from outside.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import ParamSpec

logger = logging.getLogger(__name__)

P = ParamSpec("P")


def comes_from_outside(error: BaseException) -> bool:
    """Whether an exception ends the caller, and is not a failure of the function it called."""
    if isinstance(error, asyncio.CancelledError):
        # Without a request to cancel this task, it was something the function waited for.
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def tell(complaint: str, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a plain function whose failure changes nothing but the log, which gets `complaint`."""
    try:
        function(*args, **kwargs)
    except BaseException as error:
        if comes_from_outside(error):
            raise
        logger.exception("%s", complaint)


def can_take(function: Callable[..., object], count: int) -> bool:
    """Whether a function can be called with this many positional arguments and nothing else."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in functions have none
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def check_takes(function: Callable[..., object], *arguments: str, what: str) -> None:
    """Refuse a function that cannot be called with what it will be called with."""
    if not callable(function):
        raise TypeError(f"{what} must be a function, not {function!r}")
    if not can_take(function, len(arguments)):
        raise TypeError(f"{what} is called with ({', '.join(arguments)}): {function!r} cannot be")
