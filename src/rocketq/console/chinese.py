"""The Chinese texts, by their English ones."""

from typing import Final

CHINESE: Final[dict[str, str]] = {}
