"""Collections of garbage in Spark's workers.

A worker has imported pyspark, and in the course of its first tasks pandas and the rest: some
hundred thousand objects that never become garbage. Spark has all of them walked through after
every task, which takes longer than all else that a small task does.
"""

import gc
from typing import Final

_TASKS_THAT_IMPORT: Final = 3

_tasks = 0


def settle() -> None:
    """Leave what is there now out of all collections to come. To be called as a task begins."""
    global _tasks
    _tasks += 1
    if _tasks <= _TASKS_THAT_IMPORT:
        gc.freeze()
