"""Settings held against the table: before a broker starts, and before one is changed.

A setting works, or the broker does not start. What is asked for and not there is refused in
one line; what RocketMQ would heed and nothing here does is named in one line, once; a key that
nobody knows is named together with the nearest one that somebody knows.
"""

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from rocketq.broker.settings.rows import Standing
from rocketq.broker.settings.table import TABLE
from rocketq.common.config import ConfigError

logger = logging.getLogger(__name__)

# Settings of RocketMQ that are read from the same file by others.
_OTHERS: Final = frozenset({"brokerConfigPath"})


_LONGEST: Final = 64


COUNTING_KEYS: Final = frozenset(
    key for key, row in TABLE.items() if row.standing is not Standing.NO_EFFECT
)


def check_values(settings: Mapping[str, str]) -> None:
    """Raise for the first setting that asks for something missing or lies out of its range."""
    for key, value in settings.items():
        row = TABLE.get(key)
        refusal = None if row is None else row.refusal(value)
        if refusal is not None:
            raise ConfigError(refusal)


def warn_about(settings: Iterable[str]) -> None:
    """One line for each key that nobody knows, and one for all that mean nothing here."""
    idle = []
    for key in settings:
        row = TABLE.get(key)
        if row is None and key not in _OTHERS:
            logger.warning("%s", unknown(key))
        elif row is not None and row.standing is Standing.NO_EFFECT:
            idle.append(key)
    if idle:
        logger.warning("without effect here (see docs/settings.md): %s", ", ".join(sorted(idle)))


def unknown(key: str) -> str:
    """That a key is nobody's, and which was perhaps meant."""
    nearest = difflib.get_close_matches(key[:_LONGEST], TABLE, n=1, cutoff=0.6)
    shown = key if key.isprintable() and len(key) <= _LONGEST else repr(key[:_LONGEST])
    return f"unknown key {shown}" + (f"; did you mean {nearest[0]}?" if nearest else "")


def check_change(settings: Mapping[str, str]) -> None:
    """Raise for a change that would change nothing."""
    for key in settings:
        row = TABLE.get(key)
        if row is None:
            raise ConfigError(unknown(key))
        if row.standing is Standing.NO_EFFECT:
            raise ConfigError(f"{key} has no effect here: {row.meaning}")


def is_live(key: str) -> bool:
    """Whether a change of a setting counts at once."""
    return TABLE[key].standing is Standing.LIVE


def counting(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that count, in the order of their names."""
    return {key: value for key, value in sorted(settings.items()) if key in COUNTING_KEYS}
