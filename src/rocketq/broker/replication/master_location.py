"""Where the master of this slave is: for requests, and for its log.

NameServers tell a slave with every registration. `haMasterAddress`, where it is set, names the
place of the log; RocketMQ 5 then never connects, RocketMQ 4 does, and so does rocketq.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.common.service import asked_to_stop
from rocketq.store.replication.follower import LogFollower

logger = logging.getLogger(__name__)

_SHORTEST_ADDRESS: Final = 6
_ASK_AGAIN_S: Final = 3.0


class MasterLocation:
    """Changed by the registration; heard of by those who talk to the master."""

    def __init__(self, live: LiveConfig) -> None:
        configured = (live.store.ha_master_address or "").strip()
        self._configured = configured if len(configured) >= _SHORTEST_ADDRESS else None
        self._address: str | None = None
        self._log_address = self._configured
        self._listeners: list[Callable[[], None]] = []

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
        before = (self._address, self._log_address)
        self._address = address or self._address
        self._log_address = self._configured or log_address or self._log_address
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
