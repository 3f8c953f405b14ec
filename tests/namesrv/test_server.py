"""A NameServer over real sockets."""

import asyncio
import json
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rocketq.common.clock import ManualClock
from rocketq.common.config import parse_properties
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers.header import RequestHeader
from rocketq.remoting.headers.namesrv import (
    BrokerHeartbeat,
    DeleteKvConfig,
    DeleteTopicInNamesrv,
    GetKvConfig,
    GetKvListByNamespace,
    GetRouteInfo,
    GetTopicsByCluster,
    PutKvConfig,
    QueryDataVersion,
    RegisterBroker,
    RegisterTopicInNamesrv,
    UnregisterBroker,
)
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.server import RemotingServer
from rocketq.remoting.wire.command import Command
from tests.waiting import PATIENCE_S, eventually

VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 1}


def config(folder: Path) -> NamesrvConfig:
    return NamesrvConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=str(folder / "kvConfig.json"),
        config_store_path=str(folder / "namesrv.properties"),
    )


class Caller:
    """A client of one NameServer."""

    def __init__(self, server: NameServer) -> None:
        self.server = server
        self._client = RemotingClient()

    async def ask(
        self,
        header: RequestHeader | int,
        body: bytes = b"",
        *,
        version: int | None = None,
        ext: Mapping[str, str] | None = None,
    ) -> Command:
        command = Command.request(header, body, ext=ext)
        if version is not None:
            command.version = version
        return await self._client.call(self.server.address, command, PATIENCE_S)

    async def register(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        broker_name: str = "a",
        broker_id: int = 0,
        address: str = "10.0.0.1:10911",
        crc: int | None = None,
        body: bytes | None = None,
        version: int | None = None,
        **more: object,
    ) -> Command:
        if body is None:
            body = register_body(topics if topics is not None else {"TBW102": 7, "orders": 6})
        header = RegisterBroker(
            broker_name=broker_name,
            broker_addr=address,
            cluster_name="c",
            ha_server_addr=address.replace("10911", "10912"),
            broker_id=broker_id,
            body_crc32=zlib.crc32(body) & 0x7FFF_FFFF if crc is None else crc,
        )
        return await self.ask(replace(header, **more), body, version=version)  # type: ignore[arg-type]

    async def route(self, topic: str = "orders", **options: object) -> Command:
        return await self.ask(GetRouteInfo(topic=topic), **options)  # type: ignore[arg-type]

    async def close(self) -> None:
        await self._client.close()


def topic_config(topic: str, perm: int) -> dict[str, object]:
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }


def topic_wrapper(topics: Mapping[str, int]) -> dict[str, object]:
    table = {topic: topic_config(topic, perm) for topic, perm in topics.items()}
    return {"dataVersion": VERSION, "topicConfigTable": table}


def register_body(topics: Mapping[str, int]) -> bytes:
    body = {"filterServerList": [], "topicConfigSerializeWrapper": topic_wrapper(topics)}
    return json.dumps(body).encode()


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with running(config(tmp_path)) as caller:
        yield caller


@asynccontextmanager
async def running(config: NamesrvConfig, clock: ManualClock | None = None) -> AsyncIterator[Caller]:
    server = NameServer(config, clock=clock) if clock else NameServer(config)
    await server.start()
    caller = Caller(server)
    try:
        yield caller
    finally:
        await caller.close()
        await server.stop()


# Registration


async def test_a_body_damaged_on_the_way_is_refused(caller: Caller) -> None:
    answer = await caller.register(crc=12345)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert (await caller.route()).code == ResponseCode.TOPIC_NOT_EXIST


async def test_without_a_checksum_nothing_is_checked(caller: Caller) -> None:
    assert (await caller.register(crc=0)).code == 0


async def test_an_unknown_broker_with_one_topic_is_refused(caller: Caller) -> None:
    answer = await caller.register({"orders": 6})
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "register broker failed")


async def test_a_broker_without_body_is_registered_with_no_topics(caller: Caller) -> None:
    assert (await caller.register(body=b"", crc=0)).code == 0
    info = await caller.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert b"10.0.0.1:10911" in bytes(info.body)


async def test_a_broker_older_than_3_0_11_sends_the_bare_topic_table(caller: Caller) -> None:
    bare = json.dumps(topic_wrapper({"TBW102": 7, "orders": 6})).encode()
    assert (await caller.register(body=bare, version=30)).code == 0
    assert (await caller.route()).code == 0


