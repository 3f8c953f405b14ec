"""Messages: found by id, key or offset, read queue by queue, sent one at a time."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from rocketq.admin import groups, topics
from rocketq.admin.errors import AdminError, UnknownBroker
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.result import SendResult
from rocketq.common.errors import RocketqError
from rocketq.message.flags import PullFlag
from rocketq.message.ids import is_offset_message_id, parse_offset_message_id
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import TOOLS_CONSUMER_GROUP
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import check_record, decode_record, decode_records
from rocketq.remoting.bodies.connections import ConsumerConnection
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult
from rocketq.remoting.bodies.stats import ConsumeQueueView
from rocketq.remoting.headers import ConsumeMessageDirectly, QueryConsumeQueue

_LATEST_MS: Final = 2**63 - 1
_PULL_COUNT: Final = 32

_RECORD_HEAD: Final = 8


class TrackType(Enum):
    """What became of a message in one group."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrack:
    """Whether a group has consumed a message."""

    group: str
    kind: TrackType
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The part of a queue that is to be read: from `begin` to before `end`."""

    queue: MessageQueue
    address: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to one pull: `FOUND`, `NO_MATCHED_MSG`, `NO_NEW_MSG` or `OFFSET_ILLEGAL`."""

    status: str
    messages: Sequence[MessageExt]
    next_offset: int


_STATUS_BY_CODE: Final = {
    0: "FOUND",
    19: "NO_NEW_MSG",
    20: "NO_MATCHED_MSG",
    21: "OFFSET_ILLEGAL",
}


# Found by id, key or offset


async def by_id(api: BrokerApi, topic: str, message_id: str) -> MessageExt | None:
    """A message by either of its ids: the one its producer gave it, or where it is stored.

    Both look alike. The address in the second kind is that of a broker, so an id whose
    address no broker has is looked for as the first kind.
    """
    place = parse_offset_message_id(message_id) if is_offset_message_id(message_id) else None
    if place is not None:
        host, port, offset = place
        address = f"{host}:{port}"
        if address in await _addresses(api):
            return await _view(api, address, offset, topic)
    found = await by_unique_key(api, topic, message_id)
    return found[0] if found else None


async def _addresses(api: BrokerApi) -> set[str]:
    info = await api.cluster_info()
    return {a for broker in info.broker_addr_table.values() for a in broker.broker_addrs.values()}


async def _view(api: BrokerApi, address: str, offset: int, topic: str) -> MessageExt | None:
    try:
        message = await api.view_message(address, offset, topic=topic)
    except BrokerRejected:
        return None
    return message


async def by_unique_key(
    api: BrokerApi,
    topic: str,
    unique_id: str,
    *,
    begin_ms: int = 0,
    end_ms: int = _LATEST_MS,
) -> list[MessageExt]:
    """The messages a producer gave this id, newest first: a retried send may be stored twice."""
    found = await _query(api, topic, unique_id, _PULL_COUNT, begin_ms, end_ms, unique=True)
    matching = [message for message in found if message.unique_key == unique_id]
    return sorted(matching, key=lambda message: message.store_timestamp, reverse=True)


async def by_key(
    api: BrokerApi,
    topic: str,
    key: str,
    *,
    max_count: int = 64,
    begin_ms: int = 0,
    end_ms: int = _LATEST_MS,
) -> list[MessageExt]:
    """Messages with a key; the index knows keys by their hash, so others are sorted out."""
    found = await _query(api, topic, key, max_count, begin_ms, end_ms, unique=False)
    return [message for message in found if key in message.keys][:max_count]


async def _query(
    api: BrokerApi,
    topic: str,
    key: str,
    max_count: int,
    begin_ms: int,
    end_ms: int,
    *,
    unique: bool,
) -> list[MessageExt]:
    addresses = topics.reading_addresses(await topics.route(api, topic))
    answers = await asyncio.gather(
        *(
            api.query_message(
                address,
                topic,
                key,
                max_count=max_count,
                begin_ms=begin_ms,
                end_ms=end_ms,
                unique=unique,
            )
            for address in addresses
        )
    )
    return [message for answer in answers for message in answer]


