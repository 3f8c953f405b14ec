"""The slave's side: connect to the master, append what it sends, report how much is here.

    READY      the master's address is unknown, or it cannot be reached, or refuses us
    TRANSFER   connected; bytes come

Before every connection the logs are compared (`Comparison`): the protocol itself lets a slave
go on with a log that is not the master's, and the result would be a mixture of both. A slave
whose log does not fit says so, and tries again only to see whether somebody has mended it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Final, cast

from rocketq.common.errors import RocketqError
from rocketq.common.service import asked_to_stop
from rocketq.store.config import StoreConfig
from rocketq.store.errors import StoreError
from rocketq.store.replication.frames import InvalidFrame, Pieces, encode_report
from rocketq.store.replication.received_log import ReceivedLog

logger = logging.getLogger(__name__)

_CONNECT_WITHIN_S: Final = 5.0
_FIRST_RETRY_S: Final = 0.2
_LONGEST_RETRY_S: Final = 5.0
_SAY_AGAIN_S: Final = 60.0
_BUFFER_SIZE: Final = 512 << 10
_LOOK_EVERY_S: Final = 1.0


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
        self._link: _MasterLink | None = None
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
            self._link.close("the master is elsewhere now")
        self._is_news.set()

    def configure(self, config: StoreConfig) -> None:
        self._config = config

    # Life

    async def run(self, stop: asyncio.Event) -> None:
        """Follow whoever is master, until asked to stop."""
        stopping: asyncio.Future[bool] = asyncio.ensure_future(stop.wait())
        pause_s = _FIRST_RETRY_S
        try:
            while not stop.is_set():
                self._is_news.clear()
                has_worked = await self._follow_once(stopping)
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

    async def _follow_once(self, stopping: asyncio.Future[bool]) -> bool:
        """One connection, from its beginning to its end; whether it came about."""
        address = self._address
        if address is None:
            return False
        try:
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
            self._change(FollowerState.TRANSFER)
            await asyncio.wait((link.closed, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            link.close("")
            with suppress(Exception):
                await link.closed
            self._link = None
            self._change(FollowerState.READY)
        if link.failure:
            self._say(logging.ERROR, link.failure)
        elif not stopping.done():
            logger.warning("the connection to the master at %s is gone", address)
        return link.has_received

    async def _connect(self, address: str) -> "_MasterLink":
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        if self._log.safe_end < self._log.end:
            await self._log.flush()
        async with asyncio.timeout(_CONNECT_WITHIN_S):
            _, link = await loop.create_connection(
                lambda: _MasterLink(self, self._log, self._config), host.strip("[]"), int(port)
            )
        return link

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


class _MasterLink(asyncio.BufferedProtocol):
    """One connection to the master."""

    def __init__(self, follower: LogFollower, log: ReceivedLog, config: StoreConfig) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failure = ""
        self.has_received = False
        self._follower = follower
        self._log = log
        self._config = config
        self._pieces = Pieces()
        self._buffer = bytearray(_BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        self._transport: asyncio.Transport | None = None
        self._reported = -1
        self._timer: asyncio.TimerHandle | None = None
        self._read_at = self._written_at = 0.0
        self._second = 0
        self._received_in_second = 0
        self._received_before = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._read_at = loop.time()
        self._log.when_durable(self._report)
        self._send(self._log.end)
        self._timer = loop.call_later(_LOOK_EVERY_S, self._look)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._log.when_durable(None)
        if self._timer is not None:
            self._timer.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    def close(self, failure: str) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self.failure = failure
            self._transport.abort()

    # What comes

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._read_at = now
        self._follower.last_read_s = now
        if self._transport is None or self._transport.is_closing():
            return
        try:
            received = self._take(self._view[:size])
        except InvalidFrame as error:
            self.close(f"the master sends no log: {error}")
            return
        except StoreError as error:
            self.close(str(error))
            return
        except OSError as error:
            self.close(f"what the master sends cannot be written: {error}")
            return
        if received:
            self.has_received = True
            self._count(now, received)
            self._report()

    def _take(self, data: memoryview) -> int:
        """Append what is in the buffer, a file's part at a time; how much that was."""
        total = 0
        expected = start = self._log.end
        is_empty = self._log.is_empty
        together: list[memoryview] = []
        for position, piece in self._pieces.take(data):
            if not piece:
                continue
            if is_empty:
                expected = start = position
                is_empty = False
            if position != expected:
                raise StoreError(
                    f"the master sends its log from {position} on, this one ends at {expected}"
                )
            if together and self._log.begins_file(position):
                self._log.append(start, together)
                start, together = position, []
            together.append(piece)
            expected += len(piece)
            total += len(piece)
        if together:
            self._log.append(start, together)
        return total

    # What goes

    def _report(self) -> None:
        position = self._log.safe_end
        if position > self._reported:
            self._send(position)

    def _send(self, position: int) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._reported = position
        self._written_at = asyncio.get_running_loop().time()
        self._follower.last_write_s = self._written_at
        self._transport.write(encode_report(position))

    def _look(self) -> None:
        """Once a second: is the master alive, and does it know that we are."""
        loop = asyncio.get_running_loop()
        silence_ms = (loop.time() - self._read_at) * 1000
        if silence_ms > self._config.ha_housekeeping_interval:
            self.close(f"nothing was heard of the master for {silence_ms / 1000:.0f} s")
            return
        if (loop.time() - self._written_at) * 1000 > self._config.ha_send_heartbeat_interval:
            self._send(max(self._log.safe_end, self._reported))
        self._timer = loop.call_later(_LOOK_EVERY_S, self._look)

    # How fast

    def _count(self, now: float, received: int) -> None:
        self._turn_second(now)
        self._received_in_second += received

    def _turn_second(self, now: float) -> None:
        second = int(now)
        if second != self._second:
            is_next = second == self._second + 1
            self._received_before = self._received_in_second if is_next else 0
            self._received_in_second = 0
            self._second = second

    @property
    def bytes_per_second(self) -> int:
        """What came in the last whole second."""
        self._turn_second(asyncio.get_running_loop().time())
        return self._received_before
