"""A NameServer, a master and a slave of one broker name, in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from rocketq.broker import Broker, BrokerConfig
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.remoting import Command, RemotingClient, RequestCode
from rocketq.remoting.bodies.replication import HARuntimeInfo
from rocketq.remoting.bodies.route import KVTable
from rocketq.store import StoreConfig
from rocketq.store.config import BrokerRole
from tests.broker.harness import TestBroker

_STORE_OPTIONS = {field.name for field in fields(StoreConfig)}
_SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 1000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}


def configs(
    root: Path, namesrv: str, *, slave_id: int = 0, **options: Any
) -> tuple[BrokerConfig, StoreConfig]:
    store_options = {name: options.pop(name) for name in list(options) if name in _STORE_OPTIONS}
    if slave_id:
        store_options["broker_role"] = BrokerRole.SLAVE
    store = StoreConfig(**({**_SMALL, "store_path_root_dir": str(root)} | store_options))
    values: dict[str, Any] = {
        "broker_name": "broker-a",
        "broker_id": slave_id,
        "broker_ip1": "127.0.0.1",
        "bind_address": "127.0.0.1",
        "listen_port": 0,
        "namesrv_addr": namesrv,
        "slave_read_enable": True,
    }
    return BrokerConfig(**(values | options)), store


@asynccontextmanager
async def name_server(root: Path) -> AsyncIterator[NameServer]:
    server = NameServer(
        NamesrvConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            kv_config_path=str(root / "kvConfig.json"),
            config_store_path=str(root / "namesrv.properties"),
        )
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def broker(
    root: Path, namesrv: str, *, slave_id: int = 0, **options: Any
) -> AsyncIterator[TestBroker]:
    """One broker of the group, slave if it is given an id."""
    config, store = configs(root, namesrv, slave_id=slave_id, **options)
    client = RemotingClient()
    running = Broker(config, store)
    await running.start()
    try:
        yield TestBroker(running, client)
    finally:
        await client.close()
        await running.stop()


@asynccontextmanager
async def pair(
    root: Path, *, master: dict[str, Any] | None = None, slave: dict[str, Any] | None = None
) -> AsyncIterator[tuple[TestBroker, TestBroker]]:
    async with (
        name_server(root) as namesrv,
        broker(root / "master", namesrv.address, **(master or {})) as first,
        broker(root / "slave", namesrv.address, slave_id=1, **(slave or {})) as second,
    ):
        yield first, second


async def status(of: TestBroker) -> HARuntimeInfo:
    reply = await of.call(Command.request(RequestCode.GET_BROKER_HA_STATUS))
    return HARuntimeInfo.decode(reply.body)


async def has_everything(master: TestBroker, slave: TestBroker) -> bool:
    """Whether the slave's log ends where the master's does."""
    theirs, ours = await status(master), await status(slave)
    end = theirs.master_commit_log_max_offset
    return ours.ha_client_runtime_info.max_offset == end and await is_connected(slave)


async def is_connected(slave: TestBroker) -> bool:
    """Whether the slave has a connection to its master's log."""
    reply = await slave.call(Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
    return KVTable.decode(reply.body).table["replicationState"] == "TRANSFER"


class Started:
    """One broker that can be stopped and started again, with the same store and the same port."""

    def __init__(self, root: Path, namesrv: str, *, slave_id: int = 0, **options: Any) -> None:
        self._root = root
        self._namesrv = namesrv
        self._slave_id = slave_id
        self._options = options
        self._client = RemotingClient()
        self._running: TestBroker | None = None

    @property
    def running(self) -> TestBroker:
        assert self._running is not None, "not started"
        return self._running

    async def start(self) -> None:
        config, store = configs(
            self._root, self._namesrv, slave_id=self._slave_id, **dict(self._options)
        )
        broker = Broker(config, store)
        await broker.start()
        self._options["listen_port"] = broker.port
        self._running = TestBroker(broker, self._client)

    async def restart(self) -> None:
        await self.running.broker.stop()
        await self.start()

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.broker.stop()
        await self._client.close()
