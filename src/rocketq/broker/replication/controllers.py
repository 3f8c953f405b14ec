"""The controllers, as a broker talks to them: signs of life to all, questions to the leading one.

Which of them leads, each of them can tell. It is asked again when the one that led does not
answer or says that it no longer leads.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from rocketq.common.errors import RocketqError
from rocketq.remoting import Command, RemotingClient, RequestCode, ResponseCode
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import BrokerHeartbeat, GetMetadataInfoResponse

logger = logging.getLogger(__name__)

CALL_WITHIN_S: Final = 3.0
_ASK_WITHIN_S: Final = 1.0


class NoController(RemotingError):
    """No controller could be asked, or none knows who leads."""

    retriable = True


class Controllers:
    """Used by one broker, on the event loop alone."""

    def __init__(self, client: RemotingClient, addresses: Callable[[], list[str]]) -> None:
        """`client` is for nobody else: a controller takes the end of a connection for ours."""
        self.on_leader_lost: Callable[[], None] | None = None
        """Called in the turn in which the connection to the leading controller ends."""
        self._client = client
        self._addresses = addresses
        self._leader: str | None = None
        self._watched: set[str] = set()
        self._beating: dict[str, asyncio.Task[None]] = {}

    @property
    def leader(self) -> str | None:
        return self._leader

    async def call(self, command: Command, timeout_s: float = CALL_WITHIN_S) -> Command:
        """Ask the leading controller; its answer, whatever the code but that it does not lead."""
        leader = self._leader or await self._find()
        await self._connected(leader)
        try:
            reply = await self._client.call(leader, command, timeout_s)
        except RocketqError:
            self._forget(leader)
            raise
        if reply.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self._forget(leader)
            raise NoController(f"the controller at {leader} no longer leads")
        return reply

    async def beat_leader(self, heartbeat: BrokerHeartbeat) -> None:
        """A sign of life that comes before whatever is asked next."""
        leader = self._leader or await self._find()
        await self._connected(leader)
        await self._client.call_oneway(leader, Command.request(heartbeat), _ASK_WITHIN_S)

    def beat(self, heartbeat: BrokerHeartbeat) -> None:
        """A sign of life to all the others; one that cannot be reached holds up nobody."""
        for address in self._addresses():
            if address != self._leader and address not in self._beating:
                task = asyncio.get_running_loop().create_task(self._beat(address, heartbeat))
                self._beating[address] = task
                task.add_done_callback(partial(self._beaten, address))

    def _beaten(self, address: str, task: asyncio.Task[None]) -> None:
        self._beating.pop(address, None)

    async def _beat(self, address: str, heartbeat: BrokerHeartbeat) -> None:
        try:
            await self._client.call_oneway(address, Command.request(heartbeat), _ASK_WITHIN_S)
        except RocketqError as error:
            logger.debug("controller %s does not hear of us: %s", address, error)

    def leave(self) -> None:
        """End all connections: whoever leads takes that for the end of this broker."""
        for address in {*self._addresses(), *self._watched}:
            self._client.disconnect(address)

    async def close(self) -> None:
        for task in list(self._beating.values()):
            task.cancel()
        await asyncio.gather(*self._beating.values(), return_exceptions=True)

    # Who leads

    def _forget(self, leader: str) -> None:
        if self._leader == leader:
            self._leader = None

    async def _find(self) -> str:
        """Ask all of them at once; the first that knows is right."""
        addresses = self._addresses()
        asked = [asyncio.ensure_future(self._ask(address)) for address in addresses]
        failures = []
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    leader = await answer
                except RocketqError as error:
                    failures.append(str(error))
                    continue
                if leader != self._leader:
                    logger.info("the controller at %s leads", leader)
                self._leader = leader
                return leader
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        raise NoController(f"no controller leads: {'; '.join(failures) or 'there is none'}")

    async def _ask(self, address: str) -> str:
        request = Command.request(RequestCode.CONTROLLER_GET_METADATA_INFO)
        reply = await self._client.call(address, request, _ASK_WITHIN_S)
        leader = reply.header(GetMetadataInfoResponse).controller_leader_address
        if reply.code != ResponseCode.SUCCESS or not leader:
            raise NoController(f"{address} knows of none that leads")
        return leader

    async def _connected(self, leader: str) -> None:
        """Have a connection, and its end noticed."""
        connection = await self._client.connect(leader)
        if leader not in self._watched:
            self._watched.add(leader)

            def lost(_: object) -> None:
                self._watched.discard(leader)
                if self._leader == leader:
                    self._leader = None
                    if self.on_leader_lost is not None:
                        self.on_leader_lost()

            connection.on_close(lost)
