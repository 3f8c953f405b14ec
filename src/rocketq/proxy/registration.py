"""Makes clients known to brokers.

In a broker's process each client is registered there, with its group and subscriptions, by a
connection of its own: tools list it, and the broker asks it about transactions. A proxy before
brokers speaks for all its producers at once, of topics for transactions only.
"""

import asyncio
import logging
from typing import Any, Final

from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.message.hashing import java_hash
from rocketq.proxy.cluster import Cluster
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.sessions import Session, Sessions
from rocketq.remoting import Command
from rocketq.remoting.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from rocketq.remoting.headers.client_management import HeartBeat, UnregisterClient

logger = logging.getLogger(__name__)

_PROXY_ID: Final = "rmq-proxy-producer-client"
_GROUPS_AT_ONCE: Final = 100
_CALL_S: Final = 3.0


class Registration:
    """For one proxy."""

    def __init__(self, config: ProxyConfig, cluster: Cluster, sessions: Sessions) -> None:
        self._config = config
        self._cluster = cluster
        self._sessions = sessions
        self._told: set[str] = set()
        self._news = asyncio.Event()

    async def register(self, session: Session) -> None:
        """A client was heard of."""
        if self._cluster.own is None:
            if not self._told.issuperset(session.topics):
                self._news.set()
            return
        command = Command.request(HeartBeat.CODE, _heartbeat(session).encode())
        command.language = session.language
        link = self._cluster.link(session.connection, session.client_id)
        await link.call(command, _CALL_S)

    async def unregister(self, session: Session) -> None:
        """A client says goodbye."""
        if self._cluster.own is None:
            return
        link = self._cluster.link(session.connection, session.client_id)
        for topic in session.topics:
            goodbye = UnregisterClient(client_id=session.client_id, producer_group=topic)
            await link.call(Command.request(goodbye), _CALL_S)
        if session.group:
            goodbye = UnregisterClient(client_id=session.client_id, consumer_group=session.group)
            await link.call(Command.request(goodbye), _CALL_S)
        self._cluster.drop_link(session.connection, session.client_id)

    # Producers of transactions, for brokers elsewhere

    async def run(self, stop: asyncio.Event) -> None:
        if self._cluster.own is not None:
            await stop.wait()
            return
        period_s = self._config.transaction_heartbeat_period_second
        while not stop.is_set():
            try:
                await self._tell()
            except RocketqError as error:
                logger.warning("producers are not made known: %s", error)
            stopping = asyncio.ensure_future(asked_to_stop(stop, within_s=period_s))
            news = asyncio.ensure_future(self._news.wait())
            await asyncio.wait((stopping, news), return_when=asyncio.FIRST_COMPLETED)
            self._news.clear()
            stopping.cancel()
            news.cancel()

    async def _tell(self) -> None:
        groups: dict[str, list[str]] = {}
        topics = self._sessions.published_topics()
        for name in topics:
            try:
                topic = await self._cluster.topic(name)
            except RocketqError:
                continue
            if (topic.message_type or "").upper() in ("TRANSACTION", "MIXED"):
                for broker in topic.route.broker_datas:
                    groups.setdefault(broker.broker_name, []).append(name)
        self._told = set(topics)
        for broker_name, names in groups.items():
            for at in range(0, len(names), _GROUPS_AT_ONCE):
                body = HeartbeatData(
                    client_id=_PROXY_ID,
                    producer_data_set=[
                        ProducerData(group_name=name) for name in names[at : at + _GROUPS_AT_ONCE]
                    ],
                )
                await self._cluster.ask_all(
                    [broker_name], Command.request(HeartBeat.CODE, body.encode())
                )


def _heartbeat(session: Session) -> HeartbeatData:
    if session.is_producer:
        return HeartbeatData(
            client_id=session.client_id,
            producer_data_set=[ProducerData(group_name=topic) for topic in session.topics],
        )
    is_simple = session.client_type == pb.SIMPLE_CONSUMER
    return HeartbeatData(
        client_id=session.client_id,
        consumer_data_set=[
            ConsumerData(
                group_name=session.group,
                consume_type="CONSUME_ACTIVELY" if is_simple else "CONSUME_PASSIVELY",
                message_model="CLUSTERING",
                consume_from_where="CONSUME_FROM_LAST_OFFSET",
                subscription_data_set=[
                    _subscription(entry) for entry in session.settings.subscription.subscriptions
                ],
            )
        ],
    )


def _subscription(entry: Any) -> SubscriptionData:
    topic: str = entry.topic.name
    expression = entry.expression
    if expression.type == pb.SQL:
        return SubscriptionData(
            topic=topic, sub_string=expression.expression, expression_type="SQL92"
        )
    text = expression.expression.strip() or "*"
    tags = [] if text == "*" else [tag.strip() for tag in text.split("||") if tag.strip()]
    return SubscriptionData(
        topic=topic, sub_string=text, tags_set=tags, code_set=[java_hash(tag) for tag in tags]
    )
