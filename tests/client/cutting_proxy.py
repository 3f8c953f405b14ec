"""A proxy between a client and a broker that cuts connections at random bytes.

Clients find brokers through a NameServer, so a detour needs one of its own: `Detour` runs a
NameServer whose only broker stands at the proxy's address.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rocketq.namesrv.config import NamesrvConfig
from rocketq.namesrv.server import NameServer
from rocketq.remoting.bodies.registration import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigWrapper,
)
from rocketq.remoting.headers.namesrv import RegisterBroker
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.wire.command import Command


class CuttingProxy:
    """Passes bytes on, both ways; each connection only so many, while `budget` is set, and
    each piece after a time from `least_delay_s` to `delay_s`."""

    def __init__(self, target: str, seed: int) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._chance = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.budget: int | None = None
        self.least_delay_s = 0.0
        self.delay_s = 0.0
        self.cuts = 0

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()
        await self._server.wait_closed()
        if self._connections:
            await asyncio.wait(self._connections)

    def cut_all(self) -> None:
        for task in self._connections:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        left = None if self.budget is None else [self._chance.randrange(1, self.budget)]
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_on(reader, there_writer, left))
                    both.create_task(self._pass_on(there_reader, writer, left))
            except* (ConnectionError, OSError):
                pass
            finally:
                there_writer.transport.abort()
        except asyncio.CancelledError:
            pass  # cut by cut_all
        finally:
            writer.transport.abort()
            self._connections.discard(task)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int] | None
    ) -> None:
        while data := await reader.read(65536):
            if self.delay_s:
                await asyncio.sleep(self._chance.uniform(self.least_delay_s, self.delay_s))
            if left is not None:
                data = data[: left[0]]
                left[0] -= len(data)
            writer.write(data)
            if left is not None and left[0] <= 0:
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                self.cuts += 1
                raise ConnectionResetError("cut")
            await writer.drain()
        raise ConnectionResetError("ended")


@asynccontextmanager
async def detour(
    broker_address: str,
    broker_name: str,
    topics: dict[str, int],
    folder: Path,
    seed: int = 0,
    port: int = 0,
) -> AsyncIterator[tuple[str, CuttingProxy]]:
    """A NameServer's address and the proxy to which it sends everybody."""
    proxy = CuttingProxy(broker_address, seed)
    await proxy.start()
    name_server = NameServer(
        NamesrvConfig(
            bind_address="127.0.0.1",
            listen_port=port,
            kv_config_path=str(folder / "kvConfig.json"),
            config_store_path=str(folder / "namesrv.properties"),
        )
    )
    await name_server.start()
    remoting = RemotingClient()
    table = {
        name: TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
        for name, queues in {**topics, "unused": 1}.items()
    }
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigWrapper(topic_config_table=table)
    )
    header = RegisterBroker(
        broker_name=broker_name,
        broker_addr=proxy.address,
        cluster_name="detour",
        ha_server_addr="",
        broker_id=0,
    )
    try:
        await remoting.call(name_server.address, Command.request(header, body.encode()))
        yield name_server.address, proxy
    finally:
        await remoting.close()
        await name_server.stop()
        await proxy.stop()
