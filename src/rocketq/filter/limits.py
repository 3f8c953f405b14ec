"""How long an expression may be.

Reading a word of one costs microseconds, and a broker reads it in everybody's time: within
these limits that is a few milliseconds.
"""

from typing import Final

from rocketq.filter.errors import FilterError

MAX_LENGTH: Final = 32_768
"""Characters of an expression of either kind."""
MAX_WORDS: Final = 2_048
"""Words of an SQL92 expression: names, values, operators and parentheses."""
MAX_TAGS: Final = 1_024


def check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the expression is longer than {MAX_LENGTH} characters", text, 0)
