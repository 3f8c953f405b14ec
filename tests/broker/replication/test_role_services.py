"""Services that belong to a role, where the disk has no room to note that it was taken."""

import asyncio
import errno

import pytest

from rocketq.broker.replication.role import Role, RoleHolder
from rocketq.broker.replication.services import RoleServices
from rocketq.common.loop.service import running
from rocketq.store.config import BrokerRole
from tests.waiting import eventually


class Rooms:
    """Takes roles over, when the disk lets it."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.taken: list[BrokerRole] = []
        self.served: list[str] = []

    def take(self, role: Role) -> None:
        if self.code:
            raise OSError(self.code, "the disk")
        self.taken.append(role.kind)

    def services(self, roles: RoleHolder) -> RoleServices:
        async def master(stop: asyncio.Event) -> None:
            self.served.append("master")
            await stop.wait()

        return RoleServices(
            roles, master={"master": master}, slave={}, always={}, take_role=self.take
        )


def a_master() -> RoleHolder:
    return RoleHolder(Role(BrokerRole.SYNC_MASTER, 0))


async def test_a_role_is_taken_over_once_there_is_room() -> None:
    rooms = Rooms(errno.ENOSPC)
    services = rooms.services(a_master())
    async with running("roles", services.run):
        await asyncio.sleep(0)
        assert not rooms.served
        rooms.code = 0
        await services.started()
        await eventually(lambda: rooms.served == ["master"])
        assert rooms.taken == [BrokerRole.SYNC_MASTER]


async def test_a_disk_that_fails_ends_it() -> None:
    services = Rooms(errno.EIO).services(a_master())
    with pytest.raises(BaseExceptionGroup):
        async with running("roles", services.run):
            await asyncio.sleep(30)
