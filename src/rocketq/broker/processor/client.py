"""Clients making themselves known: heartbeats, goodbyes, and who else is in a group.

A heartbeat names all producer and consumer groups of one client. Its second form (5.x)
carries a fingerprint: a client whose subscriptions have not changed leaves them out, and the
reply says whether the broker still knows them.
"""

from collections.abc import Awaitable
from typing import Final

from rocketq.broker.access.references import user_of
from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.clients.consumers import ConsumerTable, Subscription
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.common.clock import Clock
from rocketq.common.loop.turns import Turns
from rocketq.message.names import retry_topic
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.heartbeat import (
    CheckClientRequest,
    ConsumerData,
    ConsumerIds,
    HeartbeatData,
    ProducerData,
)
from rocketq.remoting.headers import (
    GetConsumerListByGroup,
    HeartBeat,
    HeartBeatResponse,
    UnregisterClient,
)

CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
SQL92: Final = "SQL92"

# Topic flag of a retry topic whose group consumes in units.
_UNIT_SUBSCRIPTION: Final = 2

# So many groups of a heartbeat are registered in one turn.
_FEW_GROUPS: Final = 16
_SMALL_BODY: Final = 64 * 1024


class ClientProcessor:
    """Keeps the tables of producers and consumers."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        producers: ProducerTable,
        consumers: ConsumerTable,
        turns: Turns,
        clock: Clock,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._producers = producers
        self._consumers = consumers
        self._turns = turns
        self._clock = clock

    def handlers(self) -> Handlers:
        return {
            HeartBeat.CODE: self._heartbeat,
            UnregisterClient.CODE: self._unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self._check,
            GetConsumerListByGroup.CODE: self._members,
        }

    def _heartbeat(self, request: Command, connection: Connection) -> Command | Awaitable[Command]:
        if len(request.body) > _SMALL_BODY:
            return self._heartbeat_later(request, connection)
        return self._take(request, connection, HeartbeatData.from_request(request))

    async def _heartbeat_later(self, request: Command, connection: Connection) -> Command:
        """As below, read in slices: a large one takes longer than others may wait."""
        data = await self._turns.do(HeartbeatData.slices_of_request(request))
        reply = self._take(request, connection, data)
        return reply if isinstance(reply, Command) else await reply

    def _take(
        self, request: Command, connection: Connection, data: HeartbeatData
    ) -> Command | Awaitable[Command]:
        channel = ClientChannel(
            *(connection, data.client_id, request.language, request.version),
            self._clock.now_ms(),
            user_of(request),
        )
        # A heartbeat of the first form always asks to be repeated in full.
        changed = data.heartbeat_fingerprint == 0
        if len(data.consumer_data_set) + len(data.producer_data_set) > _FEW_GROUPS:
            return self._register_many(request, channel, data, changed)
        for consumer in data.consumer_data_set:
            changed |= self._register_consumer(consumer, channel, data)
        for producer in data.producer_data_set:
            self._register_producer(producer, channel)
        return self._known(request, changed)

    async def _register_many(
        self, request: Command, channel: ClientChannel, data: HeartbeatData, changed: bool
    ) -> Command:
        """As above for a client of many groups, which may not keep others waiting."""
        async for consumer in self._turns.over(data.consumer_data_set):
            if channel.is_live:
                changed |= self._register_consumer(consumer, channel, data)
        async for producer in self._turns.over(data.producer_data_set):
            if channel.is_live:
                self._register_producer(producer, channel)
        return self._known(request, changed)

    @staticmethod
    def _known(request: Command, changed: bool) -> Command:
        return request.reply(
            HeartBeatResponse(supports_heartbeat_v2=True, subscription_changed=changed)
        )

    def _register_producer(self, producer: ProducerData, channel: ClientChannel) -> None:
        most = self._live.broker.max_groups_per_connection
        if (
            self._live.broker.enable_register_producer
            and self._producers.group_count(channel.connection) < most
        ):
            self._producers.register(producer.group_name, channel)

    def _register_consumer(
        self, consumer: ConsumerData, channel: ClientChannel, data: HeartbeatData
    ) -> bool:
        """Note one consumer group of a client; True when its fingerprint is not the known one."""
        if (
            self._live.broker.reject_pull_consumer_enable
            and consumer.consume_type == CONSUME_ACTIVELY
        ):
            return False
        most = self._live.broker.max_groups_per_connection
        if self._consumers.group_count(channel.connection) >= most and not self._is_member(
            consumer.group_name, channel
        ):
            return False
        config = self._groups.get_or_make(consumer.group_name, channel.connection)
        if config is None:
            return False
        if config.retry_queue_nums > 0:
            try:
                self._topics.ensure_for(
                    channel.connection,
                    retry_topic(consumer.group_name),
                    config.retry_queue_nums,
                    sys_flag=_UNIT_SUBSCRIPTION if consumer.unit_mode else 0,
                )
            except RequestRejected:
                return False  # one group too many; the others of the client are served
        self._consumers.register(consumer, channel, with_subscriptions=not data.without_sub)
        group = self._consumers.find(consumer.group_name)
        assert group is not None
        known, group.fingerprint = group.fingerprint, data.heartbeat_fingerprint
        if data.without_sub and not group.subscriptions:
            return True
        return known not in (0, data.heartbeat_fingerprint)

    def _is_member(self, name: str, channel: ClientChannel) -> bool:
        group = self._consumers.find(name)
        return group is not None and channel.connection in group.channels

    def _unregister(self, request: Command, connection: Connection) -> Command:
        header = request.header(UnregisterClient)
        if header.producer_group is not None:
            self._producers.unregister(header.producer_group, connection)
        if header.consumer_group is not None:
            self._consumers.unregister(header.consumer_group, connection)
        return request.reply(ext={})

    def _check(self, request: Command, connection: Connection) -> Command:
        """Whether the broker could serve this subscription; asked before a consumer starts."""
        if not len(request.body):
            return request.reply()
        subscription = CheckClientRequest.from_request(request).subscription_data
        if subscription.expression_type in ("", "TAG"):
            return request.reply()
        if not self._live.broker.enable_property_filter:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by "
                + subscription.expression_type,
            )
        error = Subscription(subscription).error
        if error is not None:
            raise RequestRejected(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
        return request.reply()

    def _members(self, request: Command, connection: Connection) -> Command:
        group = request.header(GetConsumerListByGroup).consumer_group
        client_ids = self._consumers.client_ids(group)
        if not client_ids:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        return request.reply(body=ConsumerIds(consumer_id_list=client_ids).encode(), ext={})
