"""What goes wrong with a subscription's expression."""

from rocketq.common.errors import RocketqError


class FilterError(RocketqError):
    """An expression that selects nothing because it cannot be understood."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(f"{reason}, at position {position} of {text!r}")
        self.reason = reason
        self.text = text
        self.position = position
