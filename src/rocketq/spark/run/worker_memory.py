"""Memory in Spark's workers: what they do not do over and over.

Garbage: a worker has imported pyspark, and in the course of its first tasks pandas and the rest,
some hundred thousand objects that never become garbage. Spark has all of them walked through
after every task, which takes longer than all else that a small task does.

Buffers: an answer of some megabytes and the columns made of it are freed when Spark has them, and
the next ones are as large. The C library gives so much back to the kernel at once, and takes it
again page by page: twice the time of all the decoding.
"""

import ctypes
import gc
from typing import Final

_TASKS_THAT_IMPORT: Final = 3
_TRIM_THRESHOLD: Final = (-1, 64 << 20)
_MMAP_THRESHOLD: Final = (-3, 32 << 20)

_tasks = 0


def prepare_memory() -> None:
    """To be called as a task begins."""
    global _tasks
    _tasks += 1
    if _tasks == 1:
        _keep_freed_memory()
    if _tasks <= _TASKS_THAT_IMPORT:
        gc.freeze()


def _keep_freed_memory() -> None:
    """Have the C library keep up to 64 MB for what is needed next, where it is glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            mallopt(parameter, value)