def compressed_body(*, with_mappings: bool, with_attributes: bool) -> bytes:
    def text(value: object) -> bytes:
        encoded = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        return struct.pack(">i", len(encoded)) + encoded

    tail = " {}" if with_attributes else ""
    parts = [
        text(VERSION),
        struct.pack(">i", 2),
        text(f"orders 4 4 6 SINGLE_TAG{tail}"),
        text(f"TBW102 8 8 7 SINGLE_TAG{tail}"),
        text([]),
    ]
    if with_mappings:
        mapping = {"bname": "a", "currIdMap": {"0": 0}, "epoch": 1, "topic": "orders"}
        parts += [struct.pack(">i", 1), text({**mapping, "totalQueues": 1})]
    return zlib.compress(b"".join(parts), 9)


@pytest.mark.parametrize("flag", [True, False])
async def test_a_compressed_body_is_known_by_its_first_byte(caller: Caller, flag: bool) -> None:
    """Java brokers 5.0 to 5.3.3 compress and say that they do not."""
    body = compressed_body(with_mappings=True, with_attributes=True)
    assert (await caller.register(body=body, compressed=flag, version=479)).code == 0
    route = json.loads(bytes((await caller.route(version=479)).body))
    assert route["queueDatas"][0]["readQueueNums"] == 4
    assert route["topicQueueMappingByBroker"]["a"]["totalQueues"] == 1


async def test_the_compressed_body_of_4_9_has_no_attributes_nor_mappings(caller: Caller) -> None:
    body = compressed_body(with_mappings=False, with_attributes=False)
    assert (await caller.register(body=body, compressed=True, version=409)).code == 0
    assert (await caller.route("TBW102")).code == 0


