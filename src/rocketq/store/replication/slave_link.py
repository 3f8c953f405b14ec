"""One slave, as its master sees it: a connection on which the log goes out and reports come in.

Pieces of the log are handed to the transport as they lie in memory. When the slave reads more
slowly than the log grows, the transport says so and nothing more is handed to it until it has
room again; so a slow slave costs its master nothing but the connection.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from rocketq.store.config import StoreConfig
from rocketq.store.replication.frames import Reports, encode_head
from rocketq.store.replication.log_source import LogSource, ReadAhead

if TYPE_CHECKING:
    from rocketq.store.replication.replicas import Replicas

logger = logging.getLogger(__name__)

_UNSENT: Final = 1 << 20
"""How much the transport is given before it has to get rid of some."""
_TOGETHER: Final = 256 << 10
"""How much of the log is handed to the transport at once."""
_MOST_MARKS: Final = 10_000
_LOOK_EVERY_S: Final = 1.0
_FLOW_PAUSE_S: Final = 0.1


class SlaveLink(asyncio.Protocol):
    """Belongs to one connection; runs on the event loop alone."""

    def __init__(self, replicas: "Replicas", source: LogSource, config: StoreConfig) -> None:
        self.address = "?"
        self.broker_id: int | None = None
        """Which of the brokers it is, where slaves say so."""
        self.acknowledged = -1
        """How far the slave's log goes, as it said last; -1 before it has said anything."""
        self.position = -1
        """What is sent next."""
        self.is_caught_up = False
        """Whether it was sent everything, and waits for news."""
        self._replicas = replicas
        self._source = source
        self._config = config
        self._ahead = ReadAhead(source)
        self._reports = Reports()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._waiter: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flow_timer: asyncio.TimerHandle | None = None
        self._read_at = 0.0
        self._written_at = 0.0
        self._second = 0
        self._sent_in_second = 0
        self._sent_before = 0
        # Where the log ended at the end of a turn, and when that turn's first record was written.
        self._marks: deque[tuple[int, float]] = deque()

    # Life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if peer else "?"
        self._read_at = self._written_at = loop.time()
        transport.set_write_buffer_limits(high=_UNSENT)
        if not self._replicas.joined(self):
            transport.abort()
            return
        self._timer = loop.call_later(_LOOK_EVERY_S, self._look)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.is_caught_up = False
        for timer in (self._timer, self._flow_timer):
            if timer is not None:
                timer.cancel()
        self._ahead.stop()
        if self._waiter is not None:
            self._waiter.cancel()
        self._replicas.left(self)

    def close(self, reason: str) -> None:
        """End the connection; the slave will come back when it is ready to."""
        if self._transport is not None and not self._transport.is_closing():
            logger.warning("the connection of slave %s ends: %s", self.address, reason)
            # What is still to be sent would keep a dead peer's connection open for long.
            self._transport.abort()

    def _look(self) -> None:
        """Once a second: is the slave alive, and does it know that we are."""
        if self._transport is None:
            return
        loop = asyncio.get_running_loop()
        silence_ms = (loop.time() - self._read_at) * 1000
        if silence_ms > self._config.ha_housekeeping_interval:
            self.close(f"nothing was heard of it for {silence_ms / 1000:.0f} s")
            return
        quiet_ms = (loop.time() - self._written_at) * 1000
        if quiet_ms > self._config.ha_send_heartbeat_interval and self.position >= 0:
            self._write(self._head(0))
        self._timer = loop.call_later(_LOOK_EVERY_S, self._look)

    # What the slave says

    def data_received(self, data: bytes) -> None:
        self._read_at = asyncio.get_running_loop().time()
        position = self._reports.take(data)
        if position is not None:
            self._reported(position)

    def _reported(self, position: int) -> None:
        if self.position < 0:
            self._begin(position)
        elif position < self.acknowledged or position > self.position:
            self.close(
                f"it says that its log ends at {position}, after {self.acknowledged}, "
                f"and was sent {self.position}"
            )
        else:
            self.acknowledged = position
            self._replicas.reported(self)
            if self._marks:
                self._replicas.observe_delays(self._marks, position)

    def _begin(self, position: int) -> None:
        """The first report says where to begin."""
        refusal = self._replicas.refusal(position)
        if refusal is not None:
            self.close(refusal)
            return
        self.acknowledged = position
        self.position = position or self._first_position()
        logger.info(
            "slave %s has the log up to %d, is sent it from %d on; it ends at %d",
            *(self.address, position, self.position, self._source.end),
        )
        self._replicas.reported(self)
        self.pump()

    def _first_position(self) -> int:
        """What a slave gets first that has nothing."""
        return self._replicas.start_of_new_slave(from_last=self._config.sync_from_last_file)

    # What it is sent

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.pump()

    def push(self, written_at: float) -> None:
        """Send what was written in this turn, from this moment on."""
        if len(self._marks) < _MOST_MARKS:
            self._marks.append((self._source.end, written_at))
        self.pump()

    def pump(self) -> None:
        """Send what there is, as far as the connection takes it."""
        if self.position < 0 or self._transport is None or self._transport.is_closing():
            return
        self.is_caught_up = False
        has_more = True
        while has_more and not self._is_paused:
            parts: list[bytes | memoryview] = []
            stop = self.position + _TOGETHER
            while has_more and self.position < stop:
                has_more = self._add_piece(parts)
            if parts and not self._transport.is_closing():
                self._write(*parts)

    def _add_piece(self, parts: list[bytes | memoryview]) -> bool:
        """Take the next piece along if it may go now; False if nothing may follow it."""
        if not self._ahead.is_ready(self.position):
            if self._waiter is None:
                self._waiter = asyncio.get_running_loop().create_task(self._when_ready())
            return False
        most = self._allowance()
        if most <= 0:
            self._pump_later()
            return False
        piece = self._source.piece(self.position, most)
        if piece is not None:
            size = len(piece)
            parts += (self._head(size), piece)
            self.position += size
            self._sent_in_second += size
        if self.position == self._source.end:
            self.is_caught_up = True
            self._replicas.watch()
            return False
        if piece is None:
            self.close(
                f"it is to have {self.position} next, but the log begins at "
                f"{self._source.begin} by now: it was too slow. "
                "Delete its store directory to let it begin anew"
            )
        return piece is not None

    async def _when_ready(self) -> None:
        await self._ahead.ready()
        self._waiter = None
        self.pump()

    def _head(self, size: int) -> bytes:
        """What goes before a piece that begins at `position`."""
        return encode_head(self.position, size)

    def _write(self, *parts: bytes | memoryview) -> None:
        assert self._transport is not None
        self._written_at = asyncio.get_running_loop().time()
        self._transport.writelines(parts)

    # How much, and how fast

    def _allowance(self) -> int:
        """How many bytes the next piece may have."""
        config = self._config
        self._turn_second()
        if not config.ha_flow_control_enable:
            return config.ha_transfer_batch_size
        left = config.max_ha_transfer_byte_in_second - self._sent_in_second
        return min(left, config.ha_transfer_batch_size)

    def _pump_later(self) -> None:
        if self._flow_timer is not None:
            self._flow_timer.cancel()
        loop = asyncio.get_running_loop()
        self._flow_timer = loop.call_later(_FLOW_PAUSE_S, self.pump)

    def _turn_second(self) -> None:
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._sent_before = self._sent_in_second if second == self._second + 1 else 0
            self._sent_in_second = 0
            self._second = second

    @property
    def bytes_per_second(self) -> int:
        """What it was sent in the last whole second."""
        self._turn_second()
        return self._sent_before

    @property
    def lag(self) -> int:
        """How many bytes of the log it has not said it has; all of them before it speaks."""
        return self._source.end - max(self.acknowledged, 0)

    def configure(self, config: StoreConfig) -> None:
        self._config = config
