"""What a process logs, where, and in which form.

Servers log to stderr or to a file that is turned over when it is full. Each line carries the
time and a level, or is a JSON object. A warning that repeats is written once, and later how
often it came again. SIGUSR1 makes a running server log one level more, SIGUSR2 one less.
"""

import atexit
import json
import logging
import logging.handlers
import math
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LEVELS: Final = ("debug", "info", "warning", "error")
_FILE_BYTES: Final = 64 * 1024 * 1024
_FILES: Final = 10
# How long a repeated warning is only counted.
_QUIET_S: Final = 60.0
_REMEMBERED: Final = 512

_LINE: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What the command line says about logs."""

    level: str = "warning"
    file: Path | None = None
    as_json: bool = False


def log_to_stderr(verbosity: int) -> None:
    """For one-shot commands: warnings as lines for people; -1 leaves errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(_ForPeople(_LINE))
    level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    _install(handler, level)


def log_as_server(options: LogOptions) -> None:
    """For servers; raises OSError when the file cannot be written."""
    handler: logging.Handler
    if options.file is None:
        handler = logging.StreamHandler()
    else:
        options.file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            options.file, maxBytes=_FILE_BYTES, backupCount=_FILES, encoding="utf-8"
        )
    handler.setFormatter(_Json() if options.as_json else _Lines(_LINE))
    repetitions = Repetitions(handler.emit)
    handler.addFilter(repetitions)
    atexit.register(repetitions.tell_all)
    _install(handler, logging.getLevelNamesMapping()[options.level.upper()])
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, lambda *_: change_level(-1))
        signal.signal(signal.SIGUSR2, lambda *_: change_level(+1))


def change_level(steps: int) -> None:
    """Log more (-1) or less (+1) from now on."""
    root = logging.getLogger()
    levels = [logging.getLevelNamesMapping()[name.upper()] for name in LEVELS]
    at = min(range(len(levels)), key=lambda i: abs(levels[i] - root.level))
    name = LEVELS[min(max(at + steps, 0), len(LEVELS) - 1)]
    root.setLevel(name.upper())
    logging.getLogger(__name__).log(root.level, "log level is now %s", name)


def _install(handler: logging.Handler, level: int) -> None:
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)


# Forms


class _ForPeople(logging.Formatter):
    """Warnings as a user of a command line expects them."""

    def format(self, record: logging.LogRecord) -> str:
        if record.levelno < logging.WARNING:
            return super().format(record)
        text = f"rocketq: {record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class _Lines(logging.Formatter):
    """`2026-01-31 12:00:00.123 WARNING rocketq.broker: ...`"""

    default_msec_format = "%s.%03d"


class _Json(logging.Formatter):
    """One object per line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        data = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, ensure_ascii=False)


# Repetitions


@dataclass(slots=True)
class _Seen:
    until_s: float
    record: logging.LogRecord
    more: int = field(default=0)


class Repetitions(logging.Filter):
    """Lets a warning through once a minute, and says how often it came in between.

    Warnings are the same when the same place in the code says them, whatever the numbers in
    them. That they have ended is said with the next record of any kind.
    """

    def __init__(
        self,
        emit: Callable[[logging.LogRecord], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._emit = emit
        self._now = now
        self._seen: dict[tuple[str, int, str], _Seen] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._now()
        self._tell(now)
        if record.levelno < logging.WARNING:
            return True
        place = (record.pathname, record.lineno, str(record.msg))
        seen = self._seen.get(place)
        if seen is not None:
            seen.more += 1
            seen.record = record
            return False
        if len(self._seen) < _REMEMBERED:
            self._seen[place] = _Seen(now + _QUIET_S, record)
        return True

    def tell_all(self) -> None:
        """At the end of the process: what was only counted so far."""
        self._tell(math.inf)

    def _tell(self, now: float) -> None:
        over = [place for place, seen in self._seen.items() if seen.until_s <= now]
        for place in over:
            seen = self._seen.pop(place)
            if seen.more:
                times = "once" if seen.more == 1 else f"{seen.more:,} times"
                again = logging.makeLogRecord(seen.record.__dict__)
                again.msg = f"{seen.record.getMessage()} (and {times} more)"
                again.args = None
                self._emit(again)