@pytest.mark.parametrize(
    "body",
    [
        b"not JSON",
        b"[1, 2]",
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":1}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"perm":"many"}}}}',
        b"x\x9c not deflated",
        zlib.compress(b"\x00\x00\x00\x02{}\x7f\xff\xff\xff"),
        zlib.compress(b"\xff\xff\xff\xff"),
        zlib.compress(bytes(300 << 20)),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused_and_nothing_else_happens(
    caller: Caller, body: bytes
) -> None:
    answer = await caller.register(body=body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "makes no sense" in (answer.remark or "")
    assert (await caller.register()).code == 0


async def test_a_slave_is_told_its_master(caller: Caller) -> None:
    assert (await caller.register()).ext_fields == {}
    answer = await caller.register(broker_id=1, address="10.0.0.2:10911")
    assert answer.ext_fields == {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}


async def test_a_broker_that_hangs_up_is_forgotten(caller: Caller) -> None:
    broker = Caller(caller.server)
    await broker.register()
    assert (await caller.route()).code == 0
    await broker.close()

    async def is_gone() -> bool:
        return (await caller.route()).code == ResponseCode.TOPIC_NOT_EXIST

    await eventually(is_gone)


async def test_a_broker_that_says_goodbye_is_forgotten(caller: Caller) -> None:
    await caller.register()
    goodbye = UnregisterBroker(
        broker_name="a", broker_addr="10.0.0.1:10911", cluster_name="c", broker_id=0
    )
    assert (await caller.ask(goodbye)).code == 0
    assert (await caller.route()).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_silent_broker_is_forgotten_and_a_heartbeat_keeps_one(tmp_path: Path) -> None:
    clock = ManualClock()
    scanning = replace(config(tmp_path), scan_not_active_broker_interval=1)
    async with running(scanning, clock) as caller:
        silent, steady = Caller(caller.server), Caller(caller.server)
        await silent.register(heartbeat_timeout_millis=1000)
        await steady.register(
            broker_name="b", address="10.0.0.2:10911", heartbeat_timeout_millis=1000
        )
        clock.advance(800)
        beat = BrokerHeartbeat(
            cluster_name="c", broker_addr="10.0.0.2:10911", broker_name="b", broker_id=0
        )
        assert (await steady.ask(beat)).code == 0
        clock.advance(800)

        async def only_one_is_left() -> bool:
            route = json.loads(bytes((await caller.route()).body))
            return [broker["brokerName"] for broker in route["brokerDatas"]] == ["b"]

        await eventually(only_one_is_left)
        await silent.close()
        await steady.close()


async def test_a_broker_asks_whether_it_must_register_again(caller: Caller) -> None:
    header = QueryDataVersion(
        broker_name="a", broker_addr="10.0.0.1:10911", cluster_name="c", broker_id=0
    )
    unknown = await caller.ask(header, json.dumps(VERSION).encode())
    assert unknown.ext_fields == {"changed": "true"}
    assert bytes(unknown.body) == b""

    await caller.register()
    same = await caller.ask(header, json.dumps(VERSION).encode())
    assert same.ext_fields == {"changed": "false"}
    assert json.loads(bytes(same.body)) == VERSION
    other = await caller.ask(header, json.dumps({**VERSION, "counter": 2}).encode())
    assert other.ext_fields == {"changed": "true"}


async def test_a_group_is_told_when_its_lowest_id_changes(tmp_path: Path) -> None:
    told: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    def hear(request: Command, connection: Connection) -> None:
        told.put_nowait(request.ext_fields)

    broker = RemotingServer({RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: hear})
    await broker.start("127.0.0.1", 0)
    address = f"127.0.0.1:{broker.port}"
    async with running(replace(config(tmp_path), notify_min_broker_id_changed=True)) as caller:
        await caller.register(broker_id=1, address=address)
        await caller.register(broker_id=0, address="127.0.0.1:1")
        notice = await asyncio.wait_for(told.get(), 10)
        assert notice["minBrokerId"] == "0"
        assert notice["minBrokerAddr"] == "127.0.0.1:1"
    await broker.stop()


# Routes


async def test_the_requesters_version_chooses_the_form_of_a_route(caller: Caller) -> None:
    await caller.register()
    raw = bytes((await caller.route(version=399)).body)
    assert b'{0:"10.0.0.1:10911"}' in raw
    for standard in (
        await caller.route(version=401),
        await caller.ask(GetRouteInfo(topic="orders", accept_standard_json_only=True), version=317),
    ):
        assert b'{"0":"10.0.0.1:10911"}' in bytes(standard.body)


async def test_a_zone_sees_its_own_brokers_and_groups_without_master(caller: Caller) -> None:
    await caller.register(broker_name="near", address="n:1", zone_name="east")
    await caller.register(broker_name="far", address="f:1", zone_name="west")
    await caller.register(broker_name="orphan", address="o:1", broker_id=1, zone_name="west")
    await caller.ask(
        RegisterTopicInNamesrv(topic="orders"),
        json.dumps(
            {"queueDatas": [{"brokerName": "orphan", "perm": 6, "readQueueNums": 1}]}
        ).encode(),
    )
    answer = await caller.ask(GetRouteInfo(topic="orders", zone_name="EAST", zone_mode="true"))
    text = bytes(answer.body)
    assert b'"n:1"' in text
    assert b'{1:"o:1"}' in text
    assert b"far" not in text
    everyone = await caller.ask(GetRouteInfo(topic="orders", zone_name="EAST", zone_mode="false"))
    assert b"far" in bytes(everyone.body)


async def test_ordered_topics_are_in_the_route_when_that_is_on(tmp_path: Path) -> None:
    async with running(replace(config(tmp_path), order_message_enable=True)) as caller:
        put = PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="orders", value="a:4")
        await caller.ask(put)
        registered = await caller.register()
        assert json.loads(bytes(registered.body)) == {"table": {"orders": "a:4"}}
        route = json.loads(bytes((await caller.route()).body))
        assert route["orderTopicConf"] == "a:4"
        assert "orderTopicConf" not in json.loads(bytes((await caller.route("TBW102")).body))


async def test_a_new_name_server_may_wait_for_its_brokers(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(replace(config(tmp_path), need_wait_for_service=True), clock) as caller:
        await caller.register()
        answer = await caller.route()
        assert (answer.code, answer.remark) == (1, "name server not ready")
        clock.advance(45_000)
        assert (await caller.route()).code == 0


async def test_topic_lists_can_be_switched_off(tmp_path: Path) -> None:
    quiet = replace(config(tmp_path), enable_all_topic_list=False, enable_topic_list=False)
    async with running(quiet) as caller:
        for request in (
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            GetTopicsByCluster(cluster="c"),
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        ):
            answer = await caller.ask(request)
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "disable")


async def test_a_deleted_topic_is_unknown(caller: Caller) -> None:
    await caller.register()
    assert (await caller.ask(DeleteTopicInNamesrv(topic="orders", cluster_name="c"))).code == 0
    assert (await caller.route()).code == ResponseCode.TOPIC_NOT_EXIST


# Settings


async def test_settings_outlive_the_name_server(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as caller:
        await caller.ask(PutKvConfig(namespace="n", key="k", value="v"))
        await caller.ask(PutKvConfig(namespace="n", key="gone", value="v"))
        await caller.ask(DeleteKvConfig(namespace="n", key="gone"))
    assert json.loads((tmp_path / "kvConfig.json").read_text()) == {
        "configTable": {"n": {"k": "v"}}
    }
    assert "gone" in (tmp_path / "kvConfig.json.bak").read_text()

    async with running(config(tmp_path)) as caller:
        answer = await caller.ask(GetKvConfig(namespace="n", key="k"))
        assert answer.ext_fields == {"value": "v"}
        listed = await caller.ask(GetKvListByNamespace(namespace="nothing"))
        assert listed.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_setting_needs_a_namespace_and_a_key(caller: Caller) -> None:
    answer = await caller.ask(RequestCode.PUT_KV_CONFIG, ext={"namespace": "n", "value": "v"})
    assert (answer.code, answer.remark) == (1, "namespace or key is null")


async def test_options_are_changed_and_stored(caller: Caller, tmp_path: Path) -> None:
    update = RequestCode.UPDATE_NAMESRV_CONFIG
    assert (await caller.ask(update, b"orderMessageEnable=true\n")).code == 0
    text = bytes((await caller.ask(RequestCode.GET_NAMESRV_CONFIG)).body).decode()
    assert "orderMessageEnable=true\n" in text
    assert "listenPort=0\n" in text
    assert "orderMessageEnable=true\n" in (tmp_path / "namesrv.properties").read_text()


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "rocketmqHome"])
async def test_options_naming_files_cannot_be_changed(caller: Caller, key: str) -> None:
    answer = await caller.ask(RequestCode.UPDATE_NAMESRV_CONFIG, f"{key}=/tmp/x".encode())
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "Can not update config in black list."


async def test_a_wrong_value_is_refused_and_nothing_changes(caller: Caller) -> None:
    body = b"scanNotActiveBrokerInterval=9000\norderMessageEnable=perhaps\n"
    answer = await caller.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "orderMessageEnable=perhaps" in (answer.remark or "")
    text = bytes((await caller.ask(RequestCode.GET_NAMESRV_CONFIG)).body).decode()
    assert "scanNotActiveBrokerInterval=5000\n" in text


@pytest.mark.parametrize(
    "body",
    [
        b"productEnvName=center\\nkvConfigPath=/tmp/x\n",
        b"productEnvName=center\\u000akvConfigPath=/tmp/x\n",
        b"productEnvName=center\\rkvConfigPath=/tmp/x\n",
        b"productEnvName=center\\\n\\nkvConfigPath=/tmp/x\n",
    ],
)
async def test_no_line_feed_gets_past_the_black_list(
    caller: Caller, tmp_path: Path, body: bytes
) -> None:
    answer = await caller.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "line feeds" in (answer.remark or "")
    assert not (tmp_path / "namesrv.properties").exists()


async def test_a_backslash_does_not_join_lines_of_the_file(caller: Caller, tmp_path: Path) -> None:
    body = b"productEnvName=center\\\\\n"
    assert (await caller.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body)).code == 0
    stored = parse_properties((tmp_path / "namesrv.properties").read_text())
    assert stored["productEnvName"] == "center\\"
    assert stored["returnOrderTopicConfigToBroker"] == "true"


@pytest.mark.parametrize(
    "line",
    [
        "scanNotActiveBrokerInterval=0",
        "defaultThreadPoolQueueCapacity=0",
        "listenPort=70000",
        "serverChannelMaxIdleTimeSeconds=-1",
        f"waitSecondsForService={'9' * 5000}",
    ],
)
async def test_a_value_out_of_range_is_refused(caller: Caller, line: str) -> None:
    answer = await caller.ask(RequestCode.UPDATE_NAMESRV_CONFIG, line.encode())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert line[:40] in (answer.remark or "")


# The server itself


async def test_a_taken_port_is_an_os_error(caller: Caller, tmp_path: Path) -> None:
    second = NameServer(replace(config(tmp_path), listen_port=caller.server.port))
    with pytest.raises(OSError, match=r".*"):
        await second.start()


async def test_name_servers_know_nothing_of_each_other(caller: Caller, tmp_path: Path) -> None:
    async with running(config(tmp_path / "other")) as other:
        await caller.register()
        assert (await caller.route()).code == 0
        assert (await other.route()).code == ResponseCode.TOPIC_NOT_EXIST
