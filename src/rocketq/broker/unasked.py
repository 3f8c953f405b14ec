"""What clients make without anybody having asked for it, and how much of it is enough.

A message to an unknown topic makes the topic; a consumer of an unknown group makes the group
and its retry topic. Names cost nothing to invent, and each one that is made stays, is written
to a file and announced to every NameServer. So there is a limit for each connection, and one
for all: beyond it only an administrator makes more.
"""

import logging
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.remoting import Connection

logger = logging.getLogger(__name__)

_MADE: Final = "made unasked"
_WAS_TOLD: Final = "was told that it makes too much"


class Unasked:
    """Asked by the tables of topics and groups before they make something for a client."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live

    def may_make_topic(self, name: str, there_are: int, maker: Connection | None) -> bool:
        return self._may_make(
            f"topic {name}", there_are, self._live.broker.max_topics_made_unasked, maker
        )

    def may_make_group(self, name: str, there_are: int, maker: Connection | None) -> bool:
        return self._may_make(
            f"group {name}", there_are, self._live.broker.max_groups_made_unasked, maker
        )

    def _may_make(self, what: str, there_are: int, limit: int, maker: Connection | None) -> bool:
        """Whether there is room for one more; it counts as made by its maker then."""
        made = 0 if maker is None else maker.attributes.get(_MADE, 0)
        if there_are >= limit:
            return self._refused(maker, f"{what} is not made: there are {there_are} already")
        if made >= self._live.broker.max_made_per_connection:
            return self._refused(maker, f"{what} is not made: its client has made {made} already")
        if maker is not None:
            maker.attributes[_MADE] = made + 1
        return True

    @staticmethod
    def _refused(maker: Connection | None, why: str) -> bool:
        """Say it once of each connection: who invents names invents many."""
        if maker is None:
            logger.warning("%s", why)
        elif _WAS_TOLD not in maker.attributes:
            maker.attributes[_WAS_TOLD] = True
            logger.warning("%s (%s)", why, maker.peer_address)
        return False
