"""Numbers and times as people read them."""

import time
from typing import Final

_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")


def number(value: float) -> str:
    """`1,234`; one digit behind the point where there is a fraction below a hundred."""
    if value != int(value) and abs(value) < 100:
        return f"{value:,.1f}"
    return f"{round(value):,}"


def size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if abs(count) < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} {_UNITS[-1]}"


def percent(ratio: float) -> str:
    return f"{ratio * 100:.0f} %"


def moment(milliseconds: int) -> str:
    """Local time to the second; nothing for 0."""
    if milliseconds <= 0:
        return "–"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def moment_ms(milliseconds: int) -> str:
    if milliseconds <= 0:
        return "–"
    return f"{moment(milliseconds)}.{milliseconds % 1000:03d}"


def duration(milliseconds: float) -> str:
    """The two largest units: `3 d 4 h`, `5 min 2 s`, `820 ms`."""
    if milliseconds < 1000:
        return f"{max(milliseconds, 0):.0f} ms"
    seconds = int(milliseconds // 1000)
    parts: list[str] = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count or parts:
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 ")) or "0 s"


def permission(bits: int) -> str:
    """`RW`, `R`, `W` or `–`."""
    return ("R" if bits & 4 else "") + ("W" if bits & 2 else "") or "–"
