"""Who is connected, and who consumes what."""

from collections.abc import Iterable

from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.common.loop.turns import Turns
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    LanguageCode,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies import connections as bodies
from rocketq.remoting.bodies.groups import GroupList, GroupSubscription
from rocketq.remoting.bodies.route import TopicList
from rocketq.remoting.headers import (
    GetConsumerConnectionList,
    GetProducerConnectionList,
    QuerySubscriptionByConsumer,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
)


class ConnectionAdminProcessor:
    """Reads the tables of clients; changes nothing."""

    def __init__(
        self,
        producers: ProducerTable,
        consumers: ConsumerTable,
        offsets: ConsumerOffsets,
        turns: Turns,
        address: str,
    ) -> None:
        self._producers = producers
        self._consumers = consumers
        self._offsets = offsets
        self._turns = turns
        self._address = address

    def handlers(self) -> Handlers:
        return {
            GetConsumerConnectionList.CODE: self._consumer_connections,
            GetProducerConnectionList.CODE: self._producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self._all_producers,
            QueryTopicConsumeByWho.CODE: self._groups_of_topic,
            QueryTopicsByConsumer.CODE: self._topics_of_group,
            QuerySubscriptionByConsumer.CODE: self._subscription,
        }

    async def _consumer_connections(self, request: Command, connection: Connection) -> Command:
        name = request.header(GetConsumerConnectionList).consumer_group
        group = self._consumers.find(name)
        if group is None:
            raise RequestRejected(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online"
            )
        body = bodies.ConsumerConnection(
            connection_set=await self._connections(group.channels.values()),
            subscription_table={
                topic: subscription.data for topic, subscription in group.subscriptions.items()
            },
            consume_type=group.consume_type or None,
            message_model=group.message_model or None,
            consume_from_where=group.consume_from_where or None,
        )
        return request.reply(body=await self._turns.in_thread(body.encode))

    async def _producer_connections(self, request: Command, connection: Connection) -> Command:
        name = request.header(GetProducerConnectionList).producer_group
        channels = self._producers.channels(name)
        if not channels:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist"
            )
        body = bodies.ProducerConnection(connection_set=await self._connections(channels))
        return request.reply(body=await self._turns.in_thread(body.encode))

    async def _connections(
        self, channels: Iterable[ClientChannel]
    ) -> list[bodies.ClientConnection]:
        return [_connection(channel) async for channel in self._turns.over(list(channels))]

    async def _all_producers(self, request: Command, connection: Connection) -> Command:
        body = bodies.ProducerTable(
            data={
                group: [_producer(each) for each in self._producers.channels(group)]
                async for group in self._turns.over(self._producers.groups())
            }
        )
        return request.reply(body=await self._turns.in_thread(body.encode))

    def _groups_of_topic(self, request: Command, connection: Connection) -> Command:
        topic = request.header(QueryTopicConsumeByWho).topic
        online = self._consumers.groups_of_topic(topic)
        known = self._offsets.groups_of(topic)
        groups = list(dict.fromkeys([*online, *known]))
        return request.reply(body=GroupList(group_list=groups).encode())

    def _topics_of_group(self, request: Command, connection: Connection) -> Command:
        group = request.header(QueryTopicsByConsumer).group
        topics = self._offsets.topics_of(group)
        body = TopicList(topic_list=topics, broker_addr=self._address)
        return request.reply(body=body.encode())

    def _subscription(self, request: Command, connection: Connection) -> Command:
        header = request.header(QuerySubscriptionByConsumer)
        topic = header.topic or ""
        subscription = self._consumers.subscription(header.group, topic)
        body = GroupSubscription(
            group=header.group,
            topic=topic,
            subscription_data=None if subscription is None else subscription.data,
        )
        return request.reply(body=body.encode())


def _language(code: int) -> str:
    try:
        return LanguageCode(code).name
    except ValueError:
        return LanguageCode.OTHER.name


def _connection(channel: ClientChannel) -> bodies.ClientConnection:
    return bodies.ClientConnection(
        client_id=channel.client_id,
        client_addr=channel.address,
        language=_language(channel.language),
        version=channel.version,
    )


def _producer(channel: ClientChannel) -> bodies.ProducerInfo:
    return bodies.ProducerInfo(
        client_id=channel.client_id,
        remote_ip=f"/{channel.address}",
        language=_language(channel.language),
        version=channel.version,
        last_update_timestamp=channel.last_update_ms,
    )
