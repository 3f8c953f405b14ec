"""What a consumer group wants of a topic, as the store and the clients ask it."""

from collections.abc import Mapping
from typing import Final, Protocol

from rocketq.filter.errors import FilterError
from rocketq.filter.sql import compile_sql
from rocketq.filter.tags import parse_tags

TAG: Final = "TAG"
SQL92: Final = "SQL92"


class MessageFilter(Protocol):
    """Decides in two steps: by the index entry alone, then by the record's properties."""

    @property
    def needs_properties(self) -> bool:
        """Whether a broker has to look at the record too."""
        ...

    @property
    def terms(self) -> int:
        """What looking at one message costs, in comparisons."""
        ...

    def matches_code(self, tags_code: int) -> bool:
        """Whether a message may match, by its consume queue entry; true when unknown."""
        ...

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Whether a message matches, by its properties."""
        ...


def is_tag_type(expression_type: str | None) -> bool:
    """Tags are what a subscription without a type means."""
    return expression_type in (None, "", TAG)


def filter_for(expression_type: str | None, text: str) -> MessageFilter | None:
    """The filter of a subscription, or None where everything passes."""
    if is_tag_type(expression_type):
        tags = parse_tags(text)
        return None if tags.is_everything else tags
    if expression_type == SQL92:
        return compile_sql(text)
    raise FilterError(f"expression type {expression_type!r} is not known", text, 0)
