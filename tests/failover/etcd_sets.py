"""Brokers of one name, controllers and etcd, all in processes of their own, and all ways between
them in the hands of a test."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rocketq.remoting import RemotingClient
from rocketq.remoting.errors import RemotingError
from tests.broker.replication.pairs import name_server
from tests.controller.controller_process import ControllerProcess
from tests.controller.etcd_server import Etcd, running_etcd
from tests.controller.wire_broker import Asker
from tests.failover.detours import ControllerDetour, LogDetour, TcpDetour
from tests.failover.processes import Member, quiet_ports
from tests.failover.sets import BrokerSet

PREFIX = "/faults"
LEASE_S = 2


class EtcdSet(BrokerSet):
    """As a `BrokerSet`, with several controllers on an etcd of several nodes."""

    def __init__(self, namesrv: str, client: RemotingClient, etcd: Etcd) -> None:
        super().__init__(namesrv, [], client)
        self.etcd = etcd
        self.controllers: list[ControllerProcess] = []
        self.to_etcd: dict[str, list[TcpDetour]] = {}
        """The ways of each controller, by its name."""
        self.to_controllers: dict[str, dict[str, ControllerDetour]] = {}
        """The ways of each broker, by its address and the controllers'."""

    def ways_to_controllers(self, address: str) -> list[ControllerDetour]:
        return list(self.to_controllers[address].values())

    async def leading(self) -> ControllerProcess | None:
        """The controller that says of itself that it leads."""
        for each in self.controllers:
            if not each.is_running:
                continue
            asker = Asker(each.address)
            try:
                async with asyncio.timeout(1):
                    if (await asker.metadata()).is_leader:
                        return each
            except (RemotingError, TimeoutError):
                pass
            finally:
                await asker.close()
        return None


@asynccontextmanager
async def etcd_set(
    root: Path,
    *,
    seed: int,
    nodes: int = 3,
    controllers: int = 2,
    brokers: int = 3,
    **settings: object,
) -> AsyncIterator[EtcdSet]:
    async with AsyncExitStack() as stack:
        etcd = stack.enter_context(running_etcd(root / "etcd", nodes))
        namesrv = await stack.enter_async_context(name_server(root))
        client = RemotingClient()
        stack.push_async_callback(client.close)
        made = EtcdSet(namesrv.address, client, etcd)
        ports = quiet_ports(random.Random(seed), brokers + controllers)
        for number, port in enumerate(ports[brokers:]):
            name = f"n{number}"
            ways = [TcpDetour(node.endpoint) for node in etcd.nodes]
            for each in ways:
                await stack.enter_async_context(each.open())
            made.to_etcd[name] = ways
            endpoints = ",".join(each.address for each in ways)
            process = await asyncio.to_thread(
                ControllerProcess, endpoints, PREFIX, name, root, LEASE_S, port
            )
            made.controllers.append(process)
            stack.callback(process.close)
        for number, port in enumerate(ports[:brokers]):
            address = f"127.0.0.1:{port}"
            detours: dict[str, ControllerDetour] = {}
            for process in made.controllers:
                way = ControllerDetour(process.address, detours)
                detours[process.address] = await stack.enter_async_context(way.open())
            made.to_controllers[address] = detours
            log = LogDetour(f"127.0.0.{number + 2}", "127.0.0.1", port + 1)
            made.to_log[address] = await stack.enter_async_context(log.open())
            member = Member(
                root / f"broker-{number}",
                port,
                namesrv.address,
                ";".join(each.address for each in detours.values()),
                "tests.failover.shifted_clock",
                brokerIP2=log.host,
                **settings,
            )
            made.members.append(member)
            stack.callback(member.end)
        await asyncio.gather(*(member.start() for member in made.members))
        yield made
