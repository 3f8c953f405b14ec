"""SQL92 expressions over message properties: `price > 9.5 AND region IN ('EU', 'UK')`.

    text -> lexer -> parser -> tree (syntax) -> nested functions (evaluation)

Grammar, errors and results are those of RocketMQ; the modules tell them in detail.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rocketq.filter.errors import FilterError
from rocketq.filter.limits import check_length
from rocketq.filter.sql.evaluation import EvaluationError, condition
from rocketq.filter.sql.parser import parse

_CACHE_SIZE: Final = 100
_TERM_LENGTH: Final = 8


class SqlFilter:
    """A compiled expression."""

    __slots__ = ("_condition", "terms", "text")

    needs_properties: Final = True

    def __init__(self, text: str) -> None:
        """Raises `FilterError` if the text is no expression."""
        self.text = text
        # Hardly a comparison is shorter, and few are much longer.
        self.terms = 1 + len(text) // _TERM_LENGTH
        self._condition = condition(parse(text))

    def matches_code(self, tags_code: int) -> bool:
        """A consume queue entry says nothing about properties, so all may pass."""
        return True

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Whether the expression is true. Null and values that do not compare are not."""
        try:
            return self._condition(properties) is True
        except EvaluationError:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({self.text!r})"


def compile_sql(text: str) -> SqlFilter:
    """Understand an SQL92 expression, or raise `FilterError`.

    >>> cheap = compile_sql("price < 10.0 AND region IN ('EU', 'UK')")
    >>> cheap.matches_properties({"price": "9.5", "region": "EU"})
    True
    """
    check_length(text)
    compiled = _compiled(text)
    if isinstance(compiled, FilterError):
        # A fresh one each time: an exception collects the stacks it was raised through.
        raise FilterError(compiled.reason, compiled.text, compiled.position)
    return compiled


@lru_cache(maxsize=_CACHE_SIZE)
def _compiled(text: str) -> SqlFilter | FilterError:
    """Errors are kept as well: a client with a bad expression tries again every 30 seconds."""
    try:
        return SqlFilter(text)
    except FilterError as error:
        return FilterError(error.reason, error.text, error.position)
