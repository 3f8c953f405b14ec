"""The computer's own time, for hot modules.

Each function stands here in Python and in ticks.pxd in C, as those of `rocketq.common.memory` do:
making the number an object would cost more than asking for it.
"""

import time


def now_ms() -> int:
    """Wall-clock milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic_ns() -> int:
    """Nanoseconds that only ever grow; for intervals."""
    return time.monotonic_ns()
