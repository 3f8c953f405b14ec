"""Subscription expressions: tags and SQL92."""

from rocketq.filter.errors import FilterError
from rocketq.filter.message_filter import SQL92, TAG, MessageFilter, filter_for, is_tag_type
from rocketq.filter.sql import SqlFilter, compile_sql
from rocketq.filter.tags import TagFilter, parse_tags

__all__ = [
    "SQL92",
    "TAG",
    "FilterError",
    "MessageFilter",
    "SqlFilter",
    "TagFilter",
    "compile_sql",
    "filter_for",
    "is_tag_type",
    "parse_tags",
]
