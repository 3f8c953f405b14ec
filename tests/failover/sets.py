"""A NameServer and a controller in this process, and the brokers of one name in their own."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rocketq.controller.config import ControllerConfig
from rocketq.controller.server import Controller
from rocketq.remoting import RemotingClient
from rocketq.remoting.errors import RemotingError
from tests.broker.replication.pairs import name_server
from tests.failover.detours import ControllerDetour, LogDetour
from tests.failover.history import History
from tests.failover.processes import Member, epochs, quiet_ports, runtime
from tests.waiting import eventually


@asynccontextmanager
async def controller(root: Path, port: int = 0) -> AsyncIterator[Controller]:
    one = Controller(
        ControllerConfig(
            bind_address="127.0.0.1",
            listen_port=port,
            controller_store_path=str(root / "controller"),
            config_store_path=str(root / "controller.properties"),
        )
    )
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


class BrokerSet:
    """Brokers of one name, each with its own ways to the controller and to the others' logs."""

    def __init__(self, namesrv: str, members: list[Member], client: RemotingClient) -> None:
        self.namesrv = namesrv
        self.members = members
        self.client = client
        self.to_controller: dict[str, ControllerDetour] = {}
        self.to_log: dict[str, LogDetour] = {}

    def member_at(self, address: str | None) -> Member:
        return next(member for member in self.members if member.address == address)

    async def newest_reign(self) -> tuple[int, int, str]:
        """The epoch, how many are in sync, and the master, as far as brokers answer."""
        newest = (0, 0, "")
        for member in self.members:
            try:
                table = await runtime(self.client, member.address)
            except RemotingError:
                continue
            members = table.get("syncStateSet", "")
            if members and table["isFenced"] == "false":
                count = len(members.split(","))
                newest = max(newest, (int(table["masterEpoch"]), count, member.address))
        return newest

    async def complete(self, within_s: float = 60.0) -> str:
        """Wait until all that run are in sync; the master's address."""

        async def find() -> str | None:
            running = sum(member.is_running for member in self.members)
            _, count, address = await self.newest_reign()
            return address if count == running else None

        found = await eventually(find, "all brokers to be in sync", within_s=within_s)
        assert found is not None
        return found


@asynccontextmanager
async def broker_set(
    root: Path, count: int = 3, *, seed: int = 0, with_detours: bool = False, **settings: object
) -> AsyncIterator[BrokerSet]:
    """Started together, and stopped by kill -9."""
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(name_server(root))
        decider = await stack.enter_async_context(controller(root))
        client = RemotingClient()
        stack.push_async_callback(client.close)
        brokers = BrokerSet(namesrv.address, [], client)
        for number, port in enumerate(quiet_ports(random.Random(seed), count)):
            own = dict(settings)
            address = decider.address
            if with_detours:
                way = await stack.enter_async_context(ControllerDetour(decider.address).open())
                log = LogDetour(f"127.0.0.{number + 2}", "127.0.0.1", port + 1)
                await stack.enter_async_context(log.open())
                brokers.to_controller[f"127.0.0.1:{port}"] = way
                brokers.to_log[f"127.0.0.1:{port}"] = log
                address = way.address
                own["brokerIP2"] = log.host
            member = Member(root / f"broker-{number}", port, namesrv.address, address, **own)
            brokers.members.append(member)
            stack.callback(member.end)
        await asyncio.gather(*(member.start() for member in brokers.members))
        yield brokers


def stubborn_history(brokers: BrokerSet) -> History:
    """With senders that go on at each broker whether it is master or not."""
    return History(
        brokers.namesrv, senders=4, stubborn_to=[each.address for each in brokers.members]
    )


async def verdict(brokers: BrokerSet, history: History) -> None:
    """Nobody sends any more; what was said so far has to hold."""
    await history.stop()
    master = await brokers.complete()
    await history.check(master)
    history.check_reigns((await epochs(brokers.client, master)).epoch_list)
