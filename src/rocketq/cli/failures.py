"""How a command ends when it cannot do what it was asked: one line on stderr, code 1."""

import logging
import sys
from typing import NoReturn


class CannotStart(Exception):
    """Something outside the program is in its way, now or later; the text says what."""


class AlreadyTold(Exception):
    """Why it ends stands on stderr; what is left to do is the exit code."""


def fail(reason: object) -> NoReturn:
    print(f"rocketq: {reason}", file=sys.stderr)
    raise SystemExit(1)


class _LineFormatter(logging.Formatter):
    """Warnings as a user of a command line expects them; more only when asked for."""

    def format(self, record: logging.LogRecord) -> str:
        if record.levelno < logging.WARNING:
            return super().format(record)
        text = f"rocketq: {record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


def log_to_stderr(verbosity: int) -> None:
    """Warnings and errors; `-v` adds changes of state, `-vv` everything, -1 leaves errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    levels = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}
    level = levels.get(verbosity, logging.DEBUG)
    logging.basicConfig(level=level, handlers=[handler])
