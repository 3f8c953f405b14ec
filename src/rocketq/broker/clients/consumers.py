"""Consumers known from heartbeats, by group: who they are and what they subscribe to.

All members of a group must subscribe alike: the last heartbeat speaks for the group. When a
member joins or leaves, or the topics of the group change, every member is told (request 40)
and shares out the queues anew.

A subscription carries its filter, compiled once, by the first pull; others only apply it.
"""

import asyncio
import logging
from collections.abc import Iterable
from itertools import islice
from typing import Final

from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.common.clock import Clock
from rocketq.filter import FilterError, MessageFilter, filter_for
from rocketq.remoting import Command, Connection
from rocketq.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketq.remoting.headers import NotifyConsumerIdsChanged

logger = logging.getLogger(__name__)

BROADCASTING: Final = "BROADCASTING"

# How long changes are collected where `realTimeNotifyConsumerChange` is off.
_COLLECTED_NOTIFICATIONS_S: Final = 15.0

_SHOWN_TOPICS: Final = 20

# Pairs of group and topic about which pulls may be remembered.
_MOST_TOLD: Final = 200_000


class Subscription:
    """What a group wants of one topic."""

    __slots__ = ("_error", "_filter", "_is_understood", "data")

    def __init__(self, data: SubscriptionData) -> None:
        self.data = data
        self._filter: MessageFilter | None = None
        self._error: FilterError | None = None
        self._is_understood = False

    @property
    def filter(self) -> MessageFilter | None:
        """Which messages pass; None for all of them."""
        self._understand()
        return self._filter

    @property
    def error(self) -> FilterError | None:
        """Why there is no filter although there should be one."""
        self._understand()
        return self._error

    def _understand(self) -> None:
        # Only when somebody pulls: a heartbeat may name thousands, and nobody uses most.
        if self._is_understood:
            return
        self._is_understood = True
        try:
            self._filter = filter_for(self.data.expression_type, self.data.sub_string)
        except FilterError as error:
            self._error = error


class ConsumerGroup:
    """The members of one group and what they have in common."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.consume_type = ""
        self.message_model = ""
        self.consume_from_where = ""
        self.channels: dict[Connection, ClientChannel] = {}
        self.subscriptions: dict[str, Subscription] = {}
        # Of the last heartbeat that carried one; see `processor/client.py`.
        self.fingerprint = 0

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """The members, each once, also one that has two connections for a moment."""
        return list(dict.fromkeys(channel.client_id for channel in self.channels.values()))

    def join(self, channel: ClientChannel, now_ms: int) -> bool:
        """Note a heartbeat of a member; True when it is new."""
        known = self.channels.get(channel.connection)
        if known is not None and known.client_id == channel.client_id:
            known.last_update_ms = now_ms
            return False
        self.channels[channel.connection] = channel
        logger.info("consumer %s joined group %s", channel, self.name)
        return True

    def subscribe(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Take over what a heartbeat says; True when topics came or went."""
        subscriptions: dict[str, Subscription] = {}
        for data in wanted:
            known = self.subscriptions.get(data.topic)
            if known is not None and known.data.sub_version >= data.sub_version:
                subscriptions[data.topic] = known
            else:
                subscriptions[data.topic] = Subscription(data)
        changed = subscriptions.keys() != self.subscriptions.keys()
        if changed:
            few = ", ".join(islice(subscriptions, _SHOWN_TOPICS))
            more = f" and {len(subscriptions) - _SHOWN_TOPICS} more"
            shown = few + more if len(subscriptions) > _SHOWN_TOPICS else few
            logger.info("group %s subscribes to %s", self.name, shown)
        self.subscriptions = subscriptions
        return changed


