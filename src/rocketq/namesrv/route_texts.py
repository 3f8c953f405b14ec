"""The texts of routes: made once, and kept until one of them may have changed."""

from typing import Final, NamedTuple

from rocketq.namesrv.topic_queues import TopicQueues

# What the texts of routes may take together. They are made again when they are asked for.
_TEXT_BYTES: Final = 64 << 20


class RouteForm(NamedTuple):
    """How a requester wants its routes."""

    standard_json: bool
    acting_master: bool


class RouteKey(NamedTuple):
    """What the text of a route depends on, besides the brokers."""

    queues: TopicQueues
    form: RouteForm
    topic: str
    """Only where the route is of this topic alone."""
    order_conf: str | None


class RouteTexts:
    """Texts by what they depend on."""

    def __init__(self) -> None:
        self.version = 0
        """Another one when texts made before are worth nothing."""
        self.size = 0
        """The bytes of all texts."""
        self._texts: dict[RouteKey, bytes] = {}

    def get(self, key: RouteKey) -> bytes | None:
        """The text of a route, if it was made before and is still right."""
        return self._texts.get(key)

    def keep(self, key: RouteKey, text: bytes) -> None:
        if self.size + len(text) > _TEXT_BYTES:
            self.forget()
        if len(text) <= _TEXT_BYTES:
            self._texts[key] = text
            self.size += len(text)

    def forget(self) -> None:
        """What routes say besides queues has changed, or there is no room for more."""
        self._texts.clear()
        self.size = 0
        self.version += 1
