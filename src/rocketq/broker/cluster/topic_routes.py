"""Where the queues of a topic are, on this broker and on all others.

The NameServers know; what one of them said is good for half a minute. With no NameServer
to ask, a broker knows its own queues.
"""

import logging
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.topics import Topics
from rocketq.common.clock import Clock
from rocketq.message.flags import Permission
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Command, RemotingClient, RemotingError, ResponseCode
from rocketq.remoting.bodies.route import TopicRouteData
from rocketq.remoting.headers import GetRouteInfo

logger = logging.getLogger(__name__)

_GOOD_FOR_MS: Final = 30_000
_ANSWER_WITHIN_S: Final = 3.0
_MOST_KNOWN: Final = 20_000


class TopicRoutes:
    """Routes of topics clients asked about, remembered for a while."""

    def __init__(
        self, live: LiveConfig, topics: Topics, client: RemotingClient, clock: Clock
    ) -> None:
        self._live = live
        self._topics = topics
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[int, list[MessageQueue]]] = {}

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, in order; empty if nobody has it."""
        now_ms = self._clock.now_ms()
        asked_at, queues = self._known.get(topic, (-1, []))
        if asked_at >= 0 and 0 <= now_ms - asked_at < _GOOD_FOR_MS:
            return queues
        route = await self._ask(topic)
        queues = self._own_queues(topic) if route is None else _readable(topic, route)
        if len(self._known) >= _MOST_KNOWN:
            self._forget_old(now_ms)
        if queues:  # names that nobody has are not worth remembering
            self._known[topic] = (now_ms, queues)
        return queues

    def _forget_old(self, now_ms: int) -> None:
        """Make room: what is no longer good goes, and everything if that is too little."""
        recent = {
            topic: known
            for topic, known in self._known.items()
            if 0 <= now_ms - known[0] < _GOOD_FOR_MS
        }
        self._known = recent if len(recent) < _MOST_KNOWN else {}

    async def _ask(self, topic: str) -> TopicRouteData | None:
        for address in self._live.broker.name_servers:
            request = Command.request(GetRouteInfo(topic=topic, accept_standard_json_only=True))
            try:
                reply = await self._client.call(address, request, _ANSWER_WITHIN_S)
            except RemotingError as error:
                logger.warning("NameServer %s does not answer: %s", address, error)
                continue
            if reply.code == ResponseCode.SUCCESS:
                return TopicRouteData.decode(reply.body)
        return None

    def _own_queues(self, topic: str) -> list[MessageQueue]:
        config = self._topics.get(topic)
        if config is None or not config.perm & Permission.READ:
            return []
        name = self._live.broker.broker_name
        return [MessageQueue(topic, name, number) for number in range(config.read_queue_nums)]


def _readable(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    return sorted(
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if data.perm & Permission.READ
        for number in range(data.read_queue_nums)
    )