class ConsumerTable:
    """All groups with members. Changed in the loop only."""

    def __init__(self, live: LiveConfig, configs: SubscriptionGroups, clock: Clock) -> None:
        self._live = live
        self._configs = configs
        self._clock = clock
        self._groups: dict[str, ConsumerGroup] = {}
        self._by_connection: dict[Connection, dict[str, None]] = {}
        # What pulls said about groups whose heartbeats do not: group -> topic -> (when, what).
        self._told_by_pulls: dict[str, dict[str, tuple[int, Subscription]]] = {}
        self._told_count = 0
        self._to_notify: dict[str, None] = {}

    # Membership

    def register(
        self, data: ConsumerData, channel: ClientChannel, *, with_subscriptions: bool = True
    ) -> bool:
        """Note a heartbeat; True when the group has changed by it."""
        now = self._clock.now_ms()
        group = self._groups.get(data.group_name)
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(data.group_name)
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        changed = group.join(channel, now)
        self._by_connection.setdefault(channel.connection, {})[data.group_name] = None
        if with_subscriptions:
            changed |= group.subscribe(data.subscription_data_set)
        if changed:
            self._notify(group)
        return changed

    def unregister(self, name: str, connection: Connection) -> None:
        """Take a member out of a group and tell the others."""
        group = self._groups.get(name)
        if group is None:
            return
        channel = group.channels.pop(connection, None)
        if channel is None:
            return
        logger.info("consumer %s left group %s", channel, name)
        names = self._by_connection[connection]
        names.pop(name, None)
        if not names:
            del self._by_connection[connection]
        if group.channels:
            self._notify(group)
        else:
            del self._groups[name]

    def drop_connection(self, connection: Connection) -> None:
        """Forget a client whose connection is gone."""
        for name in list(self._by_connection.get(connection, ())):
            self.unregister(name, connection)

    def group_count(self, connection: Connection) -> int:
        """In how many groups a client is."""
        return len(self._by_connection.get(connection, ()))

    def expire(self, older_than_ms: int) -> list[ClientChannel]:
        """Forget members not heard of for so long; their connections are the caller's to close."""
        now = self._clock.now_ms()
        expired = [
            (name, channel)
            for name, group in self._groups.items()
            for channel in group.channels.values()
            if channel.last_update_ms < now - older_than_ms
        ]
        for name, channel in expired:
            self.unregister(name, channel.connection)
        self._forget_what_pulls_told(now - self._live.broker.subscription_expired_timeout)
        return [channel for _, channel in expired]

    def _notify(self, group: ConsumerGroup) -> None:
        """Have the members told, once, however much changes in this turn."""
        config = self._configs.get(group.name)
        if (
            group.is_broadcasting
            or not self._live.broker.notify_consumer_ids_changed_enable
            or (config is not None and not config.notify_consumer_ids_changed_enable)
        ):
            return
        if not self._to_notify:
            loop = asyncio.get_running_loop()
            if self._live.broker.real_time_notify_consumer_change:
                loop.call_soon(self._send_notifications)
            else:
                loop.call_later(_COLLECTED_NOTIFICATIONS_S, self._send_notifications)
        self._to_notify[group.name] = None

    def _send_notifications(self) -> None:
        names, self._to_notify = self._to_notify, {}
        for name in names:
            group = self._groups.get(name)
            if group is None:
                continue
            for channel in group.channels.values():
                if channel.is_live:
                    notice = Command.request(NotifyConsumerIdsChanged(consumer_group=name))
                    channel.connection.call_oneway(notice)

    # Looking

    def find(self, name: str) -> ConsumerGroup | None:
        return self._groups.get(name)

    def groups(self) -> list[str]:
        return list(self._groups)

    def client_ids(self, name: str) -> list[str]:
        group = self._groups.get(name)
        return [] if group is None else group.client_ids()

    def channel(self, name: str, client_id: str) -> ClientChannel | None:
        """The connection of one member."""
        group = self._groups.get(name)
        if group is None:
            return None
        for channel in group.channels.values():
            if channel.client_id == client_id:
                return channel
        return None

    def groups_of_topic(self, topic: str) -> list[str]:
        """Who subscribes to a topic now."""
        return [name for name, group in self._groups.items() if topic in group.subscriptions]

    # Subscriptions

    def subscription(self, name: str, topic: str) -> Subscription | None:
        """What a group wants of a topic: from its heartbeats, else from its last pulls."""
        group = self._groups.get(name)
        if group is not None and topic in group.subscriptions:
            return group.subscriptions[topic]
        told = self._told_by_pulls.get(name, {}).get(topic)
        return None if told is None else told[1]

    def told_before(
        self, name: str, topic: str, text: str, expression_type: str
    ) -> Subscription | None:
        """What an earlier pull of the group said, if it said the same; remembered anew."""
        topics = self._told_by_pulls.get(name)
        told = None if topics is None else topics.get(topic)
        if topics is None or told is None:
            return None
        data = told[1].data
        if data.sub_string != text or data.expression_type != expression_type:
            return None
        topics[topic] = (self._clock.now_ms(), told[1])
        return told[1]

    def told_by_pull(self, name: str, subscription: Subscription) -> None:
        """Remember for a while what a pull asked for."""
        if self._told_count >= _MOST_TOLD:
            return  # then each pull is read anew: slower, and right
        topics = self._told_by_pulls.setdefault(name, {})
        self._told_count += subscription.data.topic not in topics
        topics[subscription.data.topic] = (self._clock.now_ms(), subscription)

    def _forget_what_pulls_told(self, before_ms: int) -> None:
        for name, topics in list(self._told_by_pulls.items()):
            for topic in [topic for topic, (when, _) in topics.items() if when < before_ms]:
                del topics[topic]
                self._told_count -= 1
            if not topics:
                del self._told_by_pulls[name]
