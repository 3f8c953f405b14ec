"""The pages, one a module. Each has a function that builds it for one view."""

from collections.abc import Awaitable, Callable
from typing import Final

from rocketq.console.pages import (
    group,
    groups,
    message,
    messages,
    overview,
    topic,
    topics,
)
from rocketq.console.view import View

PAGES: Final[tuple[tuple[str, str, Callable[[View], Awaitable[None]]], ...]] = (
    ("/", "Overview", overview.build),
    ("/topics", "Topics", topics.build),
    ("/topic", "Topic", topic.build),
    ("/groups", "Groups", groups.build),
    ("/group", "Group", group.build),
    ("/messages", "Messages", messages.build),
    ("/message", "Message", message.build),
)
"""Where, what it is called, and what builds it."""
