"""What goes wrong with a subscription's expression."""

from typing import Final

from rocketq.common.errors import RocketqError

_SHOWN: Final = 200
"""Characters of an expression that an error repeats, around the place it speaks of."""


class FilterError(RocketqError):
    """An expression that selects nothing because it cannot be understood."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(f"{reason}, at position {position} of {_shown(text, position)}")
        self.reason = reason
        self.text = text
        self.position = position


def _shown(text: str, position: int) -> str:
    if len(text) <= _SHOWN:
        return repr(text)
    start = max(min(position - _SHOWN // 2, len(text) - _SHOWN), 0)
    end = start + _SHOWN
    before, after = "..." if start else "", "..." if end < len(text) else ""
    return f"{before}{text[start:end]!r}{after}"
