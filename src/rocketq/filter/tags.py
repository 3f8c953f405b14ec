"""Tag expressions: `TagA || TagB`, or `*` for everything.

A message has one tag. Brokers compare its hash code, which their consume queues hold, without
touching the message; since different tags may share a hash code, the client compares the tag
itself once more.
"""

from collections.abc import Mapping
from typing import Final

from rocketq.filter.errors import FilterError
from rocketq.filter.limits import MAX_TAGS, check_length
from rocketq.message.hashing import java_hash
from rocketq.message.properties.codec import PropertyName

EVERYTHING: Final = "*"
_SEPARATOR: Final = "||"


class TagFilter:
    """Lets messages with one of some tags pass, or all messages where no tags are named."""

    __slots__ = ("codes", "tags")

    needs_properties: Final = False
    terms: Final = 1

    def __init__(self, tags: frozenset[str]) -> None:
        self.tags = tags
        self.codes = frozenset(java_hash(tag) for tag in tags)

    @property
    def is_everything(self) -> bool:
        return not self.tags

    def matches_code(self, tags_code: int) -> bool:
        """By the hash code of the message's tag."""
        return not self.codes or tags_code in self.codes

    def matches_tag(self, tag: str | None) -> bool:
        """By the tag itself; without one a message passes only where all do."""
        return not self.tags or tag in self.tags

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        return self.matches_tag(properties.get(PropertyName.TAGS))

    def __repr__(self) -> str:
        return f"TagFilter({' || '.join(sorted(self.tags)) or EVERYTHING})"


def parse_tags(text: str) -> TagFilter:
    """Understand a tag expression.

    >>> sorted(parse_tags("paid || refunded").tags)
    ['paid', 'refunded']
    """
    check_length(text)
    text = text.strip()
    if text in ("", EVERYTHING):
        return TagFilter(frozenset())
    tags = frozenset(tag.strip() for tag in text.split(_SEPARATOR)) - {""}
    if not tags:
        raise FilterError("no tag is named", text, 0)
    if len(tags) > MAX_TAGS:
        raise FilterError(f"more than {MAX_TAGS} tags are named", text, 0)
    return TagFilter(tags)
