"""Sub-commands that find, read and send messages."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final

from rocketq.admin import AdminError, messages, topics
from rocketq.admin.messages import MessageTrack
from rocketq.cli.admin.command import Report, RouteCluster, Topic, command, flag
from rocketq.cli.admin.java_text import (
    direct_result_text,
    map_text,
    message_text,
    queue_text,
    text_of,
)
from rocketq.cli.admin.times import parse_optional_time, to_the_millisecond
from rocketq.cli.commands import Option, UsageError
from rocketq.cli.messages.text import data_of
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common import json
from rocketq.message.message import Message, MessageExt

_SENT: Final = "{:<32}  {:<4}  {:<20}    {}"
_BY_KEY: Final = "{:<50} {:>4} {:>40} {}"
_BODIES: Final = Path("/tmp/rocketmq/msgbodys")
_DASHES: Final = "-" * 56

MessageId = Annotated[str, Option("-i", "--msgId", metavar="ID", help="The message's id.")]
BodyFormat = Annotated[
    str | None,
    Option("-f", "--bodyFormat", metavar="CHARSET", help="Print the body in this charset."),
]
Begin = Annotated[
    str | None,
    Option("-b", "--beginTimestamp", metavar="TIME", help="From: ms, or yyyy-MM-dd#HH:mm:ss:SSS"),
]
End = Annotated[str | None, Option("-e", "--endTimestamp", metavar="TIME", help="Until then.")]


# Found


@command("queryMsgById")
async def query_msg_by_id(
    api: BrokerApi,
    topic: Topic,
    ids: MessageId,
    body_format: BodyFormat = None,
    group: Annotated[
        str | None,
        Option("-g", "--consumerGroup", metavar="GROUP", help="With -d: consume it there."),
    ] = None,
    client_id: Annotated[
        str | None, Option("-d", "--clientId", metavar="ID", help="The consumer's client.")
    ] = None,
    again: Annotated[
        str | None,
        Option("-s", "--sendMessage", metavar="true|false", help="Send it once more?"),
    ] = None,
    cluster: RouteCluster = None,
    unit: Annotated[str | None, Option("-u", "--unitName", hidden=True)] = None,
) -> Report:
    """Query Message by Id."""
    data: list[Any] = []
    lines: list[str] = []
    for message_id in (each.strip() for each in ids.split(",")):
        message = await messages.by_id(api, topic, message_id)
        if message is None:
            data.append(None)
            lines += ["", "Message not found!"]
        elif group and client_id:
            result = await messages.consume_directly(api, message, group, client_id)
            data.append(result.to_json())
            lines.append(direct_result_text(result))
        elif flag(again):
            copy = Message.of(message.topic, message.body, dict(message.properties), message.flag)
            sent = await messages.send(api, copy)
            data.append({"msgId": sent.msg_id})
            lines.append(f"prepare resend msg. originalMsgId={message_id}")
            lines.append(repr(sent))
        else:
            tracks = await messages.track(api, message)
            data.append(message_data(message, tracks))
            lines += message_lines(message, tracks, body_format)
    return Report(data, lines)


@command("queryMsgByUniqueKey")
async def query_msg_by_unique_key(
    api: BrokerApi,
    topic: Topic,
    unique_id: MessageId,
    show_all: Annotated[
        bool, Option("-a", "--showAll", help="All messages with the id, not only one.")
    ] = False,
    group: Annotated[
        str | None,
        Option("-g", "--consumerGroup", metavar="GROUP", help="With -d: consume it there."),
    ] = None,
    client_id: Annotated[
        str | None, Option("-d", "--clientId", metavar="ID", help="The consumer's client.")
    ] = None,
    begin: Annotated[
        int, Option("-s", "--startTime", metavar="MS", help="Stored from then on.")
    ] = 0,
    end: Annotated[
        int | None, Option("-e", "--endTime", metavar="MS", help="Stored until then.")
    ] = None,
    cluster: RouteCluster = None,
) -> Report:
    """Query Message by Unique key."""
    end_ms = 2**63 - 1 if end is None else end
    found = await messages.by_unique_key(api, topic, unique_id, begin_ms=begin, end_ms=end_ms)
    if found and group and client_id:
        result = await messages.consume_directly(api, found[0], group, client_id)
        return Report(result.to_json(), [direct_result_text(result)])
    data, lines = [], []
    for message in found if show_all else found[:1]:
        tracks = await messages.track(api, message)
        data.append(message_data(message, tracks))
        lines += message_lines(message, tracks, None, with_id=False)
    return Report(data, lines or ["", "Message not found!"])


@command("queryMsgByOffset")
async def query_msg_by_offset(
    api: BrokerApi,
    topic: Topic,
    broker_name: Annotated[
        str, Option("-b", "--brokerName", metavar="NAME", help="The broker, by its name.")
    ],
    queue_id: Annotated[int, Option("-i", "--queueId", metavar="ID", help="The queue.")],
    offset: Annotated[int, Option("-o", "--offset", metavar="N", help="The offset in it.")],
    body_format: BodyFormat = None,
    route_topic: Annotated[str | None, Option("-r", "--routeTopic", hidden=True)] = None,
) -> Report:
    """Query Message by offset."""
    message = await messages.by_offset(api, topic, broker_name, queue_id, offset)
    if message is None:
        return Report(None, ["", "Message not found!"])
    tracks = await messages.track(api, message)
    return Report(message_data(message, tracks), message_lines(message, tracks, body_format))


@command("queryMsgByKey")
async def query_msg_by_key(
    api: BrokerApi,
    topic: Topic,
    key: Annotated[str, Option("-k", "--msgKey", metavar="KEY", help="The key.")],
    begin: Begin = None,
    end: End = None,
    max_count: Annotated[
        int, Option("-m", "--maxNum", metavar="N", help="At most this many.")
    ] = 64,
    kind: Annotated[
        str, Option("-p", "--keyType", metavar="K", help="K for keys; tags are not indexed.")
    ] = "K",
    last_key: Annotated[str | None, Option("-l", "--lastKey", hidden=True)] = None,
    cluster: RouteCluster = None,
) -> Report:
    """Query Message by Key."""
    if kind != "K":
        raise UsageError("only keys (K) are indexed")
    begin_ms, end_ms = parse_optional_time(begin), parse_optional_time(end)
    found = await messages.by_key(
        api,
        topic,
        key,
        max_count=max_count,
        begin_ms=begin_ms or 0,
        end_ms=2**63 - 1 if end_ms is None else end_ms,
    )
    lines = [_BY_KEY.format("#Message ID", "#QID", "#Offset", "#IndexKey")]
    for m in found:
        index_key = f"{m.store_timestamp}@{topic}@K@{key}@{m.msg_id}@{m.physical_offset}"
        lines.append(_BY_KEY.format(m.msg_id, m.queue_id, m.queue_offset, index_key))
    return Report([message_data(m) for m in found], lines)


@command("queryCq")
async def query_cq(
    api: BrokerApi,
    topic: Topic,
    queue_id: Annotated[int, Option("-q", "--queue", metavar="ID", help="The queue.")],
    index: Annotated[int, Option("-i", "--index", metavar="N", help="The first entry.")],
    count: Annotated[int, Option("-c", "--count", metavar="N", help="How many.")] = 10,
    broker: Annotated[
        str | None, Option("-b", "--broker", metavar="HOST:PORT", help="The broker.")
    ] = None,
    group: Annotated[
        str | None, Option("-g", "--consumer", metavar="GROUP", help="With its filter.")
    ] = None,
) -> Report:
    """Query cq command."""
    if broker is None:
        broker = topics.reading_addresses(await topics.route(api, topic))[0]
    view = await messages.queue_entries(api, broker, topic, queue_id, index, count, group)
    bar = "======================================"
    lines = []
    if view.subscription_data is not None:
        # RocketMQ's tool closes an empty set on a line of its own.
        shown = json.dumps_pretty(view.subscription_data.to_json()).decode()
        shown = shown.replace(":[]", ":[\n\t]")
        lines += ["Subscription data: ", shown, bar]
    if view.filter_data is not None:
        lines += ["Filter data: ", view.filter_data, bar]
    lines += ["Queue data: ", f"max: {view.max_queue_index}, min: {view.min_queue_index}", bar]
    for number, entry in enumerate(view.queue_data, start=index):
        lines += [
            f"idx: {number}",
            f"ConsumeQueueData{{physicOffset={entry.physic_offset}, "
            f"physicSize={entry.physic_size}, tagsCode={entry.tags_code}, "
            f"extendDataJson='{text_of(entry.extend_data_json)}', "
            f"bitMap='{text_of(entry.bit_map)}', eval={text_of(entry.eval)}, "
            f"msg='{text_of(entry.msg)}'}}",
            bar,
        ]
    return Report(view.to_json(), lines)


# Read


@command("printMsg")
async def print_msg(
    api: BrokerApi,
    topic: Topic,
    charset: Annotated[
        str, Option("-c", "--charsetName", metavar="CHARSET", help="Of the bodies.")
    ] = "UTF-8",
    tags: Annotated[
        str, Option("-s", "--subExpression", metavar="TAGS", help="TagA || TagB")
    ] = "*",
    begin: Begin = None,
    end: End = None,
    print_body: Annotated[
        str | None, Option("-d", "--printBody", metavar="true|false", help="[true]")
    ] = None,
    lmq_parent: Annotated[str | None, Option("-l", "--lmqParentTopic", hidden=True)] = None,
) -> Report:
    """Print Message Detail."""
    with_body = flag(print_body, True)
    data, lines = [], []
    parts = await messages.ranges(
        api, topic, begin_ms=parse_optional_time(begin), end_ms=parse_optional_time(end)
    )
    for part in parts:
        name = queue_text(part.queue)
        lines.append(f"minOffset={part.begin}, maxOffset={part.end}, {name}")
        async for pulled in messages.read(api, part, tags=tags):
            data += [message_data(m) for m in pulled.messages]
            lines += [_line(m, charset if with_body else None) for m in pulled.messages]
            if pulled.status == "NO_MATCHED_MSG":
                lines.append(
                    f"{name} no matched msg. status={pulled.status}, offset={pulled.next_offset}"
                )
            elif pulled.status != "FOUND":
                lines.append(
                    f"{name} print msg finished. status={pulled.status}, "
                    f"offset={pulled.next_offset}"
                )
        lines.append(_DASHES)
    return Report(data, lines)


@command("printMsgByQueue")
async def print_msg_by_queue(
    api: BrokerApi,
    topic: Topic,
    broker_name: Annotated[
        str, Option("-a", "--brokerName", metavar="NAME", help="The broker, by its name.")
    ],
    queue_id: Annotated[int, Option("-i", "--queueId", metavar="ID", help="The queue.")],
    charset: Annotated[
        str, Option("-c", "--charsetName", metavar="CHARSET", help="Of the bodies.")
    ] = "UTF-8",
    tags: Annotated[
        str, Option("-s", "--subExpression", metavar="TAGS", help="TagA || TagB")
    ] = "*",
    begin: Begin = None,
    end: End = None,
    print_messages: Annotated[
        str | None, Option("-p", "--printMsg", metavar="true|false", help="[false]")
    ] = None,
    print_body: Annotated[
        str | None, Option("-d", "--printBody", metavar="true|false", help="[false]")
    ] = None,
    count_tags: Annotated[
        str | None,
        Option("-f", "--calculate", "--calculateByTag", metavar="true|false", help="[false]"),
    ] = None,
) -> Report:
    """Print Message Detail by queueId."""
    parts = await messages.ranges(
        api,
        topic,
        broker_name=broker_name,
        queue_id=queue_id,
        begin_ms=parse_optional_time(begin),
        end_ms=parse_optional_time(end),
    )
    found: list[MessageExt] = []
    for part in parts:
        async for pulled in messages.read(api, part, tags=tags):
            found += pulled.messages
    lines: list[str] = []
    if flag(print_messages):
        lines += [_line(m, charset if flag(print_body) else None) for m in found]
    if flag(count_tags):
        counts = Counter(message.tags for message in found if message.tags)
        lines += [f"Tag: {tag:<30} Count: {count}" for tag, count in counts.most_common()]
    return Report([message_data(m) for m in found], lines)


@command("consumeMessage")
async def consume_message(
    api: BrokerApi,
    topic: Topic,
    broker_name: Annotated[
        str | None, Option("-b", "--brokerName", metavar="NAME", help="Only this broker.")
    ] = None,
    queue_id: Annotated[
        int | None, Option("-i", "--queueId", metavar="ID", help="Only this queue, with -b.")
    ] = None,
    offset: Annotated[
        int | None, Option("-o", "--offset", metavar="N", help="From here on, with -i.")
    ] = None,
    group: Annotated[str | None, Option("-g", "--consumerGroup", hidden=True)] = None,
    begin: Annotated[
        str | None, Option("-s", "--beginTimestamp", metavar="TIME", help="From then on.")
    ] = None,
    end: Annotated[
        str | None, Option("-e", "--endTimestamp", metavar="TIME", help="Until then.")
    ] = None,
    count: Annotated[
        int, Option("-c", "--MessageNumber", metavar="N", help="At most this many.")
    ] = 128,
) -> Report:
    """Consume message."""
    if count <= 0:
        raise UsageError("Please input a positive messageNumber!")
    if queue_id is not None and broker_name is None:
        raise UsageError("Please set the brokerName before queueId!")
    if offset is not None and queue_id is None:
        raise UsageError("Please set queueId before offset!")
    begin_ms, end_ms = parse_optional_time(begin), parse_optional_time(end)
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        raise UsageError(
            "Please make sure that the beginTimestamp is less than or equal to the endTimestamp"
        )
    parts = await messages.ranges(
        api,
        topic,
        broker_name=broker_name,
        queue_id=queue_id,
        begin_ms=begin_ms,
        end_ms=end_ms,
    )
    found: list[MessageExt] = []
    lines: list[str] = []
    for part in parts:
        name = queue_text(part.queue)
        at = part.begin if offset is None else offset
        if queue_id is not None and part.end - at > count:
            which = "" if offset is not None else f" of the {queue_id} queue"
            lines.append(f"The older {count} message{which} will be provided")
        while len(found) < count:
            pulled = await messages.pull(
                api, part.address, part.queue, at, max_count=min(32, count - len(found))
            )
            within = [m for m in pulled.messages if end_ms is None or m.queue_offset < part.end]
            if within:
                found += within
                lines += ["Consume ok", *(_line(m, "UTF-8") for m in within)]
            if pulled.status == "NO_MATCHED_MSG":
                lines.append(f"{name} no matched msg. status={pulled.status}, offset={at}")
            at = pulled.next_offset
            if pulled.status in ("NO_NEW_MSG", "OFFSET_ILLEGAL") or (
                end_ms is not None and at >= part.end
            ):
                lines.append(f"{name} print msg finished. status={pulled.status}, offset={at}")
                break
    return Report([message_data(m) for m in found], lines)


@command("sendMessage")
async def send_message(
    api: BrokerApi,
    topic: Topic,
    body: Annotated[str, Option("-p", "--body", metavar="TEXT", help="The body.")],
    keys: Annotated[
        str | None, Option("-k", "--key", metavar="KEYS", help="Its keys, blank between.")
    ] = None,
    tags: Annotated[str | None, Option("-c", "--tags", metavar="TAG", help="Its tag.")] = None,
    broker_name: Annotated[
        str | None, Option("-b", "--broker", metavar="NAME", help="To this broker.")
    ] = None,
    queue_id: Annotated[
        int | None, Option("-i", "--qid", metavar="ID", help="To this queue, with -b.")
    ] = None,
    trace: Annotated[str | None, Option("-m", "--msgTraceEnable", hidden=True)] = None,
) -> Report:
    """Send a message."""
    if queue_id is not None and broker_name is None:
        raise UsageError("Broker name must be set if the queue is chosen!")
    message = Message(topic, body.encode(), tags=tags, keys=(keys or "").split())
    sent = await messages.send(api, message, broker_name=broker_name, queue_id=queue_id)
    lines = [
        _SENT.format("#Broker Name", "#QID", "#Send Result", "#MsgId"),
        _SENT.format(sent.queue.broker_name, sent.queue.queue_id, sent.status.name, sent.msg_id),
    ]
    data = {
        "brokerName": sent.queue.broker_name,
        "queueId": sent.queue.queue_id,
        "queueOffset": sent.queue_offset,
        "status": sent.status.name,
        "msgId": sent.msg_id,
        "offsetMsgId": sent.offset_msg_id,
    }
    return Report(data, lines)


# As text and as data


@command("dumpCompactionLog")
async def dump_compaction_log(
    api: BrokerApi,
    file: Annotated[
        Path, Option("-f", "--file", metavar="FILE", help="A file of records, here on this host.")
    ],
) -> Report:
    """Parse compaction log to message."""
    found = messages.of_file(file)
    return Report(map(message_data, found), map(message_text, found))


def _line(message: MessageExt, charset: str | None) -> str:
    body = message.body.decode(charset, "replace") if charset else "NOT PRINT BODY"
    return f"MSGID: {message.msg_id} {message_text(message)} BODY: {body}"


def message_lines(
    message: MessageExt,
    tracks: Iterable[MessageTrack],
    charset: str | None,
    *,
    with_id: bool = True,
) -> list[str]:
    """Everything about one message, a line for each fact; its body goes to a file."""
    born_host, store_host = (f"{h}:{p}" for h, p in (message.born_host, message.store_host))
    facts = {
        "OffsetID": message.offset_msg_id,
        "Topic": message.topic,
        "Tags": f"[{text_of(message.tags)}]",
        "Keys": f"[{' '.join(message.keys) or 'null'}]",
        "Queue ID": message.queue_id,
        "Queue Offset": message.queue_offset,
        "CommitLog Offset": message.physical_offset,
        "Reconsume Times": message.reconsume_times,
        "Born Timestamp": to_the_millisecond(message.born_timestamp),
        "Store Timestamp": to_the_millisecond(message.store_timestamp),
        "Born Host": born_host,
        "Store Host": store_host,
        "System Flag": message.sys_flag,
        "Properties": map_text(message.properties),
        "Message Body Path": _keep_body(message),
    }
    if not with_id:
        del facts["OffsetID"]
    if charset is not None:
        facts["Message Body"] = message.body.decode(charset, "replace")
    lines = [f"{name + ':':<20} {value}" for name, value in facts.items()]
    followed = [
        f"MessageTrack [consumerGroup={each.group}, trackType={each.kind.value}, "
        f"exceptionDesc={text_of(each.reason)}]"
        for each in tracks
    ]
    return [*lines, "", "", *(followed or ["WARN: No Consumer"])]


def _keep_body(message: MessageExt) -> Path:
    path = _BODIES / message.msg_id
    try:
        _BODIES.mkdir(parents=True, exist_ok=True)
        path.write_bytes(message.body)
    except OSError as error:
        raise AdminError(f"cannot write the body to {path}: {error.strerror}") from None
    return path


def message_data(message: MessageExt, tracks: Iterable[MessageTrack] | None = None) -> Any:
    """A message as JSON, with what became of it where that was asked for."""
    data = data_of(message)
    if tracks is not None:
        data["tracks"] = [
            {"group": each.group, "type": each.kind.value, "reason": each.reason} for each in tracks
        ]
    return data
