"""Registration: NameServers know of the broker and its topics, and cannot hold it up."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketq.broker import BrokerConfig
from rocketq.broker.cluster import registration
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.remoting import (
    Command,
    Connection,
    RemotingServer,
    RequestCode,
    ResponseCode,
)
from rocketq.remoting.bodies.registration import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigList,
    TopicConfigWrapper,
)
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.headers import (
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    UnregisterBroker,
)
from tests.broker.harness import running_broker
from tests.waiting import eventually


class FakeNameServer:
    """Notes what brokers say; can refuse, and can fail to answer."""

    def __init__(self) -> None:
        self.headers: list[RegisterBroker] = []
        self.bodies: list[RegisterBrokerBody] = []
        self.versions_asked: list[DataVersion] = []
        self.unregistered: list[UnregisterBroker] = []
        self.ordered: dict[str, str] | None = None
        self.refuses = False
        self.is_silent = False
        self.is_outdated = True
        self._server = RemotingServer(
            {
                RequestCode.REGISTER_BROKER: self._register,
                RequestCode.UNREGISTER_BROKER: self._unregister,
                RequestCode.QUERY_DATA_VERSION: self._query,
            }
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    @property
    def tables(self) -> list[set[str]]:
        """The topics of each registration."""
        return [set(body.topic_configs) for body in self.bodies]

    async def start(self, port: int = 0) -> None:
        await self._server.start("127.0.0.1", port)

    async def stop(self) -> None:
        await self._server.stop(0.1)

    def _register(self, request: Command, connection: Connection) -> Command | None:
        if self.is_silent:
            return None
        if self.refuses:
            return request.reply(code=ResponseCode.SYSTEM_ERROR, remark="register broker failed")
        header = request.header(RegisterBroker)
        assert header.body_crc32 == zlib.crc32(request.body) & 0x7FFFFFFF
        self.headers.append(header)
        self.bodies.append(RegisterBrokerBody.decode(request.body))
        body = b"" if self.ordered is None else KVTable(table=self.ordered).encode()
        return request.reply(body=body, ext={})

    def _unregister(self, request: Command, connection: Connection) -> Command | None:
        if self.is_silent:
            return None
        self.unregistered.append(request.header(UnregisterBroker))
        return request.reply()

    def _query(self, request: Command, connection: Connection) -> Command:
        assert request.header(QueryDataVersion).broker_name == "broker-t"
        self.versions_asked.append(DataVersion.decode(request.body))
        return request.reply(QueryDataVersionResponse(changed=self.is_outdated))


@asynccontextmanager
async def name_server() -> AsyncIterator[FakeNameServer]:
    server = FakeNameServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def test_a_broker_that_has_started_is_known(tmp_path: Path) -> None:
    async with (
        name_server() as server,
        running_broker(tmp_path, namesrv_addr=server.address) as broker,
    ):
        (header,) = server.headers
        assert (header.broker_name, header.broker_id) == ("broker-t", 0)
        assert header.cluster_name == "TestCluster"
        assert header.broker_addr == broker.address
        assert header.ha_server_addr.startswith("127.0.0.1:")
        assert {"TBW102", "broker-t", "TestCluster", "BenchmarkTest"} <= server.tables[0]


async def test_a_new_topic_is_announced_alone_and_before_its_message_is_acknowledged(
    tmp_path: Path,
) -> None:
    async with (
        name_server() as server,
        running_broker(tmp_path, namesrv_addr=server.address) as broker,
    ):
        await broker.send("fresh")

        assert server.tables[1:] == [{"fresh"}]
        assert server.bodies[1].data_version.counter == server.bodies[0].data_version.counter + 1


async def test_all_name_servers_are_told_and_a_dead_one_delays_nothing(tmp_path: Path) -> None:
    async with name_server() as one, name_server() as two, name_server() as silent:
        silent.is_silent = True
        addresses = f"{one.address};127.0.0.1:1;{silent.address};{two.address}"
        async with asyncio.timeout(5), running_broker(tmp_path, namesrv_addr=addresses) as broker:
            await eventually(lambda: one.headers and two.headers)
            await broker.send("fresh")
            await eventually(lambda: one.tables[-1] == two.tables[-1] == {"fresh"})


async def test_a_name_server_that_comes_back_is_told_everything(tmp_path: Path) -> None:
    async with name_server() as server:
        server.refuses = True
        async with running_broker(tmp_path, namesrv_addr=server.address) as broker:
            await broker.send("missed")
            assert server.headers == []
            server.refuses = False
            await eventually(lambda: server.headers)
            assert {"missed", "TBW102"} <= server.tables[0]


async def test_a_name_server_that_was_restarted_is_told_at_once(tmp_path: Path) -> None:
    first = FakeNameServer()
    await first.start()
    port = int(first.address.rpartition(":")[2])
    async with running_broker(tmp_path, namesrv_addr=first.address):
        await first.stop()
        second = FakeNameServer()
        await second.start(port)
        await eventually(lambda: second.headers)
    assert second.unregistered
    await second.stop()


async def test_a_broker_that_stops_says_goodbye(tmp_path: Path) -> None:
    async with name_server() as server:
        async with running_broker(tmp_path, namesrv_addr=server.address) as broker:
            address = broker.address
        (goodbye,) = server.unregistered
        assert (goodbye.broker_addr, goodbye.broker_name) == (address, "broker-t")


async def test_topics_are_registered_with_what_the_broker_allows(tmp_path: Path) -> None:
    async with (
        name_server() as server,
        running_broker(tmp_path, namesrv_addr=server.address, broker_permission=4) as broker,
    ):
        assert server.bodies[0].topic_configs["BenchmarkTest"].perm == 4
        await broker.call(
            Command.request(RequestCode.UPDATE_BROKER_CONFIG, b"brokerPermission=6\n")
        )
        await eventually(lambda: len(server.bodies) > 1)
        assert server.bodies[-1].topic_configs["BenchmarkTest"].perm == 6


async def test_the_name_server_says_which_topics_are_ordered(tmp_path: Path) -> None:
    async with name_server() as server:
        server.ordered = {"BenchmarkTest": "broker-t:4"}
        async with running_broker(tmp_path, namesrv_addr=server.address) as broker:
            reply = await broker.call(Command.request(RequestCode.GET_ALL_TOPIC_CONFIG))
            assert bytes(reply.body).count(b'"order":true') == 1


async def test_a_large_table_can_be_registered_in_parts(tmp_path: Path) -> None:
    async with (
        name_server() as server,
        running_broker(
            tmp_path,
            namesrv_addr=server.address,
            enable_split_registration=True,
            split_registration_size=4,
        ),
    ):
        await eventually(lambda: sum(len(table) for table in server.tables) >= 15)
        assert all(len(table) <= 4 for table in server.tables)
        versions = [body.data_version for body in server.bodies]
        assert len(set(versions)) == len(versions), "a part would be taken for a repetition"
        assert versions[-1].counter >= 0


async def test_a_table_too_long_for_a_frame_is_registered_in_parts_whatever_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_SLICE", 2)
    monkeypatch.setattr(registration, "_PART_SIZE", 1_000)
    async with (
        name_server() as server,
        running_broker(tmp_path, namesrv_addr=server.address) as broker,
    ):
        await eventually(lambda: server.bodies[-1].data_version.counter >= 0)
        assert len(server.bodies) > 2
        assert all(len(body.encode()) < 2_000 for body in server.bodies)
        reply = await broker.call(Command.request(RequestCode.GET_ALL_TOPIC_CONFIG))
        kept = TopicConfigWrapper.decode(reply.body)
        assert set().union(*server.tables) == set(kept.topic_config_table)
        assert server.bodies[-1].data_version == kept.data_version


@pytest.mark.slow
async def test_forty_thousand_topics_with_long_names_are_known_to_the_name_server(
    tmp_path: Path,
) -> None:
    """Names as long as they may be: no frame holds them all."""
    settings = NamesrvConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=str(tmp_path / "kvConfig.json"),
        config_store_path=str(tmp_path / "namesrv.properties"),
    )
    names = [f"{number:05}" + "x" * 122 for number in range(40_000)]
    server = NameServer(settings)
    await server.start()
    try:
        async with running_broker(tmp_path / "store", namesrv_addr=server.address) as broker:
            for start in range(0, len(names), 3_000):
                topics = [TopicConfig(topic_name=name) for name in names[start : start + 3_000]]
                request = Command.request(
                    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
                    TopicConfigList(topic_config_list=topics).encode(),
                )
                assert (await broker.call(request, timeout_s=60)).code == ResponseCode.SUCCESS
            await eventually(lambda: names[-1] in server.registry)
        assert not server.registry.brokers
        async with running_broker(tmp_path / "store", namesrv_addr=server.address):
            await eventually(lambda: names[-1] in server.registry)
            assert set(names) <= set(server.registry.topics)
    finally:
        await server.stop()


@pytest.mark.parametrize("is_outdated", [True, False])
async def test_a_name_server_can_be_asked_before_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_outdated: bool
) -> None:
    monkeypatch.setattr(BrokerConfig, "register_period_s", 0.05)
    async with name_server() as server:
        server.is_outdated = is_outdated
        async with running_broker(tmp_path, namesrv_addr=server.address, force_register=False):
            await eventually(lambda: len(server.versions_asked) >= 3)
            assert (len(server.bodies) > 1) is is_outdated
            assert server.versions_asked[0] == server.bodies[0].data_version


@pytest.mark.parametrize("changed", [True, False])
async def test_name_servers_can_be_moved_at_run_time(tmp_path: Path, changed: bool) -> None:
    async with name_server() as old, name_server() as new:
        async with running_broker(tmp_path, namesrv_addr=old.address) as broker:
            if changed:
                text = f"namesrvAddr={new.address}\n".encode()
                await broker.call(Command.request(RequestCode.UPDATE_BROKER_CONFIG, text))
                await eventually(lambda: new.headers)
        assert bool(new.unregistered) is changed
        assert bool(old.unregistered) is not changed
