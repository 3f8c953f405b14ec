"""What is known about a setting besides its type and its default, which its class has."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import ParamSpec

from rocketq.common.numbers import parse_int64

P = ParamSpec("P")


class Standing(Enum):
    """Whether a key of RocketMQ's counts here."""

    LIVE = "counts, and can be changed while the broker runs"
    AT_START = "counts; a change is in force from the next start on"
    NOT_THERE = "asks for something that is not there: the broker does not start"
    NO_EFFECT = "is RocketMQ's and means nothing here; one line says so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One key."""

    key: str
    meaning: str
    standing: Standing
    lowest: int | None = None
    highest: int | None = None
    choices: tuple[str, ...] = ()
    """Texts it may be. For what is not there: the texts that do not ask for it."""
    is_ours: bool = False

    @property
    def counts(self) -> bool:
        return self.standing in (Standing.LIVE, Standing.AT_START)

    def refusal(self, value: str) -> str | None:
        """Why a value may not be; None if it may."""
        if self.standing is Standing.NOT_THERE:
            if value.strip().lower() in (choice.lower() for choice in self.choices):
                return None
            return f"{self.key}={value}: {self.meaning}"
        if self.choices and value.strip().upper() not in (each.upper() for each in self.choices):
            return f"{self.key}={value}: must be one of {', '.join(self.choices)}"
        if self.lowest is not None and self.highest is not None:
            number = parse_int64(value.strip())  # any other text is refused by its type
            if number is not None and not self.lowest <= number <= self.highest:
                return f"{self.key}={value}: must lie between {self.lowest} and {self.highest}"
        return None


@dataclass(frozen=True, slots=True)
class Section:
    """Rows that belong together."""

    title: str
    rows: tuple[Row, ...]


def live(
    key: str,
    meaning: str,
    lowest: int | None = None,
    highest: int | None = None,
    *,
    choices: tuple[str, ...] = (),
    ours: bool = False,
) -> Row:
    """It counts, and a change counts at once."""
    return Row(
        key=key,
        meaning=meaning,
        standing=Standing.LIVE,
        lowest=lowest,
        highest=highest,
        choices=choices,
        is_ours=ours,
    )


def _as_at_start(counts: Callable[P, Row]) -> Callable[P, Row]:
    def at_start(*arguments: P.args, **more: P.kwargs) -> Row:
        """It counts, as it was when the broker started."""
        return replace(counts(*arguments, **more), standing=Standing.AT_START)

    return at_start


at_start = _as_at_start(live)


def not_there(key: str, meaning: str, *harmless: str) -> Row:
    """It asks for protection or for a feature that is missing, unless it says one of these."""
    return Row(key=key, meaning=meaning, standing=Standing.NOT_THERE, choices=harmless)


def no_effect(reason: str, keys: str) -> tuple[Row, ...]:
    """Keys of RocketMQ's that nothing here asks for."""
    return tuple(
        Row(key=key, meaning=reason, standing=Standing.NO_EFFECT) for key in sorted(keys.split())
    )
