"""Hostile peers and honest clients at one NameServer: how long do the honest ones wait?

Each step of the loop is measured, in time of the processor, as in
tests/broker/protection/test_attack.py.
"""

import asyncio
import json
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from rocketq.common.clock import ManualClock
from rocketq.common.loop.slices import at_once
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.namesrv.registration import BrokerAddress, Limits, RegistrationRefused
from rocketq.namesrv.route_registry import RouteRegistry
from rocketq.remoting import Command, RemotingClient
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers.namesrv import DeleteKvConfig, GetKvConfig, GetRouteInfo, PutKvConfig
from tests.namesrv.attacks import ATTACKS, attack, prepare
from tests.namesrv.attacks import registration as registering
from tests.namesrv.test_route_registry import SECOND, STANDARD, queue_data, registration
from tests.namesrv.test_server import Caller, config, running
from tests.siege import besiege, server_process
from tests.steps import ATTEMPTS, Steps, measured_server
from tests.waiting import eventually


@asynccontextmanager
async def serving(options: NamesrvConfig) -> AsyncIterator[str]:
    server = NameServer(options)
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_step_of_the_loop_keeps_the_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def go(address: str, steps: Steps) -> None:
        clients = await prepare(address, name)
        steps.is_measuring = True
        under_attack = asyncio.create_task(attack(address, name, rounds=1))
        try:
            while not under_attack.done():
                request = Command.request(GetRouteInfo(topic="orders"))
                reply = await clients[0].call(address, request, 60.0)
                assert reply.code == 0, reply
        finally:
            steps.is_measuring = False
            for client in clients:
                await client.close()
        await under_attack

    options = replace(config(tmp_path), scan_not_active_broker_interval=50)
    for _ in range(ATTEMPTS):
        with measured_server(partial(serving, options), monkeypatch) as (address, steps):
            asyncio.run(go(address, steps))
        if steps.are_short:
            return
    pytest.fail(str(steps))


# The long form


async def honest(address: str, waits: list[float], stop: asyncio.Event) -> None:
    """Asks for a route, a hundred times per second."""
    client = RemotingClient()
    try:
        await client.call(address, registering("honest", {"orders": 4, "TBW102": 8}), 30.0)
        while not stop.is_set():
            began = time.perf_counter()
            request = Command.request(GetRouteInfo(topic="orders"))
            reply = await client.call(address, request, 30.0)
            waits.append(time.perf_counter() - began)
            assert reply.code == 0, reply
            await asyncio.sleep(0.01)
    finally:
        await client.close()


@pytest.mark.slow
def test_honest_clients_among_hostile_ones(tmp_path: Path) -> None:
    settings = {
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "kvConfigPath": str(tmp_path / "kvConfig.json"),
        "configStorePath": str(tmp_path / "namesrv.properties"),
    }
    with server_process("namesrv", settings) as server:
        besiege(server, "tests.namesrv.attacks", list(ATTACKS), honest)


# Limits


async def test_a_connection_brings_only_so_many_brokers(tmp_path: Path) -> None:
    async with running(replace(config(tmp_path), max_brokers_per_connection=3)) as caller:
        codes = [
            (await caller.register(broker_name=f"b{n}", address=f"10.0.0.{n}:10911")).code
            for n in range(4)
        ]
        assert codes == [0, 0, 0, ResponseCode.SYSTEM_ERROR]
        # Those that are there may say so again, and others may come another way.
        assert (await caller.register(broker_name="b1", address="10.0.0.1:10911")).code == 0
        other = Caller(caller.server)
        assert (await other.register(broker_name="b3", address="10.0.0.3:10911")).code == 0
        await other.close()


async def test_there_are_only_so_many_brokers(tmp_path: Path) -> None:
    async with running(replace(config(tmp_path), max_registered_brokers=2)) as caller:
        for n in range(3):
            answer = await caller.register(broker_name=f"b{n}", address=f"10.0.0.{n}:10911")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        other = Caller(caller.server)
        assert (await other.register(address="10.0.0.9:10911")).code == ResponseCode.SYSTEM_ERROR
        await caller.close()
        await eventually(lambda: not caller.server.registry.brokers)
        assert (await other.register(address="10.0.0.9:10911")).code == 0
        await other.close()


async def test_topics_beyond_the_limit_are_left_out(tmp_path: Path) -> None:
    async with running(replace(config(tmp_path), max_registered_topics=3)) as caller:
        topics = {f"t{number}": 6 for number in range(5)}
        assert (await caller.register(topics)).code == 0
        assert sorted(caller.server.registry.topics) == ["t0", "t1", "t2"]
        # What is known can still change.
        assert (await caller.register({"t0": 4, "t1": 6})).code == 0
        assert (await caller.register({"x" * 600: 6, "t1": 6})).code == 0
        assert sorted(caller.server.registry.topics) == ["t0", "t1", "t2"]


async def test_a_name_that_is_refused_for_its_length_does_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(config(tmp_path)) as caller:
        refused = await caller.register(broker_name="x" * 10_000, address="y" * 10_000)
        assert refused.code == ResponseCode.SYSTEM_ERROR
    (said,) = [each.getMessage() for each in caplog.records if "characters" in each.getMessage()]
    assert len(said) < 300


def tables(**limits: int) -> RouteRegistry:
    return RouteRegistry(clock=ManualClock(), limits=lambda: Limits(**limits))


