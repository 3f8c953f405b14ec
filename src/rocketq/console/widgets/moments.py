"""Times that people type."""

import time
from datetime import datetime
from typing import Final

from nicegui import ui

_FORMS: Final = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M",
)


def moment_field(title: str, *, mark: str, at_s: float | None = None) -> ui.input:
    """Local time; the browser's own picker where it has one."""
    value = time.strftime(_FORMS[3], time.localtime(time.time() if at_s is None else at_s))
    field = ui.input(title, value=value).classes(f"r-field r-moment r-{mark}")
    return field.props("dense outlined type=datetime-local step=1 stack-label")


def parse_moment(text: str | None) -> int | None:
    """Milliseconds since 1970, or None where the text is no time."""
    for form in _FORMS:
        try:
            return int(datetime.strptime((text or "").strip(), form).timestamp() * 1000)
        except (ValueError, OverflowError):
            continue
    return None
