"""The files behind messages of any delay: the timer log, the wheel over it, the checkpoint."""

from rocketq.store.timer.checkpoint import TimerCheckpoint, TimerProgress
from rocketq.store.timer.recovery import replay
from rocketq.store.timer.timer_log import TimerLog, TimerMagic, TimerUnit
from rocketq.store.timer.wheel import Slot, TimerWheel

__all__ = [
    "Slot",
    "TimerCheckpoint",
    "TimerLog",
    "TimerMagic",
    "TimerProgress",
    "TimerUnit",
    "TimerWheel",
    "replay",
]
