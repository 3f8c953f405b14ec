"""Where the master of this slave is: for requests, and for its log.

NameServers tell a slave with every registration. `haMasterAddress`, where it is set, names the
place of the log; RocketMQ 5 then never connects, RocketMQ 4 does, and so does rocketq.

Where a controller elects masters, it says who is master; what NameServers say may be older. The
place of the log is asked for at the master itself: RocketMQ's slaves wait for a NameServer to
know of it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.remoting import Command, RemotingClient, ResponseCode
from rocketq.remoting.headers import ExchangeBrokerHaInfo, ExchangeBrokerHaInfoResponse
from rocketq.store.replication.follower import LogFollower

logger = logging.getLogger(__name__)

_SHORTEST_ADDRESS: Final = 6
_ASK_AGAIN_S: Final = 3.0
_ASK_LOG_AGAIN_S: Final = 0.05
_ASK_WITHIN_S: Final = 2.0


class MasterLocation:
    """Changed by the registration; heard of by those who talk to the master."""

    def __init__(self, live: LiveConfig) -> None:
        configured = (live.store.ha_master_address or "").strip()
        self._configured = configured if len(configured) >= _SHORTEST_ADDRESS else None
        self._address: str | None = None
        self._log_address = self._configured
        self._listeners: list[Callable[[], None]] = []
        self._is_controlled = live.broker.enable_controller_mode
        if self._is_controlled:
            self._configured = self._log_address = None

    @property
    def address(self) -> str | None:
        """Where requests go; None while nobody has told."""
        if self._address is None and self._log_address is not None:
            # Unless somebody says otherwise, a broker's log is at the port after its own.
            host, _, port = self._log_address.rpartition(":")
            return f"{host}:{int(port) - 1}" if port.isdigit() else None
        return self._address

    @property
    def log_address(self) -> str | None:
        """Where the log comes from; None while nobody has told."""
        return self._log_address

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def tell(self, address: str | None, log_address: str | None) -> None:
        """What a NameServer says. One that knows of no master changes nothing: it may be back."""
        if self._is_controlled:
            if log_address and address == self._address:
                self._change(address, log_address)
            return
        self._change(address or self._address, self._configured or log_address or self._log_address)

    def lead(self, address: str | None) -> None:
        """What a controller says. Where the log is, the master has still to be asked."""
        self._change(address, self._log_address if address == self._address else None)

    def found_log(self, address: str, log_address: str) -> None:
        """What the master itself says."""
        if address == self._address:
            self._change(address, log_address)

    def _change(self, address: str | None, log_address: str | None) -> None:
        before = (self._address, self._log_address)
        self._address = address
        self._log_address = log_address
        if (self._address, self._log_address) != before:
            logger.info("the master is at %s, its log at %s", self._address, self._log_address)
            for listener in self._listeners:
                listener()


class MasterSearch:
    """Has a slave register again soon, not only twice a minute, while its master is away.

    NameServers say where the master is only in the answer to a registration.
    """

    def __init__(self, follower: LogFollower, register: Callable[[], None]) -> None:
        self._follower = follower
        self._register = register

    async def run(self, stop: asyncio.Event) -> None:
        while not await asked_to_stop(stop, _ASK_AGAIN_S):
            if not self._follower.is_connected and self._follower.divergence is None:
                self._register()


class LogSearch:
    """Asks the master that a controller has named where its log is."""

    def __init__(self, client: RemotingClient, location: MasterLocation) -> None:
        self._client = client
        self._location = location
        self._is_news = asyncio.Event()
        location.on_change(self._is_news.set)

    async def run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                self._is_news.clear()
                address = self._location.address
                is_wanted = address is not None and self._location.log_address is None
                search = asyncio.ensure_future(self._search(address if is_wanted else None))
                news = asyncio.ensure_future(self._is_news.wait())
                await asyncio.wait((search, stopping, news), return_when=asyncio.FIRST_COMPLETED)
                for task in (search, news):
                    task.cancel()
                await asyncio.gather(search, news, return_exceptions=True)
        finally:
            stopping.cancel()

    async def _search(self, address: str | None) -> None:
        """Until it is found, and then until something changes."""
        while address is not None:
            try:
                reply = await self._client.call(
                    address, Command.request(ExchangeBrokerHaInfo()), _ASK_WITHIN_S
                )
                answer = reply.header(ExchangeBrokerHaInfoResponse)
                if reply.code == ResponseCode.SUCCESS and answer.master_ha_address:
                    self._location.found_log(address, answer.master_ha_address)
                    break
            except RocketqError as error:
                logger.debug("the master at %s does not say where its log is: %s", address, error)
            await asyncio.sleep(_ASK_LOG_AGAIN_S)
        await asyncio.Event().wait()