async def by_offset(
    api: BrokerApi, topic: str, broker_name: str, queue_id: int, offset: int
) -> MessageExt | None:
    """The message at an offset of a queue."""
    address = await _address_of(api, topic, broker_name)
    queue = MessageQueue(topic, broker_name, queue_id)
    pulled = await pull(api, address, queue, offset, max_count=1)
    return pulled.messages[0] if pulled.messages else None


async def _address_of(api: BrokerApi, topic: str, broker_name: str) -> str:
    for broker in (await topics.route(api, topic)).broker_datas:
        if broker.broker_name == broker_name:
            return broker.broker_addrs[min(broker.broker_addrs)]
    raise UnknownBroker(broker_name)


# Read queue by queue


async def pull(
    api: BrokerApi,
    address: str,
    queue: MessageQueue,
    offset: int,
    *,
    max_count: int = _PULL_COUNT,
    tags: str = "*",
) -> Pulled:
    """Ask once for messages of a queue; nothing is committed."""
    response = await api.pull(
        address,
        group=TOOLS_CONSUMER_GROUP,
        queue=queue,
        offset=offset,
        max_messages=max_count,
        flags=PullFlag.SUBSCRIPTION,
        subscription=tags,
    )
    messages: Sequence[MessageExt] = ()
    if response.code == 0:
        added = {
            "MIN_OFFSET": str(response.min_offset),
            "MAX_OFFSET": str(response.max_offset),
        }
        messages = decode_records(response.body, queue.broker_name, added)
        wanted = set() if tags == "*" else {tag.strip() for tag in tags.split("||")}
        # The broker selects by the hash of a tag; the tag itself is compared here.
        messages = [m for m in messages if not wanted or m.tags in wanted]
    status = _STATUS_BY_CODE[response.code]
    if status == "FOUND" and not messages:
        status = "NO_MATCHED_MSG"
    return Pulled(status, messages, response.next_offset)


async def ranges(
    api: BrokerApi,
    topic: str,
    *,
    broker_name: str | None = None,
    queue_id: int | None = None,
    begin_ms: int | None = None,
    end_ms: int | None = None,
) -> list[QueueRange]:
    """The queues of a topic and what of them lies between two times."""
    of_route = await topics.route(api, topic)
    addresses = {
        broker.broker_name: broker.broker_addrs[min(broker.broker_addrs)]
        for broker in of_route.broker_datas
    }
    if broker_name is not None and broker_name not in addresses:
        raise UnknownBroker(broker_name)
    found = []
    for queue in topics.readable_queues(topic, of_route):
        if broker_name not in (None, queue.broker_name) or queue_id not in (None, queue.queue_id):
            continue
        address = addresses[queue.broker_name]
        if begin_ms is None:
            begin = await api.min_offset(address, queue)
        else:
            begin = await api.search_offset(address, queue, begin_ms)
        if end_ms is None:
            end = await api.max_offset(address, queue)
        else:
            end = await api.search_offset(address, queue, end_ms, boundary="UPPER") + 1
            end = min(end, await api.max_offset(address, queue))
        found.append(QueueRange(queue, address, begin, end))
    return found


async def read(api: BrokerApi, part: QueueRange, *, tags: str = "*") -> AsyncIterator[Pulled]:
    """Pull by pull, all of a range; ends early where the broker has nothing more."""
    offset = part.begin
    while offset < part.end:
        pulled = await pull(api, part.address, part.queue, offset, tags=tags)
        within = [m for m in pulled.messages if m.queue_offset < part.end]
        yield Pulled(pulled.status, within, pulled.next_offset)
        if pulled.status in ("NO_NEW_MSG", "OFFSET_ILLEGAL"):
            return
        offset = pulled.next_offset


async def queue_entries(
    api: BrokerApi,
    address: str,
    topic: str,
    queue_id: int,
    index: int,
    count: int,
    group: str | None = None,
) -> ConsumeQueueView:
    """Entries of a consume queue as they are stored."""
    header = QueryConsumeQueue(
        topic=topic, queue_id=queue_id, index=index, count=count, consumer_group=group
    )
    return ConsumeQueueView.decode((await api.invoke(address, header)).body)


# Sent, and what became of them


