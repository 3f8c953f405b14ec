"""One connection to the master: its log comes in, and how much of it is here goes out.

`MasterLink` speaks RocketMQ's plain protocol, `EpochMasterLink` that of masters who are elected.
There the two say hello first, and the slave finds the newest reign that both know: as far as
that goes in both logs they are equal. What lies behind is cut off here; only then does the
slave say where its log ends, and the master goes on from there.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, cast

from rocketq.store.config import StoreConfig
from rocketq.store.errors import StoreError
from rocketq.store.replication import epoch_frames
from rocketq.store.replication.epoch_frames import MasterHello, MasterWords
from rocketq.store.replication.epochs import Epochs
from rocketq.store.replication.frames import InvalidFrame, Pieces, encode_report
from rocketq.store.replication.received_log import ReceivedLog

logger = logging.getLogger(__name__)

_BUFFER_SIZE: Final = 512 << 10
_LOOK_EVERY_S: Final = 1.0
_HELLO_WITHIN_S: Final = 5.0


class LinkWatcher(Protocol):
    """Who wants to know when something was heard or said last."""

    last_read_s: float
    last_write_s: float


class Replica(NamedTuple):
    """Who a slave says that it is."""

    broker_id: int
    is_learner: bool


class MasterLink(asyncio.BufferedProtocol):
    """One connection to the master."""

    def __init__(self, watcher: LinkWatcher, log: ReceivedLog, config: StoreConfig) -> None:
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.ready: asyncio.Future[None] = loop.create_future()
        """Done when both know of each other, and the log comes."""
        self.failure = ""
        self.has_received = False
        self._watcher = watcher
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
        self._begin()
        self._timer = loop.call_later(_LOOK_EVERY_S, self._look)

    def _begin(self) -> None:
        self._send(self._log.end)
        self.ready.set_result(None)

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
        self._watcher.last_read_s = now
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
            self._log.show()  # when the report is out: a sender waits for that

    def _take(self, data: memoryview) -> int:
        """Append what is in the buffer, a file's part at a time; how much that was."""
        total = 0
        pieces = self._taken(data)
        expected = start = self._log.end
        is_empty = self._log.is_empty
        together: list[memoryview] = []
        for position, piece in pieces:
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

    def _taken(self, data: memoryview) -> Iterable[tuple[int, memoryview]]:
        return self._pieces.take(data)

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
        self._watcher.last_write_s = self._written_at
        self._transport.write(self._encode(position))

    def _encode(self, position: int) -> bytes:
        return encode_report(position)

    def _look(self) -> None:
        """Once a second: is the master alive, and does it know that we are."""
        loop = asyncio.get_running_loop()
        silence_ms = (loop.time() - self._read_at) * 1000
        if silence_ms > self._config.ha_housekeeping_interval:
            self.close(f"nothing was heard of the master for {silence_ms / 1000:.0f} s")
            return
        quiet_ms = (loop.time() - self._written_at) * 1000
        if self.ready.done() and quiet_ms > self._config.ha_send_heartbeat_interval:
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


class EpochMasterLink(MasterLink):
    """One connection to a master that was elected."""

    def __init__(
        self,
        watcher: LinkWatcher,
        log: ReceivedLog,
        config: StoreConfig,
        epochs: Epochs,
        replica: Replica,
        on_cut: Callable[[], None] | None,
    ) -> None:
        super().__init__(watcher, log, config)
        self.divergence = ""
        """Why this log cannot follow the master's, whatever is cut off."""
        self._epochs = epochs
        self._replica = replica
        self._on_cut = on_cut
        self._words = MasterWords()
        self._joining: asyncio.Task[None] | None = None

    def _begin(self) -> None:
        assert self._transport is not None
        self._epochs.cut_at(self._log.end + 1)
        hello = epoch_frames.encode_slave_hello(
            self._replica.broker_id,
            from_last=self._config.sync_from_last_file,
            is_learner=self._replica.is_learner,
        )
        self._transport.write(hello)
        loop = asyncio.get_running_loop()
        loop.call_later(_HELLO_WITHIN_S, self._give_up)

    def _give_up(self) -> None:
        if not self.ready.done() and self._joining is None:
            self.close("the master does not say hello")

    def connection_lost(self, error: Exception | None) -> None:
        if self._joining is not None:
            self._joining.cancel()
        super().connection_lost(error)

    def _encode(self, position: int) -> bytes:
        return epoch_frames.encode_report(position)

    def _report(self) -> None:
        if self.ready.done():
            super()._report()

    # What comes

    def _taken(self, data: memoryview) -> Iterable[tuple[int, memoryview]]:
        confirmed = -1
        for word in self._words.take(data):
            if isinstance(word, MasterHello):
                # Nothing follows before the first report.
                self._joining = asyncio.get_running_loop().create_task(self._join(word))
                continue
            if not self.ready.done():
                raise InvalidFrame("the log comes before it was asked for")
            if word.epoch.number > self._epochs.last_number:
                self._epochs.begin(*word.epoch)
            confirmed = max(confirmed, word.confirmed)
            yield word.position, word.data
        if confirmed >= 0:
            self._log.confirm(confirmed)

    async def _join(self, hello: MasterHello) -> None:
        try:
            await self._cut_to_fit(hello)
        except (StoreError, OSError) as error:
            self.close(str(error))
            return
        if self.divergence:
            self.close(self.divergence)
        elif self._transport is not None and not self._transport.is_closing():
            self._send(self._log.safe_end)
            self.ready.set_result(None)

    async def _cut_to_fit(self, hello: MasterHello) -> None:
        """Let this log be a beginning of the master's."""
        log = self._log
        theirs = Epochs(None, hello.epochs)
        if log.is_empty or log.end == 0:
            self._epochs.cut_at(0)
            self._share(theirs, log.end)
            return
        if not len(self._epochs):
            return  # compared before the connection was made
        common = self._epochs.common_end(log.end, theirs, hello.end)
        if common is None:
            self.divergence = (
                f"no reign of this log ({_spelled(self._epochs)}) is one of its master's "
                f"({_spelled(theirs)}): they have nothing in common. To follow this master, stop "
                "this broker, delete its store directory and start it again"
            )
        elif common < log.begin or not log.is_boundary(common):
            self.divergence = (
                f"this log is the master's up to {common}, where it cannot be cut; it reaches "
                f"from {log.begin} to {log.end}. To follow this master, stop this broker, delete "
                "its store directory and start it again"
            )
        elif common < log.end:
            was_readable = common < log.dispatched
            await log.truncate(common)
            self._share(theirs, common)
            if was_readable and self._on_cut is not None:
                self._on_cut()

    def _share(self, theirs: Epochs, end: int) -> None:
        """Know the reigns that began where this log ends now, if the master does.

        Of the first of them the master may have lost all that was written, and another broker may
        still have it: that one has no other reign in common with us when we are master.
        """
        for entry in theirs.entries():
            if entry.start == end and entry.number > self._epochs.last_number:
                self._epochs.begin(*entry)


def _spelled(epochs: Epochs) -> str:
    return " ".join(f"{number}@{start}" for number, start in epochs.entries()[-5:]) or "none"