def test_entries_are_counted_as_long_as_a_topic_has_them() -> None:
    registry = tables(entries=10)
    for number in range(4):
        topics = {f"t{each}": 6 for each in range(8)}
        registry.register(registration(f"b{number}", topics=topics))
    # All topics are alike: they share their entries.
    assert registry.queues.entries == 4
    for number in range(3):
        registry.unregister(BrokerAddress("c", f"b{number}0:10911"), f"b{number}", 0)
    assert registry.queues.entries == 1
    for each in range(30):
        registry.register_topic(f"own{each}", [queue_data("b3", queues=each + 1)])
    assert registry.queues.entries == 10
    assert len(list(registry.topics)) == 8 + 10  # one of them is like the others


def test_a_name_has_only_so_many_addresses() -> None:
    registry = tables()
    for number in range(128):
        registry.register(registration("a", number))
    with pytest.raises(RegistrationRefused):
        registry.register(registration("a", 500))


def test_a_broker_that_changes_its_cluster_leaves_nothing_behind() -> None:
    registry = tables()
    for number in range(10):
        registry.register(registration("a", cluster=f"c{number}", heartbeat_timeout_ms=1))
    assert dict(registry.clusters) == {"c9": {"a"}}


def test_texts_of_routes_take_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketq.namesrv.route_texts._TEXT_BYTES", 2_000)
    registry = tables()
    registry.register(registration("a", topics={f"t{each}": 6 for each in range(50)}))
    for each in range(50):
        assert registry.encoded_route(f"t{each}", STANDARD, order_conf=f"a:{each}")
        assert registry.texts.size == sum(map(len, registry.texts._texts.values())) <= 2_000


def test_the_route_of_an_ordered_topic_follows_its_queues() -> None:
    registry = tables()
    registry.register(registration("a"))
    assert b'"readQueueNums":4' in (registry.encoded_route("orders", STANDARD, "a:4") or b"")
    registry.register_topic("orders", [queue_data("a", queues=9)])
    assert b'"readQueueNums":9' in (registry.encoded_route("orders", STANDARD, "a:4") or b"")


async def test_settings_take_only_so_much_room(tmp_path: Path) -> None:
    options = replace(config(tmp_path), max_kv_config_bytes=2_048)
    async with running(options) as caller:
        answers = await asyncio.gather(
            *(
                caller.ask(PutKvConfig(namespace="n", key=f"k{number}", value="v" * 200))
                for number in range(20)
            )
        )
        stored = sum(answer.code == 0 for answer in answers)
        assert 5 <= stored < 10
        assert "there is room for 2048" in (answers[-1].remark or "")
        # A value may be replaced, and what is deleted makes room.
        put = PutKvConfig(namespace="n", key="k0", value="w" * 200)
        assert (await caller.ask(put)).code == 0
        assert (await caller.ask(DeleteKvConfig(namespace="n", key="k1"))).code == 0
        put = PutKvConfig(namespace="n", key="new", value="v" * 200)
        assert (await caller.ask(put)).code == 0
        saved = json.loads((tmp_path / "kvConfig.json").read_text())["configTable"]["n"]
        assert len(saved) == stored
        assert saved["k0"] == "w" * 200
    async with running(options) as caller:
        answer = await caller.ask(GetKvConfig(namespace="n", key="new"))
        assert answer.ext_fields == {"value": "v" * 200}
        put = PutKvConfig(namespace="n", key="one more", value="v" * 200)
        assert (await caller.ask(put)).code == ResponseCode.SYSTEM_ERROR


# Honest users


async def test_forty_thousand_long_names_on_several_brokers_are_served(tmp_path: Path) -> None:
    topics = {f"{'long-name-' * 12}{number:05}": 8 for number in range(40_000)}
    async with running(config(tmp_path)) as caller:
        names = list(topics)
        for broker in range(3):
            client = RemotingClient()
            for part in range(4):
                some = dict.fromkeys(names[part * 10000 : (part + 1) * 10000], 8)
                request = registering(f"b{broker}", some, counter=part)
                reply = await client.call(caller.server.address, request, 30.0)
                assert reply.code == 0, reply
            route = json.loads(bytes((await caller.route(names[-1])).body))
            assert len(route["brokerDatas"]) == broker + 1
            if broker < 2:
                continue
            listed = await caller.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            assert len(json.loads(bytes(listed.body))["topicList"]) == 40_000
            await client.close()


def test_a_full_registry_takes_a_bounded_amount_of_memory() -> None:
    """As many entries as are allowed, none of them shared."""
    registry = tables(entries=5_000)
    tracemalloc.start()
    try:
        for broker in range(30):
            new = registration(f"b{broker}", topics={f"t{each}": 6 for each in range(300)})
            queues = {
                topic: queue_data(f"b{broker}", queues=1 + number)
                for number, topic in enumerate(new.topics)
            }
            at_once(registry.registering(replace(new, topics=queues)))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 4_000 <= registry.queues.entries <= 5_300
    assert size / registry.queues.entries < 1_000


def test_what_is_shared_cannot_be_taken_apart_without_limit() -> None:
    """A broker among many that gives each topic another number of queues."""
    registry = tables(entries=500)
    topics = {f"t{each}": 6 for each in range(100)}
    for broker in range(20):
        registry.register(registration(f"b{broker}", topics=topics))
    assert registry.queues.entries == 20
    again = registration("b0", topics=topics)
    queues = {topic: queue_data("b0", queues=each) for each, topic in enumerate(topics)}
    registry.register(replace(again, topics=queues, data_version=SECOND))
    assert registry.queues.entries <= 520
    assert len(registry.route("t99").broker_datas) == 20  # type: ignore[union-attr]
