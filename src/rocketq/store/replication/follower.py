"""The slave's side: connect to the master, append what it sends, report how much is here.

    READY      the master's address is unknown, or it cannot be reached, or refuses us
    TRANSFER   connected; bytes come

Before every connection the logs are compared (`Comparison`): the protocol itself lets a slave
go on with a log that is not the master's, and the result would be a mixture of both. A slave
whose log does not fit says so, and tries again only to see whether somebody has mended it.

Where a controller elects masters the two compare their reigns when they say hello instead
(`master_link`), and the slave cuts off what its master never had.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Final

from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.store.config import StoreConfig
from rocketq.store.errors import StoreError
from rocketq.store.replication.epochs import Epochs
from rocketq.store.replication.master_link import EpochMasterLink, MasterLink, Replica
from rocketq.store.replication.received_log import ReceivedLog

logger = logging.getLogger(__name__)

_CONNECT_WITHIN_S: Final = 5.0
_FIRST_RETRY_S: Final = 0.2
_LONGEST_RETRY_S: Final = 5.0
_SAY_AGAIN_S: Final = 60.0


class Diverged(StoreError):
    """The slave's log is not the beginning of the master's. Says how, and what to do."""


Comparison = Callable[[ReceivedLog], Awaitable[None]]
"""Compares a slave's log with its master's; raises `Diverged`, or another error to try again."""


class FollowerState(Enum):
    READY = "READY"
    TRANSFER = "TRANSFER"


class LogFollower:
    """Runs while the broker is a slave."""

    def __init__(self, config: StoreConfig, log: ReceivedLog, compare: Comparison) -> None:
        self.state = FollowerState.READY
        self.divergence: Diverged | None = None
        """Why this log cannot follow its master's; None while it can, as far as is known."""
        self.last_read_s = 0.0
        self.last_write_s = 0.0
        self._config = config
        self._log = log
        self._compare = compare
        self._address: str | None = None
        self._is_news = asyncio.Event()
        self._replica: Replica | None = None
        self._epochs: Epochs | None = None
        self._on_cut: Callable[[], None] | None = None
        self.is_proven = True
        """Whether all that can be read here is the master's, as far as that was ever told."""
        self._link: MasterLink | None = None
        self._listeners: list[Callable[[], None]] = []
        self._said: str = ""
        self._said_at = 0.0

    # What others ask for

    @property
    def master_address(self) -> str | None:
        """Where the master sends its log from, as far as is known."""
        return self._address

    @property
    def is_connected(self) -> bool:
        return self.state is FollowerState.TRANSFER

    @property
    def bytes_per_second(self) -> int:
        return self._link.bytes_per_second if self._link is not None else 0

    @property
    def end(self) -> int:
        return self._log.end

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called whenever the connection comes or goes."""
        self._listeners.append(listener)

    def follow(self, address: str | None) -> None:
        """The master is here now, `host:port`; None: nobody knows where."""
        if address == self._address:
            return
        logger.info("the master's log is at %s", address or "an unknown place")
        self._address = address
        if self._link is not None:
            self._link.close("")
        self._is_news.set()

    def configure(self, config: StoreConfig) -> None:
        self._config = config

    def expect_epochs(self, epochs: Epochs, on_cut: Callable[[], None]) -> None:
        """Masters are elected here: a start may find what its master never had.

        `on_cut` is called when some of that could be read.
        """
        self._epochs = epochs
        self._on_cut = on_cut
        self.is_proven = False

    def introduce_as(self, replica: Replica) -> None:
        """Who this broker says that it is, where masters are elected."""
        self._replica = replica

    # Life

    async def run(self, stop: asyncio.Event) -> None:
        """Follow whoever is master, until asked to stop."""
        stopping: asyncio.Future[bool] = asyncio.ensure_future(stop.wait())
        pause_s = _FIRST_RETRY_S
        try:
            while not stop.is_set():
                self._is_news.clear()
                has_worked = await self._until_stop(stopping)
                pause_s = _FIRST_RETRY_S if has_worked else min(pause_s * 2, _LONGEST_RETRY_S)
                await self._pause(pause_s, stop)
        finally:
            stopping.cancel()

    async def _pause(self, pause_s: float, stop: asyncio.Event) -> None:
        """Wait for the next attempt; news of where the master is come first."""
        news = asyncio.ensure_future(self._is_news.wait())
        asked = asyncio.ensure_future(asked_to_stop(stop, pause_s))
        try:
            await asyncio.wait((news, asked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            asked.cancel()
            await asyncio.gather(news, asked, return_exceptions=True)

    async def _until_stop(self, stopping: asyncio.Future[bool]) -> bool:
        """One attempt, given up when it is to stop: the master may be one that never answers."""
        attempt = asyncio.ensure_future(self._follow_once(stopping))
        await asyncio.wait((attempt, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not attempt.done() and self._link is None:
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)
            return False
        return await attempt

    async def _follow_once(self, stopping: asyncio.Future[bool]) -> bool:
        """One connection, from its beginning to its end; whether it came about."""
        address = self._address
        if address is None:
            return False
        try:
            if not self._epochs:  # else they say it all
                self._log.cut_torn_end()
                await self._compare(self._log)
                self.divergence = None
            link = await self._connect(address)
        except Diverged as divergence:
            self.divergence = divergence
            self._change(FollowerState.READY)
            self._say(logging.ERROR, str(divergence))
            return False
        except (OSError, RocketqError, TimeoutError) as error:
            self._say(logging.WARNING, f"the master at {address} cannot be followed: {error}")
            return False
        self._said = ""
        self._link = link
        try:
            both = asyncio.FIRST_COMPLETED
            await asyncio.wait((link.ready, link.closed, stopping), return_when=both)
            if link.ready.done():
                self.is_proven = True
                self.divergence = None
                self._change(FollowerState.TRANSFER)
            await asyncio.wait((link.closed, stopping), return_when=both)
        finally:
            link.close("")
            with suppress(Exception):
                await link.closed
            self._link = None
            self._change(FollowerState.READY)
        if isinstance(link, EpochMasterLink) and link.divergence:
            self.divergence = Diverged(link.divergence)
            self._change(FollowerState.READY)
            self._say(logging.ERROR, link.divergence)
        elif link.failure:
            self._say(logging.ERROR, link.failure)
        elif not stopping.done():
            logger.warning("the connection to the master at %s is gone", address)
        return link.has_received

    async def _connect(self, address: str) -> MasterLink:
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        if self._log.safe_end < self._log.end:
            await self._log.flush()
        async with asyncio.timeout(_CONNECT_WITHIN_S):
            _, link = await loop.create_connection(self._new_link, host.strip("[]"), int(port))
        return link

    def _new_link(self) -> MasterLink:
        if self._epochs is None or self._replica is None:
            return MasterLink(self, self._log, self._config)
        return EpochMasterLink(
            self, self._log, self._config, self._epochs, self._replica, self._on_cut
        )

    def _change(self, state: FollowerState) -> None:
        self.state = state
        for listener in self._listeners:
            listener()

    def _say(self, level: int, text: str) -> None:
        """Say something once, and again when a minute has passed."""
        now = asyncio.get_running_loop().time()
        if text != self._said or now - self._said_at >= _SAY_AGAIN_S:
            logger.log(level, "%s", text)
            self._said, self._said_at = text, now