async def send(
    api: BrokerApi,
    message: Message,
    *,
    broker_name: str | None = None,
    queue_id: int | None = None,
    credentials: tuple[str, str] = ("", ""),
) -> SendResult:
    """Send one message, to any queue, any queue of a broker, or a certain one.

    `credentials` are the user's in whose name it is sent, where not those of the environment.
    """
    if queue_id is not None and broker_name is None:
        raise AdminError(f"queue {queue_id} of which broker?")
    access_key, secret_key = credentials
    async with Producer(
        "rocketq-admin",
        namesrv=api.name_servers.addresses,
        access_key=access_key,
        secret_key=secret_key,
    ) as producer:
        if broker_name is None:
            return await producer.send(message)
        if queue_id is None:
            queues = await producer.publish_queues(message.topic)
            of_broker = [queue for queue in queues if queue.broker_name == broker_name]
            if not of_broker:
                raise UnknownBroker(broker_name)
            return await producer.send(message, queue=random.choice(of_broker))
        queue = MessageQueue(message.topic, broker_name, queue_id)
        return await producer.send(message, queue=queue)


async def consume_directly(
    api: BrokerApi, message: MessageExt, group: str, client_id: str
) -> ConsumeMessageDirectlyResult:
    """Have one consumer consume one message now; its offsets stay as they are."""
    host, port = message.store_host
    header = ConsumeMessageDirectly(
        consumer_group=group,
        client_id=client_id,
        msg_id=message.offset_msg_id,
        topic=message.topic,
    )
    reply = await api.invoke(f"{host}:{port}", header, timeout_s=15.0)
    return ConsumeMessageDirectlyResult.decode(reply.body)


async def track(api: BrokerApi, message: MessageExt) -> list[MessageTrack]:
    """What became of a message in every group that reads its topic."""
    found = []
    for group in await topics.groups_of(api, message.topic):
        try:
            found.append(await _track_of(api, message, group))
        except RocketqError as error:
            found.append(MessageTrack(group=group, kind=TrackType.UNKNOWN, reason=str(error)))
    return found


async def _track_of(api: BrokerApi, message: MessageExt, group: str) -> MessageTrack:
    try:
        connection = await groups.consumer_connection(api, group)
    except BrokerRejected as error:
        if not groups.is_offline(error):
            raise
        return MessageTrack(group=group, kind=TrackType.NOT_ONLINE, reason=error.remark)
    if connection.consume_type == "CONSUME_ACTIVELY":
        return MessageTrack(group=group, kind=TrackType.PULL)
    if connection.message_model == "BROADCASTING":
        return MessageTrack(group=group, kind=TrackType.CONSUME_BROADCASTING)
    if not await _is_consumed(api, message, group):
        return MessageTrack(group=group, kind=TrackType.NOT_CONSUME_YET)
    wanted = _is_wanted(message, connection)
    kind = TrackType.CONSUMED if wanted else TrackType.CONSUMED_BUT_FILTERED
    return MessageTrack(group=group, kind=kind)


async def _is_consumed(api: BrokerApi, message: MessageExt, group: str) -> bool:
    stats = await groups.progress_of(api, group, message.topic)
    host, port = message.store_host
    for broker in (await topics.route(api, message.topic)).broker_datas:
        if f"{host}:{port}" in broker.broker_addrs.values():
            queue = MessageQueue(message.topic, broker.broker_name, message.queue_id)
            offsets = stats.offset_table.get(queue)
            return offsets is not None and offsets.consumer_offset > message.queue_offset
    return False


def _is_wanted(message: MessageExt, connection: ConsumerConnection) -> bool:
    subscription = connection.subscription_table.get(message.topic)
    if subscription is None or not subscription.tags_set:
        return True
    return message.tags in subscription.tags_set or "*" in subscription.tags_set


# Files


def of_file(path: Path) -> list[MessageExt]:
    """The messages of one file of records: of the commit log, or of a compacted topic."""
    try:
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise AdminError(f"cannot read {path}: {error.strerror}") from None
    found = []
    while len(data) >= _RECORD_HEAD:
        size = int.from_bytes(data[:4], "big", signed=True)
        if size <= 0 or size > len(data) or not check_record(data[:size]).is_valid:
            break  # the blank at the end of a file, or nothing yet
        found.append(decode_record(data[:size]))
        data = data[size:]
    return found
