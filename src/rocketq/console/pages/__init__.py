"""The pages, one a module. Each has a function that builds it for one view."""

from collections.abc import Awaitable, Callable
from typing import Final

from rocketq.console.pages import (
    broker,
    client,
    cluster,
    group,
    groups,
    overview,
    producers,
    settings,
    spark,
    topic,
    topics,
    users,
)
from rocketq.console.pages.messages import dead_letters, message, messages, waiting
from rocketq.console.view import View

PAGES: Final[tuple[tuple[str, str, Callable[[View], Awaitable[None]]], ...]] = (
    ("/", "Overview", overview.build),
    ("/cluster", "Cluster", cluster.build),
    ("/broker", "Broker", broker.build),
    ("/topics", "Topics", topics.build),
    ("/topic", "Topic", topic.build),
    ("/groups", "Groups", groups.build),
    ("/group", "Group", group.build),
    ("/client", "Client", client.build),
    ("/producers", "Producers", producers.build),
    ("/messages", "Messages", messages.build),
    ("/message", "Message", message.build),
    ("/dead-letters", "Dead letters", dead_letters.build),
    ("/waiting", "Delayed", waiting.build),
    ("/spark", "Spark", spark.build),
    ("/users", "Users", users.build),
    ("/settings", "Settings", settings.build),
)
"""Where, what it is called, and what builds it."""
