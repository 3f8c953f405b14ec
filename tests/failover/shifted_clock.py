"""`rocketq` with a wall clock that is set wrong by signals: SIGUSR1 back, SIGUSR2 ahead.

    python -m tests.failover.shifted_clock broker ...

An hour each time. The clock for intervals goes on as the system's does.
"""

import signal
import time
from typing import Final

from rocketq_command import rocketq

_HOUR_NS: Final = 3_600_000_000_000


def main() -> None:
    shift_ns = 0
    real = time.time_ns

    def shift(number: int, _: object) -> None:
        nonlocal shift_ns
        shift_ns += -_HOUR_NS if number == signal.SIGUSR1 else _HOUR_NS

    time.time_ns = lambda: real() + shift_ns
    time.time = lambda: time.time_ns() / 1e9
    signal.signal(signal.SIGUSR1, shift)
    signal.signal(signal.SIGUSR2, shift)
    rocketq()


if __name__ == "__main__":
    main()
