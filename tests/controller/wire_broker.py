"""A broker as a controller sees it: what it says and hears on the wire, and no store behind it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from rocketq.controller import Controller, ControllerConfig
from rocketq.remoting.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    ReplicasInfo,
    SyncStateSet,
    encode_broker_names,
)
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.controller import (
    AlterSyncStateSet,
    AlterSyncStateSetResponse,
    ApplyBrokerId,
    CleanBrokerData,
    ElectMaster,
    ElectMasterResponse,
    GetMetadataInfoResponse,
    GetNextBrokerId,
    GetNextBrokerIdResponse,
    GetReplicaInfo,
    GetReplicaInfoResponse,
    NotifyBrokerRoleChanged,
    RegisterBrokerToController,
    RegisterBrokerToControllerResponse,
)
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader
from rocketq.remoting.headers.namesrv import BrokerHeartbeat
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.server import RemotingServer
from rocketq.remoting.wire.command import Command

H = TypeVar("H", bound=ResponseHeader)

CLUSTER = "DefaultCluster"


@asynccontextmanager
async def running_controller(folder: Path, **options: object) -> AsyncIterator[Controller]:
    settings: dict[str, object] = {
        "bind_address": "127.0.0.1",
        "listen_port": 0,
        "controller_store_path": str(folder),
        "config_store_path": str(folder / "controller.properties"),
        "scan_not_active_broker_interval": 10,
        "scan_inactive_master_interval": 20,
        **options,
    }
    controller = Controller(ControllerConfig(**settings))  # type: ignore[arg-type]
    await controller.start()
    try:
        yield controller
    finally:
        await controller.stop()


class Asker:
    """Sends requests to one controller."""

    def __init__(self, controller: str) -> None:
        self.controller = controller
        self.client = RemotingClient()

    async def ask(
        self, header: RequestHeader | int, body: bytes = b"", timeout_s: float = 10.0
    ) -> Command:
        request = (
            Command(header, body=body) if isinstance(header, int) else Command.request(header, body)
        )
        return await self.client.call(self.controller, request, timeout_s)

    async def metadata(self) -> GetMetadataInfoResponse:
        response = await self.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
        assert response.code == 0
        return response.header(GetMetadataInfoResponse)

    async def replicas(self, name: str = "broker-a") -> ReplicasInfo | None:
        response = await self.ask(
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, encode_broker_names([name])
        )
        assert response.code == 0, response.remark
        return BrokerReplicasInfo.decode(response.body).replicas_info_table.get(name)

    async def clean(self, name: str, ids: str | None, *, living: bool = False) -> Command:
        return await self.ask(
            CleanBrokerData(
                cluster_name=CLUSTER,
                broker_name=name,
                broker_controller_ids_to_clean=ids,
                is_clean_living_broker=living,
            )
        )

    async def close(self) -> None:
        await self.client.close()


class WireBroker(Asker):
    """Has an address at which it hears notices, and an id once it has applied for one."""

    def __init__(self, controller: str, name: str = "broker-a") -> None:
        super().__init__(controller)
        self.name = name
        self.broker_id = 0
        self.timeout_ms = 60_000
        self.epoch = -1
        self.max_offset = 0
        self.priority: int | None = None
        self.notices: list[tuple[NotifyBrokerRoleChanged, SyncStateSet]] = []
        self.told = asyncio.Event()
        self._server = RemotingServer({NotifyBrokerRoleChanged.CODE: self._hear})

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    def _hear(self, request: Command, connection: Connection) -> Command:
        self.notices.append(
            (request.header(NotifyBrokerRoleChanged), SyncStateSet.decode(request.body))
        )
        self.told.set()
        return request.reply()

    async def listen(self) -> None:
        await self._server.start("127.0.0.1", 0)

    async def close(self) -> None:
        await super().close()
        await self._server.stop(grace_s=0.1)

    async def hang_up(self) -> None:
        """Lose all connections, as a process does that is killed."""
        await self.client.close()
        self.client = RemotingClient()

    # What it says

    async def join(self) -> RegisterBrokerToControllerResponse:
        """All that a broker does at its first start."""
        next_id = await self.next_id()
        applied = await self.apply(next_id, f"{self.address};{time.time_ns()}")
        assert applied.code == 0, applied.remark
        self.broker_id = next_id
        registered = await self.register()
        assert registered.code == 0, registered.remark
        await self.beat()
        return registered.header(RegisterBrokerToControllerResponse)

    async def next_id(self) -> int:
        response = await self.ask(GetNextBrokerId(cluster_name=CLUSTER, broker_name=self.name))
        assert response.code == 0, response.remark
        number = response.header(GetNextBrokerIdResponse).next_broker_id
        assert number is not None
        return number

    async def apply(self, broker_id: int, check_code: str) -> Command:
        return await self.ask(
            ApplyBrokerId(
                cluster_name=CLUSTER,
                broker_name=self.name,
                applied_broker_id=broker_id,
                register_check_code=check_code,
            )
        )

    async def register(self, address: str | None = None) -> Command:
        return await self.ask(
            RegisterBrokerToController(
                cluster_name=CLUSTER,
                broker_name=self.name,
                broker_id=self.broker_id,
                broker_address=address or self.address,
            )
        )

    async def beat(self, to: str | None = None) -> Command:
        heartbeat = BrokerHeartbeat(
            cluster_name=CLUSTER,
            broker_addr=self.address,
            broker_name=self.name,
            broker_id=self.broker_id,
            epoch=self.epoch,
            max_offset=self.max_offset,
            confirm_offset=self.max_offset,
            heartbeat_timeout_mills=self.timeout_ms,
            election_priority=self.priority,
        )
        return await self.client.call(to or self.controller, Command.request(heartbeat), 10.0)

    async def elect(self, *, designated: bool = False, broker_id: int | None = None) -> Command:
        return await self.ask(
            ElectMaster(
                cluster_name=CLUSTER,
                broker_name=self.name,
                broker_id=self.broker_id if broker_id is None else broker_id,
                designate_elect=designated,
            )
        )

    async def become_master(self) -> ElectMasterResponse:
        response = await self.elect()
        assert response.code == 0, response.remark
        header = response.header(ElectMasterResponse)
        assert header.master_broker_id == self.broker_id
        assert ElectMasterResponseBody.decode(response.body).sync_state_set == [self.broker_id]
        return header

    async def info(self) -> Command:
        return await self.ask(GetReplicaInfo(broker_name=self.name))

    async def master(self) -> GetReplicaInfoResponse:
        response = await self.info()
        assert response.code == 0, response.remark
        return response.header(GetReplicaInfoResponse)

    async def alter(self, master_epoch: int, members: list[int], epoch: int) -> Command:
        return await self.ask(
            AlterSyncStateSet(
                broker_name=self.name, master_broker_id=self.broker_id, master_epoch=master_epoch
            ),
            SyncStateSet(sync_state_set=members, sync_state_set_epoch=epoch).encode(),
        )

    async def share(self, master: ElectMasterResponse, *others: "WireBroker") -> int:
        """As master: say that others are in sync; the epoch of the set then."""
        assert master.master_epoch is not None
        assert master.sync_state_set_epoch is not None
        members = sorted([self.broker_id, *(each.broker_id for each in others)])
        response = await self.alter(master.master_epoch, members, master.sync_state_set_epoch)
        assert response.code == 0, response.remark
        return response.header(AlterSyncStateSetResponse).new_sync_state_set_epoch


@asynccontextmanager
async def wire_brokers(
    controller: str, count: int, name: str = "broker-a"
) -> AsyncIterator[list[WireBroker]]:
    """Brokers that listen, and know nothing yet."""
    brokers = [WireBroker(controller, name) for _ in range(count)]
    try:
        for each in brokers:
            await each.listen()
        yield brokers
    finally:
        for each in brokers:
            await each.close()


@asynccontextmanager
async def controlled(
    folder: Path, count: int, **options: object
) -> AsyncIterator[list[WireBroker]]:
    """A controller and its brokers."""
    async with (
        running_controller(folder, **options) as controller,
        wire_brokers(controller.address, count) as brokers,
    ):
        yield brokers
