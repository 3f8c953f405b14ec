"""A real broker with a gRPC server, in its process or before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.server import GrpcServer
from rocketq.remoting import Command
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.topics import CreateTopic
from tests.broker.harness import TestBroker, running_broker
from tests.proxy.bare_client import Client

# Popped messages come back, and timed ones out, within tenths of a second.
FAST: dict[str, Any] = {
    "timer_precision_ms": 100,
    "revive_interval": 50,
    "enable_mixed_message_type": True,
    "mapped_file_size_commit_log": 16 << 20,
}
# Tests do not wait as long as clients do.
QUICK: dict[str, Any] = {
    "grpc_client_consumer_min_long_polling_timeout_millis": 400,
    "min_invisible_time_mills_for_recv": 2_000,
}
HERE, BEFORE = "in the broker", "before the broker"


class Place:
    """Where tests happen: one broker, one gRPC server."""

    def __init__(
        self, broker: TestBroker, server: GrpcServer, mode: str, names: NameServer | None = None
    ) -> None:
        self.names = names
        self.broker = broker
        self.server = server
        self.mode = mode
        self.target = f"127.0.0.1:{server.port}"
        self._clients: list[Client] = []

    @property
    def is_here(self) -> bool:
        return self.mode == HERE

    def client(self, client_id: str | None = None, **metadata: str) -> Client:
        client = Client(self.target, client_id, **metadata)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    # Administration

    async def create_topic(
        self,
        topic: str,
        kind: str = "NORMAL",
        *,
        queues: int = 4,
        read: int | None = None,
        perm: int = 6,
    ) -> str:
        header = CreateTopic(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues if read is None else read,
            write_queue_nums=queues,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
            attributes=f"+message.type={kind}" if kind else "",
        )
        reply = await self.broker.call(Command.request(header))
        assert reply.code == 0, reply
        return topic

    async def create_group(self, group: str, **more: Any) -> str:
        body = SubscriptionGroupConfig(group_name=group, **more).encode()
        reply = await self.broker.call(
            Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
        )
        assert reply.code == 0, reply
        return group


@asynccontextmanager
async def place(
    folder: Path, mode: str, *, proxy: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Place]:
    """A broker and a server of that mode; `options` are the broker's."""
    names = NameServer(
        NamesrvConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            kv_config_path=str(folder / "kv.json"),
            config_store_path=str(folder / "namesrv.properties"),
        )
    )
    await names.start()
    try:
        address = f"127.0.0.1:{names.port}"
        async with running_broker(
            folder / "store", namesrv_addr=address, **(FAST | options)
        ) as broker:
            config = ProxyConfig(
                grpc_server_port=0,
                bind_address="127.0.0.1",
                namesrv_addr=address,
                **(QUICK | (proxy or {})),
            )
            server = (
                GrpcServer.beside(broker.broker, config) if mode == HERE else GrpcServer(config)
            )
            async with server.serving():
                running = Place(broker, server, mode, names)
                try:
                    yield running
                finally:
                    await running.close()
    finally:
        await names.stop()
