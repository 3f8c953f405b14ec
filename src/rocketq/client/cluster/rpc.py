"""What can be asked of NameServers and brokers, one typed method for each request.

No state beyond which NameServer to ask: a method builds a header, makes the call and turns
the answer into what its caller wants. An answer other than success is raised as
`BrokerRejected`; connection errors pass through. Retries are the callers' business, except
among NameServers, any of which will do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from rocketq.client.cluster.name_servers import NameServers
from rocketq.client.cluster.outages import OUTAGES
from rocketq.client.errors import BrokerRejected, NameServersUnavailable
from rocketq.common.errors import RocketqError
from rocketq.message.flags import PullFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import AUTO_CREATE_TOPIC
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import decode_record, decode_records
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.heartbeat import (
    CheckClientRequest,
    ConsumerIds,
    HeartbeatData,
    SubscriptionData,
)
from rocketq.remoting.bodies.locks import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.bodies.route import ClusterInfo, TopicList, TopicRouteData
from rocketq.remoting.bodies.stats import ConsumeStats, TopicStatsTable
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers import (
    ConsumerSendMsgBack,
    CreateTopic,
    DeleteKvConfig,
    DeleteTopicInBroker,
    DeleteTopicInNamesrv,
    EndTransaction,
    GetConsumerListByGroup,
    GetConsumeStats,
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeResponse,
    GetKvConfig,
    GetKvConfigResponse,
    GetMaxOffset,
    GetMaxOffsetResponse,
    GetMinOffset,
    GetMinOffsetResponse,
    GetRouteInfo,
    GetTopicStatsInfo,
    HeartBeat,
    HeartBeatResponse,
    LockBatch,
    PullMessage,
    PutKvConfig,
    QueryConsumerOffset,
    QueryConsumerOffsetResponse,
    QueryMessage,
    RecallMessage,
    RecallMessageResponse,
    RequestHeader,
    SearchOffset,
    SearchOffsetResponse,
    UnlockBatch,
    UnregisterClient,
    UpdateConsumerOffset,
    ViewMessageById,
)
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.wire.command import Command

_SUCCESS: Final = frozenset({int(ResponseCode.SUCCESS)})
_PULL_ANSWERS: Final = frozenset({0, 19, 20, 21})
_PULL_ANSWERS_LITE: Final = _PULL_ANSWERS | {3}
_LATEST_MS: Final = 2**63 - 1


class HeartbeatReply(NamedTuple):
    """What a broker says of itself when a client introduces itself."""

    version: int
    subscription_changed: bool


class PullResponse(NamedTuple):
    """The answer to a pull: records (with code 0), and where to go on."""

    code: int
    """0 found, 19 nothing new, 20 nothing that matches yet, 21 the offset was out of range."""
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    body: bytes | memoryview
    """Concatenated stored records; a view into the received frame."""
    remark: str


class BrokerApi:
    """The RPC layer of one client instance."""

    def __init__(
        self,
        remoting: RemotingClient,
        name_servers: NameServers,
        *,
        timeout_s: float = 3.0,
        stream: bool = False,
    ) -> None:
        self.remoting = remoting
        self.name_servers = name_servers
        self._timeout_s = timeout_s
        # Pull and lite pull consumers mark every request as part of a stream.
        self._marks = {"ReqT": "0"} if stream else None
        self._without_lite_pull: set[str] = set()

    # General

    async def invoke(
        self,
        address: str,
        header: RequestHeader | int,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        ext: Mapping[str, str] | None = None,
        accept: Collection[int] = _SUCCESS,
        code: int | None = None,
    ) -> Command:
        """Any request; answers other than those in `accept` are raised."""
        request = Command.request(header, body, code=code, ext=self._marked(ext))
        reply = await self.remoting.call(
            address, request, timeout_s=self._timeout_s if timeout_s is None else timeout_s
        )
        if reply.code not in accept:
            raise rejected(reply, address, request.code)
        return reply

    async def oneway(
        self,
        address: str,
        header: RequestHeader | int,
        body: bytes = b"",
        *,
        ext: Mapping[str, str] | None = None,
        remark: str | None = None,
    ) -> None:
        """A request nobody answers."""
        request = Command.request(header, body, ext=self._marked(ext), oneway=True)
        request.remark = remark
        await self.remoting.call_oneway(address, request)

    async def invoke_name_server(
        self,
        header: RequestHeader | int,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        ext: Mapping[str, str] | None = None,
        accept: Collection[int] = _SUCCESS,
    ) -> Command:
        """Ask one NameServer, the next one when it does not answer."""
        failures: dict[str, BaseException] = {}
        for _ in self.name_servers.addresses:
            address = self.name_servers.current
            try:
                reply = await self.invoke(
                    address, header, body, timeout_s=timeout_s, ext=ext, accept=accept
                )
                OUTAGES.answered(f"NameServer {address}")
                return reply
            except BrokerRejected:
                OUTAGES.answered(f"NameServer {address}")
                raise
            except RocketqError as error:
                if not error.retriable:
                    raise
                OUTAGES.failed(f"NameServer {address}", error)
                failures[address] = error
                self.name_servers.failed(address)
        raise NameServersUnavailable(failures)

    async def invoke_every_name_server(
        self, header: RequestHeader | int, body: bytes = b""
    ) -> None:
        """Administration: NameServers do not tell each other anything."""
        for address in self.name_servers.addresses:
            await self.invoke(address, header, body)

    def _marked(self, ext: Mapping[str, str] | None) -> Mapping[str, str] | None:
        if self._marks is None:
            return ext
        return self._marks if ext is None else {**ext, **self._marks}

    @property
    def addresses(self) -> tuple[str, ...]:
        """The NameServers asked, for error messages."""
        return self.name_servers.addresses

    # NameServer

    async def route(self, topic: str, *, timeout_s: float | None = None) -> TopicRouteData | None:
        """Where a topic lives; None when nobody serves it."""
        reply = await self.invoke_name_server(
            GetRouteInfo(topic=topic, accept_standard_json_only=True),
            timeout_s=timeout_s,
            accept=(ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST),
        )
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return TopicRouteData.decode(reply.body)

    async def cluster_info(self) -> ClusterInfo:
        """All brokers of all clusters."""
        reply = await self.invoke_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        return ClusterInfo.decode(reply.body)

    async def has_brokers(self) -> bool:
        """Whether any broker is registered."""
        return bool((await self.cluster_info()).broker_addr_table)

    async def topic_names(self) -> list[str]:
        """Every topic the NameServer knows."""
        reply = await self.invoke_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return list(TopicList.decode(reply.body).topic_list)

    async def kv_config(self, namespace: str, key: str) -> str | None:
        """One value of the NameServer's own little store; None when there is none."""
        reply = await self.invoke_name_server(
            GetKvConfig(namespace=namespace, key=key),
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return reply.header(GetKvConfigResponse).value

    async def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Set a value at every NameServer."""
        await self.invoke_every_name_server(PutKvConfig(namespace=namespace, key=key, value=value))

    async def delete_kv_config(self, namespace: str, key: str) -> None:
        """Remove a value at every NameServer."""
        await self.invoke_every_name_server(DeleteKvConfig(namespace=namespace, key=key))

    # Clients

    async def heartbeat(
        self, address: str, data: HeartbeatData, *, timeout_s: float | None = None
    ) -> HeartbeatReply:
        """Introduce this client's groups to a broker, or say that they are still there."""
        reply = await self.invoke(address, HeartBeat(), data.encode(), timeout_s=timeout_s)
        header = reply.header(HeartBeatResponse)
        return HeartbeatReply(reply.version, bool(header.subscription_changed))

    async def check_client(
        self, address: str, client_id: str, group: str, subscription: SubscriptionData
    ) -> None:
        """Have a broker compile a subscription; a bad expression is rejected."""
        body = CheckClientRequest(client_id=client_id, group=group, subscription_data=subscription)
        await self.invoke(address, RequestCode.CHECK_CLIENT_CONFIG, body.encode())

    async def unregister(
        self,
        address: str,
        client_id: str,
        *,
        producer_group: str | None = None,
        consumer_group: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Take a group back."""
        header = UnregisterClient(
            client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        await self.invoke(address, header, timeout_s=timeout_s)

    async def consumer_list(self, address: str, group: str) -> list[str]:
        """The client ids of a consumer group's members."""
        reply = await self.invoke(address, GetConsumerListByGroup(consumer_group=group))
        return list(ConsumerIds.decode(reply.body).consumer_id_list)

    async def lock(
        self, address: str, client_id: str, group: str, queues: Iterable[MessageQueue]
    ) -> set[MessageQueue]:
        """Ask for queues to consume in order; those granted."""
        body = LockBatchRequest(client_id=client_id, consumer_group=group, mq_set=list(queues))
        reply = await self.invoke(address, LockBatch(), body.encode())
        return set(LockBatchResponse.decode(reply.body).lock_ok_mq_set)

    async def unlock(
        self,
        address: str,
        client_id: str,
        group: str,
        queues: Iterable[MessageQueue],
        *,
        oneway: bool = True,
    ) -> None:
        """Give queues back."""
        body = UnlockBatchRequest(client_id=client_id, consumer_group=group, mq_set=list(queues))
        if oneway:
            await self.oneway(address, UnlockBatch(), body.encode())
        else:
            await self.invoke(address, UnlockBatch(), body.encode())

    # Offsets

    async def query_offset(
        self,
        address: str,
        group: str,
        queue: MessageQueue,
        *,
        zero_if_not_found: bool | None = None,
    ) -> int | None:
        """How far a group has come in a queue; None when the broker does not know."""
        header = QueryConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=zero_if_not_found,
            broker_name=queue.broker_name,
        )
        reply = await self.invoke(
            address, header, accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        )
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return reply.header(QueryConsumerOffsetResponse).offset

    async def update_offset(
        self, address: str, group: str, queue: MessageQueue, offset: int, *, oneway: bool = True
    ) -> None:
        """Tell how far a group has come."""
        header = UpdateConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            broker_name=queue.broker_name,
        )
        if oneway:
            await self.oneway(address, header)
        else:
            await self.invoke(address, header)

    async def max_offset(self, address: str, queue: MessageQueue, *, committed: bool = True) -> int:
        """The offset the next message will get."""
        header = GetMaxOffset(
            topic=queue.topic,
            queue_id=queue.queue_id,
            committed=committed,
            broker_name=queue.broker_name,
        )
        return (await self.invoke(address, header)).header(GetMaxOffsetResponse).offset

    async def min_offset(self, address: str, queue: MessageQueue) -> int:
        """The offset of the oldest message still there."""
        header = GetMinOffset(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        return (await self.invoke(address, header)).header(GetMinOffsetResponse).offset

    async def search_offset(
        self, address: str, queue: MessageQueue, timestamp_ms: int, *, boundary: str | None = None
    ) -> int:
        """The offset of the message stored at a time.

        `boundary` LOWER or UPPER: of several stored in that millisecond, the first or the last.
        """
        header = SearchOffset(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            boundary_type=boundary,
            broker_name=queue.broker_name,
        )
        return (await self.invoke(address, header)).header(SearchOffsetResponse).offset

    async def earliest_time(self, address: str, queue: MessageQueue) -> int:
        """When the oldest message still there was stored, in ms."""
        header = GetEarliestMsgStoretime(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        reply = await self.invoke(address, header)
        return reply.header(GetEarliestMsgStoretimeResponse).timestamp

    # Messages

    async def pull(
        self,
        address: str,
        *,
        group: str,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        max_bytes: int | None = None,
        flags: int = 0,
        commit_offset: int = 0,
        suspend_ms: int = 0,
        subscription: str | None = None,
        sub_version: int = 0,
        expression_type: str | None = "TAG",
        lite: bool = False,
        timeout_s: float = 30.0,
    ) -> PullResponse:
        """Ask for messages of a queue from an offset on.

        With `PullFlag.SUSPEND` the broker waits up to `suspend_ms` for some to arrive.
        """
        if lite:
            flags |= PullFlag.LITE_PULL
        header = PullMessage(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_messages,
            sys_flag=flags,
            commit_offset=commit_offset,
            suspend_timeout_millis=suspend_ms,
            subscription=subscription,
            sub_version=sub_version,
            expression_type=expression_type,
            max_msg_bytes=max_bytes,
            broker_name=queue.broker_name,
        )
        lite = lite and address not in self._without_lite_pull
        reply = await self.invoke(
            address,
            header,
            code=RequestCode.LITE_PULL_MESSAGE if lite else None,
            timeout_s=timeout_s,
            accept=_PULL_ANSWERS_LITE if lite else _PULL_ANSWERS,
        )
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            # Brokers before 5.0 take lite pulls as pulls with a flag.
            self._without_lite_pull.add(address)
            reply = await self.invoke(address, header, timeout_s=timeout_s, accept=_PULL_ANSWERS)
        ext = reply.ext_fields
        return PullResponse(
            reply.code,
            int(ext["nextBeginOffset"]),
            int(ext["minOffset"]),
            int(ext["maxOffset"]),
            int(ext["suggestWhichBrokerId"]),
            reply.body,
            reply.remark or "",
        )

    async def send_back(
        self,
        address: str,
        *,
        group: str,
        message: MessageExt,
        delay_level: int,
        max_reconsume_times: int,
        broker_name: str | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        """Have a message delivered again later (level 0: the broker decides when; −1: never)."""
        header = ConsumerSendMsgBack(
            offset=message.physical_offset,
            group=group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            max_reconsume_times=max_reconsume_times,
            broker_name=broker_name,
        )
        await self.invoke(address, header, timeout_s=timeout_s)

    async def view_message(
        self, address: str, physical_offset: int, *, topic: str | None = None
    ) -> MessageExt:
        """The message stored at a place in a broker's log."""
        reply = await self.invoke(address, ViewMessageById(offset=physical_offset, topic=topic))
        return decode_record(reply.body)

    async def query_message(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int = _LATEST_MS,
        unique: bool = False,
    ) -> list[MessageExt]:
        """Messages with a key (or, `unique`, with an id given by their producer)."""
        header = QueryMessage(
            topic=topic,
            key=key,
            max_num=max_count,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key=unique,
        )
        reply = await self.invoke(
            address,
            header,
            timeout_s=max(self._timeout_s, 15.0),
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )
        return decode_records(reply.body) if reply.code == ResponseCode.SUCCESS else []

    async def end_transaction(
        self, address: str, header: EndTransaction, *, remark: str | None = None
    ) -> None:
        """Settle a half message; nobody answers."""
        await self.oneway(address, header, remark=remark)

    async def recall(
        self, address: str, topic: str, handle: str, *, group: str, broker_name: str | None = None
    ) -> str:
        """Take back a message that waits for its time; its id."""
        header = RecallMessage(
            producer_group=group, topic=topic, recall_handle=handle, broker_name=broker_name
        )
        return (await self.invoke(address, header)).header(RecallMessageResponse).msg_id

    # Administration

    async def create_topic(
        self, address: str, config: TopicConfig, *, default_topic: str = AUTO_CREATE_TOPIC
    ) -> None:
        """Create or change a topic on one broker."""
        attributes = ",".join(f"+{name}={value}" for name, value in config.attributes.items())
        header = CreateTopic(
            topic=config.topic_name,
            default_topic=default_topic,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=attributes,
        )
        await self.invoke(address, header)

    async def delete_topic(self, address: str, topic: str) -> None:
        """Delete a topic on one broker."""
        await self.invoke(address, DeleteTopicInBroker(topic=topic))

    async def delete_topic_in_name_servers(self, topic: str, *, cluster: str | None = None) -> None:
        """Forget a topic's route at every NameServer."""
        await self.invoke_every_name_server(DeleteTopicInNamesrv(topic=topic, cluster_name=cluster))

    async def topic_stats(self, address: str, topic: str) -> TopicStatsTable:
        """First and last offset of a topic's queues on one broker."""
        reply = await self.invoke(address, GetTopicStatsInfo(topic=topic))
        return TopicStatsTable.decode(reply.body)

    async def consume_stats(
        self, address: str, group: str, *, topic: str | None = None
    ) -> ConsumeStats:
        """How far a group is on one broker, queue by queue."""
        reply = await self.invoke(address, GetConsumeStats(consumer_group=group, topic=topic))
        return ConsumeStats.decode(reply.body)

    async def create_group(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create or change a consumer group on one broker."""
        await self.invoke(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, config.encode())


def rejected(reply: Command, address: str, request_code: int) -> BrokerRejected:
    """The error for an answer that says no."""
    try:
        request = RequestCode(request_code).name
    except ValueError:
        request = f"request {request_code}"
    return BrokerRejected(reply.code, reply.remark or "", address=address, request=request)
