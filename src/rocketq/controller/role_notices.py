"""Tells brokers who is master now, so that they need not wait until they ask themselves."""

import asyncio
import logging
from functools import partial
from typing import Final

from rocketq.controller.broker_set import BrokerSet
from rocketq.remoting.bodies.controller import SyncStateSet
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers.controller import NotifyBrokerRoleChanged
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.wire.command import Command

logger = logging.getLogger(__name__)

_TIMEOUT_S: Final = 3.0


class RoleNotices:
    """One notice to an address at a time: a newer one takes the place of one not sent yet."""

    def __init__(self, client: RemotingClient) -> None:
        self._client = client
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def tell(self, state: BrokerSet, addresses: list[str]) -> None:
        """Tell brokers of their new master, in this order."""
        header = NotifyBrokerRoleChanged(
            master_address=state.master_address,
            master_broker_id=state.master_id,
            master_epoch=state.master_epoch,
            sync_state_set_epoch=state.in_sync_epoch,
        )
        body = SyncStateSet(
            sync_state_set=sorted(state.in_sync), sync_state_set_epoch=state.in_sync_epoch
        ).encode()
        for address in addresses:
            earlier = self._under_way.pop(address, None)
            if earlier is not None:
                earlier.cancel()
            task = asyncio.create_task(self._tell(address, Command.request(header, body)))
            self._under_way[address] = task
            task.add_done_callback(partial(self._done, address))

    async def _tell(self, address: str, notice: Command) -> None:
        try:
            await self._client.call_oneway(address, notice, _TIMEOUT_S)
        except RemotingError as error:
            logger.info("%s was not told of its new master, it will ask: %s", address, error)

    def _done(self, address: str, task: asyncio.Task[None]) -> None:
        if self._under_way.get(address) is task:
            del self._under_way[address]

    def cancel(self) -> None:
        for task in self._under_way.values():
            task.cancel()
