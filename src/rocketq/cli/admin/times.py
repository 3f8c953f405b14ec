"""Times as RocketMQ's tools read and print them."""

import time
from datetime import datetime
from typing import Final

from rocketq.cli.commands import UsageError

_DATE_FORM: Final = "%Y-%m-%d#%H:%M:%S"


def parse_time(text: str) -> int:
    """`now`, milliseconds since the epoch, or `2023-11-14#22:13:20:000` in local time."""
    text = text.strip()
    if text == "now":
        return time.time_ns() // 1_000_000
    try:
        return int(text)
    except ValueError:
        pass
    date, _, fraction = text.rpartition(":")
    try:
        return int(datetime.strptime(date, _DATE_FORM).timestamp() * 1000) + int(fraction)
    except ValueError:
        raise UsageError(
            f"{text} is no time: write `now`, milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS"
        ) from None


def parse_optional_time(text: str | None) -> int | None:
    return None if text is None else parse_time(text)


def to_the_second(timestamp_ms: int) -> str:
    """`2023-11-14 22:13:20` in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp_ms // 1000))


def to_the_millisecond(timestamp_ms: int) -> str:
    """`2023-11-14 22:13:20,000` in local time."""
    return f"{to_the_second(timestamp_ms)},{timestamp_ms % 1000:03d}"
