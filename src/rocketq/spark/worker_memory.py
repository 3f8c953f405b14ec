"""Keeps Python's garbage collector away from what a worker has loaded.

A Python worker of Spark serves many tasks, and Spark has it collect all garbage after each.
Spark, Arrow and this package are some hundred thousand objects that never become garbage, and
every full collection walks through them: tens of milliseconds each, a sixth of what a worker
did in a read of small messages.
"""

import gc

_is_settled = False


def settle() -> None:
    """Leave what is there now out of all collections to come. Once for each worker is enough."""
    global _is_settled
    if not _is_settled:
        _is_settled = True
        gc.freeze()
