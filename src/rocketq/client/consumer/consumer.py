"""What the public consumers have in common: their group, their life, names of queues."""

from typing import ClassVar, Generic, TypeVar

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.member import Member
from rocketq.client.consumer.options import GroupConfig
from rocketq.client.consumer.subscription import Subscriptions
from rocketq.client.errors import ClientClosed, ClientNotStarted, InvalidSettings, InvalidState
from rocketq.common.loop.service import AsyncLife
from rocketq.message.names import (
    DEFAULT_CONSUMER_GROUP,
    unwrap_namespace,
    validate_group,
    wrap_namespace,
)
from rocketq.message.queue import MessageQueue

M = TypeVar("M", bound=Member)


class Consumer(AsyncLife, Generic[M]):
    """A member of a consumer group, once it is started. Belongs to the loop that starts it."""

    _KIND: ClassVar[str]
    _IS_STREAM: ClassVar[bool] = True
    """Whether requests are marked as part of a stream, as RocketMQ's pull consumers do."""

    def __init__(self, group: str, config: GroupConfig) -> None:
        validate_group(group)
        if group == DEFAULT_CONSUMER_GROUP:
            # RocketMQ's placeholder: everybody else would have it too.
            raise InvalidSettings(
                f"the consumer group cannot be {DEFAULT_CONSUMER_GROUP}: give it a name of its own"
            )
        self._group = group
        self._namespace = config.namespace
        self._client_config = config
        self._subscriptions = Subscriptions(config.topics, namespace=config.namespace)
        self._session: M | None = None
        self._is_closed = False

    # Life

    async def start(self) -> None:
        """Join the group and begin to work.

        Returns when the queues are shared out, as far as brokers can be reached. A topic that
        does not exist yet, or a NameServer that is away, is waited for in the background.
        """
        if self._is_closed:
            raise ClientClosed(str(self))
        if self._session is not None:
            raise InvalidState(f"{self} is started already")
        self._check_ready()
        config = self._client_config
        instance = await ClientInstance.acquire(
            config, stream=self._IS_STREAM, unique_name=not config.is_broadcasting
        )
        try:
            session = self._new_session(instance)
        except BaseException:
            await instance.release()
            raise
        self._session = session
        try:
            await session.start()
        except BaseException:
            self._session = None
            await session.close()
            raise

    def _check_ready(self) -> None:
        """Raise what is missing for a start."""

    def _new_session(self, instance: ClientInstance) -> M:
        raise AssertionError("each kind of consumer has its own")

    async def close(self) -> None:
        """Finish what is under way, store offsets, leave the group. May be called twice."""
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await self._close_session(session)

    async def _close_session(self, session: M) -> None:
        await session.close()

    def _running(self) -> M:
        if self._session is None:
            raise (ClientClosed if self._is_closed else ClientNotStarted)(str(self))
        return self._session

    def __str__(self) -> str:
        return f"{self._KIND} {self._group!r}"

    # Names

    @property
    def group(self) -> str:
        return self._group

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._running().instance.client_id

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic."""
        wire = wrap_namespace(self._namespace, topic)
        queues = await self._running().instance.routes.subscribe_queues(wire, refresh=True)
        return [self._bare(queue) for queue in queues]

    def _wire(self, queue: MessageQueue) -> MessageQueue:
        """A queue under its topic's name on the wire."""
        return queue._replace(topic=wrap_namespace(self._namespace, queue.topic))

    def _bare(self, queue: MessageQueue) -> MessageQueue:
        """A queue under its topic's name as the user knows it."""
        return queue._replace(topic=unwrap_namespace(self._namespace, queue.topic))
