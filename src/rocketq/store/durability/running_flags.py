"""Why a store may not be read or written at the moment, as RocketMQ's bits.

1    not readable          an administrator said so
2    not writeable         an administrator said so, or the disk failed
4    logics queue error    an entry of a consume queue could not be written
8    index file error      the index could not be written
16   disk full             above the warning level, or no space left
32   fenced                the role is not known yet
64   logic disk full       as 16, on the disk of the queues
"""

import logging
from collections.abc import Callable
from enum import IntFlag

logger = logging.getLogger(__name__)


class Flag(IntFlag):
    NOT_READABLE = 1
    NOT_WRITEABLE = 2
    LOGICS_QUEUE_ERROR = 4
    INDEX_FILE_ERROR = 8
    DISK_FULL = 16
    FENCED = 32
    LOGIC_DISK_FULL = 64


_WRITE_STOPPERS = Flag(2 | 4 | 8 | 16 | 32 | 64)


class RunningFlags:
    """Owned by the store; whoever sets a flag says why."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._bits = Flag(0)
        self._on_change = on_change
        self._reasons: dict[Flag, str] = {}

    @property
    def bits(self) -> int:
        return int(self._bits)

    @property
    def is_readable(self) -> bool:
        return Flag.NOT_READABLE not in self._bits

    @property
    def is_writeable(self) -> bool:
        return not self._bits & _WRITE_STOPPERS

    def has(self, flag: Flag) -> bool:
        return flag in self._bits

    def reason(self, *flags: Flag) -> str | None:
        """Why the first of these that is set was set; None if none is."""
        return next((self._reasons[flag] for flag in flags if flag in self._bits), None)

    def set(self, flag: Flag, reason: str, level: int = logging.ERROR) -> None:
        if flag not in self._bits:
            logger.log(level, "%s: %s", flag.name, reason)
            self._bits |= flag
            self._reasons[flag] = reason
            self._on_change()

    def clear(self, flag: Flag, reason: str) -> None:
        if flag in self._bits:
            logger.info("no longer %s: %s", flag.name, reason)
            self._bits &= ~flag
            self._on_change()
