"""The clients of a proxy: what they said about themselves, and the stream to reach them by."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.http2.connection import Http2Connection
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import Refused
from rocketq.remoting.codes import LanguageCode

logger = logging.getLogger(__name__)

_SCAN_S: Final = 5.0
# How long one whose connection is gone may take to come back.
_AWAY_S: Final = 30.0


class CommandStream(Protocol):
    """Where commands to a client go."""

    @property
    def is_open(self) -> bool: ...

    def send(self, command: Any) -> bool:
        """False if the client takes no more."""


class Session:
    """One client."""

    __slots__ = (
        "client_id",
        "connection",
        "group",
        "language",
        "last_seen",
        "settings",
        "stream",
        "topics",
    )

    def __init__(self, client_id: str, connection: Http2Connection, now: float) -> None:
        self.client_id = client_id
        self.connection = connection
        self.last_seen = now
        self.settings: Any = None
        self.group = ""
        self.topics: tuple[str, ...] = ()
        self.language = int(LanguageCode.OTHER)
        self.stream: CommandStream | None = None

    @property
    def client_type(self) -> int:
        return int(self.settings.client_type)

    @property
    def is_producer(self) -> bool:
        return bool(self.settings.HasField("publishing"))

    @property
    def is_reachable(self) -> bool:
        return self.stream is not None and self.stream.is_open

    def send(self, command: Any) -> bool:
        return self.stream is not None and self.stream.is_open and self.stream.send(command)

    def describe(self, settings: Any, metadata: dict[str, str]) -> None:
        """Take over what a client says about itself."""
        self.settings = settings
        if settings.HasField("publishing"):
            self.topics = tuple(topic.name for topic in settings.publishing.topics)
        else:
            self.group = settings.subscription.group.name
        self.language = language_of(metadata)


def language_of(metadata: dict[str, str]) -> int:
    """As remoting numbers it; what has no number there is OTHER."""
    name = metadata.get("x-mq-language", "")
    return int(LanguageCode.__members__.get(name, LanguageCode.OTHER))


class Sessions:
    """All of them, by client id. Belongs to the event loop."""

    def __init__(self, config: ProxyConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._producers: dict[str, dict[str, Session]] = {}
        self._listeners: list[Callable[[Session], None]] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def on_leave(self, listener: Callable[[Session], None]) -> None:
        """Have something called for every client that is gone."""
        self._listeners.append(listener)

    def get(self, client_id: str) -> Session | None:
        """Somebody who has said what it is."""
        return self._sessions.get(client_id)

    def put(
        self,
        client_id: str,
        connection: Http2Connection,
        settings: Any,
        metadata: dict[str, str],
        stream: CommandStream,
    ) -> Session:
        """Note what a client says; the newest stream that does so is used to reach it."""
        session = self._sessions.get(client_id)
        if session is None:
            if len(self._sessions) >= self._config.max_clients:
                raise Refused(pb.TOO_MANY_REQUESTS, "too many clients")
            session = Session(client_id, connection, self._clock.monotonic())
            self._sessions[client_id] = session
        self._forget_topics(session)
        session.connection = connection
        session.stream = stream
        session.describe(settings, metadata)
        session.last_seen = self._clock.monotonic()
        for topic in session.topics:
            self._producers.setdefault(topic, {})[client_id] = session
        return session

    def seen(self, session: Session, connection: Http2Connection) -> None:
        session.last_seen = self._clock.monotonic()
        session.connection = connection

    def remove(self, client_id: str) -> None:
        session = self._sessions.pop(client_id, None)
        if session is not None:
            self._forget_topics(session)
            for listener in self._listeners:
                listener(session)

    def producers(self, topic: str) -> list[Session]:
        """Who sends to a topic and can be asked something."""
        found = self._producers.get(topic, {})
        return [session for session in found.values() if session.is_reachable]

    def published_topics(self) -> list[str]:
        """Topics that somebody here sends to."""
        return list(self._producers)

    def _forget_topics(self, session: Session) -> None:
        for topic in session.topics:
            members = self._producers.get(topic)
            if members is not None:
                members.pop(session.client_id, None)
                if not members:
                    del self._producers[topic]
        session.topics = ()

    # Life of service

    async def run(self, stop: asyncio.Event) -> None:
        """Forget those that have not been heard of."""
        while not await asked_to_stop(stop, within_s=_SCAN_S):
            self.expire()

    def expire(self) -> None:
        now = self._clock.monotonic()
        longest_s = self._config.channel_expired_timeout / 1000
        for session in list(self._sessions.values()):
            quiet_s = now - session.last_seen
            if quiet_s > longest_s or (quiet_s > _AWAY_S and session.connection.is_closing):
                logger.info("client %s is gone", session.client_id)
                self.remove(session.client_id)
