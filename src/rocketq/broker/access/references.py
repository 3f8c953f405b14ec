"""Rights to what a request only refers to, by its place in the log.

The tables of rules see what a request says. A message that is named by its place may belong to
another topic than the request says, or the request says none. RocketMQ looks no further, so that
whoever may use one group can have any message of the broker sent back to it. Here the handlers of
such requests ask once more, when they know which message it is:

    the user has rights of its own      they have to cover the message's topic
    it has not: a super user, a proxy   the topic that was checked for it must be the message's
"""

from collections.abc import Sequence

from rocketq.message import names
from rocketq.message.pop_topics import retry_topic_v1, retry_topic_v2
from rocketq.remoting.access.guard import Guard
from rocketq.remoting.access.needs import PUB, SUB, Actions, topic_need
from rocketq.remoting.access.signature import ACCESS_KEY
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.hot.signed import field_of
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.wire.command import Command


class References:
    """Asks the guards of a broker, if it has any."""

    def __init__(self, guards: Sequence[Guard] = ()) -> None:
        self._guards = tuple(guards)

    @property
    def are_checked(self) -> bool:
        return bool(self._guards)

    def check(
        self,
        request: Command,
        connection: Connection,
        topic: str,
        actions: Actions,
        said: str | None = None,
    ) -> None:
        """Refuse a request for a message of a topic; `said` is the topic it names, if any."""
        need = topic_need(topic, actions)
        for guard in self._guards:
            is_decided = guard.require(connection.peer_address, request, need)
            if not is_decided and said and not _is_same(said, topic):
                raise RequestRejected(
                    ResponseCode.NO_PERMISSION, f"the message is not one of the topic {said}"
                )

    def check_consumed(
        self,
        request: Command,
        connection: Connection,
        message_topic: str,
        group: str,
        said: str | None = None,
    ) -> None:
        """The same for a message that a group says to consume: its own retries are its own."""
        said = said or ""
        own = {retry_topic_v1(group, said), retry_topic_v2(group, said), names.retry_topic(group)}
        if self._guards and message_topic not in own:
            self.check(request, connection, message_topic, SUB, said)

    def may_publish(self, user: str, peer: str, topic: str) -> bool:
        """Whether a client that was let in may be shown what is sent to a topic."""
        need = topic_need(topic, PUB)
        return all(guard.allows(user, peer, need) for guard in self._guards)


def user_of(request: Command) -> str:
    """Who has signed a request; empty where nobody had to."""
    return field_of(request, ACCESS_KEY)


def _is_same(said: str, topic: str) -> bool:
    """Some clients leave the namespace out."""
    return topic == said or topic.endswith(names.NAMESPACE_SEPARATOR + said)
