# cython: annotation_typing=False
"""One connection between two programs; both ends of it work alike.

Either end may send requests. What arrives in one read is handled in one turn of the event
loop: its frames are split, requests go to their handlers, responses to the calls that wait for
them, and everything there is to answer by the end of the turn leaves in one write.

Back-pressure works both ways. While a client does not read what it is sent, a server reads
nothing more from it; a client keeps reading, for if both ends stopped they would wait for
each other for ever. While as many asynchronous handlers are at work for a connection as it
may have, its further requests wait, and reading stops as well, unless the handlers may
themselves be waiting for an answer on this very connection. And a client that has kept the loop
busy for longer than its share waits until others have had theirs (`shares.py`).

Compiled where possible (connection.pxd gives the types).
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rocketq.common import ticks
from rocketq.common.buffers import Buffer
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import BadFrame, ConnectionLost, RemotingError, TooManyRequests
from rocketq.remoting.link.alertness import alertness_of
from rocketq.remoting.link.deadlines import Deadlines
from rocketq.remoting.link.handlers import Handlers, RpcHook
from rocketq.remoting.link.handling import RequestHandling
from rocketq.remoting.link.meter import RequestMeter
from rocketq.remoting.link.pending import PendingCall, Waiting
from rocketq.remoting.link.shares import REMEMBERED_NS, SLICE_NS, Shares
from rocketq.remoting.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command
from rocketq.remoting.wire.frame import FRAME_LIMIT, FrameSplitter

logger = logging.getLogger(__name__)

# Why no requests are taken and, as a rule, nothing is read; any of them is enough.
_PEER_DOES_NOT_READ = 1
_HANDLERS_BUSY = 2
_STOPPING = 4
_PUT_OFF = 8
_SHARE_USED_UP = 16

_RESPONSE = RESPONSE_FLAG
_GO_AWAY = int(ResponseCode.GO_AWAY)
_SLICE_NS = SLICE_NS
_REMEMBERED_NS = REMEMBERED_NS

# So many requests may wait for a handler before reading stops in any case.
_BACKLOG_LIMIT = 10_000

# Replies up to this many bytes are joined and written in one piece; larger ones are
# written part by part, because copying them would cost more than it saves.
_JOINED_SIZE = 64 * 1024

# A turn that has this much to say writes it before it handles more requests.
_TURN_SIZE = 1024 * 1024

# How long a peer that was told goodbye may take to hang up.
_LINGER_S = 0.5

# Who waits for less says nothing about a peer that does not answer.
_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How much one connection may take."""

    frame_limit: int = FRAME_LIMIT
    header_limit: int = FRAME_LIMIT
    stranger_frame_limit: int = FRAME_LIMIT
    """The longest frame until the hooks have let a request of the peer through."""
    handlers: int = 1024
    """Asynchronous handlers at work at a time."""
    calls: int = 65535
    """Calls of ours that wait for their answer at a time."""
    write_high_water: int = 1024 * 1024
    """Bytes sent and not read by the peer above which it counts as not reading."""
    unsent: int = sys.maxsize
    """Bytes sent and not read by the peer above which it is hung up on."""
    serves_strangers: bool = True
    """Whether the peer has to behave: reading stops while it does not read, it is not told
    more than it reads, and what it is sent does not count as a sign of its life."""


class Connection:
    """A connection to one peer, made by a server or a client: an `asyncio.Protocol`.

    `attributes` is for the programs above, which know whom they talk to.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        deadlines: Deadlines,
        limits: ConnectionLimits,
        hooks: Sequence[RpcHook] = (),
        calling_hooks: Sequence[RpcHook] = (),
        on_connect: Callable[["Connection"], None] | None = None,
        on_go_away: Callable[["Connection"], None] | None = None,
        on_silence: Callable[["Connection"], None] | None = None,
        meter: RequestMeter | None = None,
        shares: Shares | None = None,
    ) -> None:
        """`hooks` look at what the peer asks, `calling_hooks` at what the peer is asked.

        They are never the same: what lets strangers in has no say in what we tell them.
        `on_silence` is called when a request got no answer in time, and nothing else came either.
        """
        self.attributes: dict[str, Any] = {}
        self.peer: tuple[str, int] = ("", 0)
        self.peer_address = ""
        self.local: tuple[str, int] = ("", 0)
        self.idle_rounds = 0  # counted by the idle scan, set back by signs of life
        self.unsent_before = 0  # at the idle scan's last round
        self.reads = 0  # how often anything came
        self.deadlines = deadlines  # where whoever waits enters when to give up
        self._limits = limits
        self._shares = shares
        self._watched_until = 0  # as one that has had more than its share
        self._asks_in_turn_until = 0  # as one that has had it again
        self._frame_limit = limits.frame_limit
        self._unsent_limit = limits.unsent
        self._serves_strangers = limits.serves_strangers
        self._calling_hooks = tuple(calling_hooks)
        self._on_connect = on_connect
        self._on_go_away = on_go_away
        self._on_silence = on_silence
        self._close_callbacks: list[Callable[[Connection], None]] = []
        self._loop = asyncio.get_running_loop()
        self._alertness = alertness_of(self._loop)
        self._transport: asyncio.Transport | None = None
        self._closed = self._loop.create_future()
        is_stranger = bool(hooks) and limits.stranger_frame_limit < limits.frame_limit
        self._splitter = FrameSplitter(
            limits.stranger_frame_limit if is_stranger else limits.frame_limit,
            limits.header_limit,
        )
        self._handling = RequestHandling(
            self,
            handlers,
            hooks,
            limit=limits.handlers,
            on_room=self._handlers_have_room,
            meter=meter,
        )
        self._handling.is_stranger = is_stranger
        self._backlog: deque[Command] = deque()
        self._pending: dict[int, Waiting] = {}
        self._out: list[Buffer] = []
        self._out_size = 0
        self._in_turn = False
        self._flush_scheduled = False
        self._stops = 0
        self._is_read_paused = False
        self._is_write_paused = False
        self._is_finished = False  # what still comes is dropped
        self._closes_when_answered = False
        self._drained: asyncio.Future[None] | None = None

    # What it is

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def is_write_paused(self) -> bool:
        """Whether the peer has a lot to read already; see `writable`."""
        return self._is_write_paused

    @property
    def unsent(self) -> int:
        """Bytes that the peer has not yet taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def has_hooks(self) -> bool:
        """Whether somebody looks at what the peer is asked."""
        return bool(self._calling_hooks)

    @property
    def pending_calls(self) -> int:
        """Requests of ours that wait for their answer."""
        return len(self._pending)

    @property
    def running_handlers(self) -> int:
        """Requests of the peer that asynchronous handlers are working on."""
        return self._handling.running

    def __repr__(self) -> str:
        return f"<connection to {self.peer_address}>"

    # Sending

    def send(self, command: Command) -> None:
        """Send a command and forget it; a closed connection swallows it.

        Inside a turn it leaves with the turn's replies, otherwise with whatever else is
        sent in this round of the loop.
        """
        if not self.is_closing and not self._is_finished:
            size = command.encode_into(self._out)
            if size > self._frame_limit:
                size = self._put_something_shorter(command, size)
            self._out_size += size
            self._schedule_flush()

    def send_all(self, commands: list[Command]) -> None:
        """Send many."""
        if not self.is_closing and not self._is_finished:
            out = self._out
            limit = self._frame_limit
            for command in commands:
                size = command.encode_into(out)
                if size > limit:
                    size = self._put_something_shorter(command, size)
                self._out_size += size
            self._schedule_flush()

    def _put_something_shorter(self, command: Command, size: int) -> int:
        """Take back a frame that the peer would hang up on; a reply is replaced by an error."""
        taken_back = 0
        while taken_back < size:
            taken_back += len(self._out.pop())
        what = f"{size} bytes are more than a frame may have ({self._limits.frame_limit})"
        if not command.is_response:
            raise RemotingError(f"request {command.code}: {what}")
        logger.warning("reply %d to %s: %s", command.opaque, self.peer_address, what)
        error = Command(
            ResponseCode.SYSTEM_ERROR,
            remark=what,
            flag=RESPONSE_FLAG,
            opaque=command.opaque,
            serialize_type=command.serialize_type,
        )
        return error.encode_into(self._out)

    async def call(self, command: Command, timeout_s: float = 3.0) -> Command:
        """Send a request and wait for the response."""
        future = self.start_call(command, timeout_s)
        try:
            return await future
        except asyncio.CancelledError:
            self.forget(command.opaque)
            raise

    def start_call(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Send a request; the future gets the response, or ConnectionLost or RequestTimeout."""
        if self.is_closing:
            raise ConnectionLost(f"connection to {self.peer_address} is closed")
        if len(self._pending) >= self._limits.calls:
            raise TooManyRequests(f"{len(self._pending)} requests to {self.peer_address} pending")
        if command.opaque in self._pending:
            raise RemotingError(f"request {command.opaque} is already under way")
        self._run_request_hooks(command)
        self.send(command)
        future: asyncio.Future[Command] = self._loop.create_future()
        self._pending[command.opaque] = PendingCall(
            command,
            future,
            self.deadlines.bucket(timeout_s),
            peer_address=self.peer_address,
            reads=self.reads if timeout_s >= _PATIENCE_S else -1,
            expired=self.expired,
            look_at=self._run_response_hooks if self._calling_hooks else None,
        )
        if self._stops:
            self._update_reading()
        return future

    def start_frame(self, opaque: int, head: bytes, body: Buffer, waiting: Waiting) -> bool:
        """Send a request that its sender has encoded; `waiting` gets the answer.

        For those who send thousands of alike requests per second, and write them from a
        template. No hook sees them: look at `has_hooks` first. False when it cannot be sent
        now: the connection is closing, or full, or as many calls wait as may.
        """
        pending = self._pending
        if self._is_write_paused or self.is_closing or len(pending) >= self._limits.calls:
            return False
        if self._closes_when_answered:
            return False
        pending[opaque] = waiting
        self._out.append(head)
        self._out.append(body)
        self._out_size += len(head) + len(body)
        self._schedule_flush()
        return True

    def call_oneway(self, command: Command) -> None:
        """Send a request that nobody answers.

        A client that has a lot to read already is not told more: what it misses, it is
        told again or finds out by itself.
        """
        if self._is_write_paused and self._serves_strangers:
            logger.debug("%s does not read; not told %d", self.peer_address, command.code)
            return
        command.flag |= ONEWAY_FLAG
        self._run_request_hooks(command)
        self.send(command)

    def forget(self, opaque: int) -> None:
        """Give up waiting for an answer; it is dropped if it still comes."""
        waiting = self._pending.pop(opaque, None)
        if waiting is not None:
            waiting.leave()
            if self._closes_when_answered and not self._pending:
                self.close()

    def expired(self, opaque: int, reads: int) -> None:
        """The time for an answer is up; `reads` is what it was when the request was sent.

        A peer that says nothing at all may be gone without a word, and the system would go on
        for many minutes to send again what it does not confirm.
        """
        self.forget(opaque)
        if reads == self.reads and self._on_silence is not None:
            self._on_silence(self)

    async def writable(self) -> None:
        """Wait until the peer has read most of what it was sent."""
        while self._is_write_paused and not self.is_closing:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def _run_request_hooks(self, request: Command) -> None:
        for hook in self._calling_hooks:
            hook.before_request(self.peer_address, request)

    def _run_response_hooks(self, request: Command, response: Command) -> None:
        for hook in self._calling_hooks:
            hook.after_response(self.peer_address, request, response)

    # The end

    def on_close(self, callback: Callable[["Connection"], None]) -> None:
        """Have something called when the connection is gone; at once if it already is."""
        if self._closed.done():
            callback(self)
        else:
            self._close_callbacks.append(callback)

    def close(self) -> None:
        """Close after what was sent has been written."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def close_when_answered(self) -> None:
        """Close as soon as no call waits for its answer any more."""
        self._closes_when_answered = True
        if not self._pending:
            self.close()

    def abort(self) -> None:
        """Close without waiting for anything."""
        if self._transport is not None:
            self._transport.abort()

    def cut_off(self) -> None:
        """Close without waiting for anything, and stop the handlers that are at work for it."""
        self.abort()
        self._handling.cancel()

    async def closed(self) -> None:
        """Wait until the connection is gone."""
        await asyncio.shield(self._closed)

    def send_away(self, codes: frozenset[int]) -> None:
        """Answer requests with these codes by "go away"; clients that know it go elsewhere."""
        self._handling.send_away(codes)

    @property
    def sent_away_count(self) -> int:
        """How many requests were answered so."""
        count: int = self._handling.sent_away_count
        return count

    async def finish(self) -> None:
        """Take no more requests, answer those that were accepted, close.

        A socket that is closed with something unread in it is reset, and the peer may lose
        answers it has not read. So the peer is first told that nothing more will come, and
        what it still sends is read and dropped until it hangs up.
        """
        self._stop(_STOPPING)
        while (self._handling.running or self._backlog) and not self.is_closing:
            await self._handling.idle()
            await self.writable()
            await asyncio.sleep(0)
        if not self.is_closing:
            assert self._transport is not None
            self._flush()
            self._is_finished = True
            self._stops = 0
            self._update_reading()
            self._transport.write_eof()
            while not self._closed.done():
                await asyncio.wait([self._closed], timeout=_LINGER_S)
                if self._transport.get_write_buffer_size() == 0:
                    break
            self.close()
        await self.closed()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        if not self.peer[0]:  # else a proxy has said whose connection it passes on
            self.peer = _endpoint(transport.get_extra_info("peername"))
        self.local = _endpoint(transport.get_extra_info("sockname"))
        self.peer_address = join_address(*self.peer)
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=self._limits.write_high_water)
        if self._on_connect is not None:
            self._on_connect(self)

    def data_received(self, data: bytes) -> None:
        self.idle_rounds = 0
        self.reads += 1
        if self._is_finished:
            return
        splitter = self._splitter
        commands = splitter.feed(data)
        if commands:
            if self._alertness is not None:
                self._alertness.stir(len(commands))
            self._turn(commands)
        if splitter.error is not None:
            self._refuse(splitter.error)

    def eof_received(self) -> None:
        """The peer sends nothing more: the connection closes by itself."""

    def pause_writing(self) -> None:
        self._is_write_paused = True
        if self._serves_strangers:
            self._stop(_PEER_DOES_NOT_READ)

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._wake_writers()
        if self._serves_strangers:
            self._go_on(_PEER_DOES_NOT_READ)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        self._backlog.clear()
        self._out.clear()
        self._out_size = 0
        pending, self._pending = self._pending, {}
        what = f"connection to {self.peer_address} lost before the request was answered"
        for waiting in pending.values():
            waiting.leave()
            waiting.fail(ConnectionLost(what if error is None else f"{what}: {error}"))
        self._wake_writers()
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                logger.exception("closing %s", self.peer_address)

    # One turn

    def _turn(self, commands: list[Command]) -> None:
        """Handle what came in, then write what there is to say.

        Responses always get through; requests wait while there is a reason to.
        """
        self._in_turn = True
        began = 0
        if self._shares is not None:
            began = ticks.monotonic_ns()
            if began < self._asks_in_turn_until and not self._stops & _SHARE_USED_UP:
                self._wait_for_others()
        try:
            at = 0
            while at < len(commands):
                command = commands[at]
                if command.flag & _RESPONSE:
                    self._complete(command)
                    at += 1
                elif self._stops & ~_STOPPING:
                    self._backlog.append(command)
                    at += 1
                else:
                    at = self._handling.handle(commands, at)
                    if self._handling.is_full:
                        self._stop(_HANDLERS_BUSY)
                    if self._out_size >= _TURN_SIZE:
                        self._flush()
                    if self._shares is not None and not self._stops & _SHARE_USED_UP:
                        now = ticks.monotonic_ns()
                        if now - began > _SLICE_NS:
                            self._share_is_used_up(now, at < len(commands))
        finally:
            self._in_turn = False
        if self._out:
            self._flush()
        if self._stops:
            self._update_reading()

    def _complete(self, response: Command) -> None:
        waiting = self._pending.pop(response.opaque, None)
        if waiting is None:
            logger.debug("late or unknown answer %d from %s", response.opaque, self.peer_address)
            return
        waiting.leave()
        if response.code == _GO_AWAY and self._on_go_away is not None:
            self._on_go_away(self)
        waiting.complete(response)
        if self._closes_when_answered and not self._pending:
            self.close()

    def _refuse(self, error: BadFrame) -> None:
        if not self.is_closing:
            logger.warning("closing the connection to %s: %s", self.peer_address, error)
            self.close()

    # Writing

    def _schedule_flush(self) -> None:
        if self._in_turn:
            return
        if self._out_size >= _TURN_SIZE:
            self._flush()  # whoever has more to send sees whether the peer reads
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        out = self._out
        if not out:
            return
        size = self._out_size
        self._out = []
        self._out_size = 0
        if not self._serves_strangers:
            self.idle_rounds = 0
        transport = self._transport
        assert transport is not None
        if self._is_write_paused and self._leaves_too_much(size):
            return
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOINED_SIZE:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        if self._alertness is not None:
            self._alertness.written()

    def _leaves_too_much(self, size: int) -> bool:
        """Hang up on a peer that would leave more unread than may be kept for it."""
        assert self._transport is not None
        unsent = self.unsent + size
        if unsent <= self._unsent_limit:
            return False
        if not self._transport.is_closing():
            logger.warning(
                "closing the connection to %s, which leaves %d bytes unread",
                self.peer_address,
                unsent,
            )
            self._transport.abort()
        return True

    def _wake_writers(self) -> None:
        if self._drained is not None:
            if not self._drained.done():
                self._drained.set_result(None)
            self._drained = None

    # Reading

    def admit(self) -> None:
        """The peer has shown who it is: it may send frames of any size."""
        self._splitter.allow(self._frame_limit)

    @property
    def is_put_off(self) -> bool:
        """Whether requests wait for `take_up`."""
        return self._stops & _PUT_OFF != 0

    def put_off(self, requests: list[Command]) -> None:
        """Give requests back that cannot be handled in this turn.

        They wait, and so does everything behind them, until somebody calls `take_up`.
        For handlers only, about the requests they were given.
        """
        self._backlog.extend(requests)
        self._stop(_PUT_OFF)

    def take_up(self) -> None:
        """Go on with what was put off."""
        self._go_on(_PUT_OFF)

    def _share_is_used_up(self, now: int, asks_more: bool) -> None:
        """Once may be an accident: somebody's garbage was looked through meanwhile."""
        if asks_more or now < self._watched_until:
            self._asks_in_turn_until = now + _REMEMBERED_NS
            self._wait_for_others()
        self._watched_until = now + _REMEMBERED_NS

    def _wait_for_others(self) -> None:
        assert self._shares is not None
        self._shares.wait(self._have_share)
        self._stop(_SHARE_USED_UP)

    def _have_share(self) -> None:
        if self._backlog:
            self._asks_in_turn_until = 0
        self._go_on(_SHARE_USED_UP)

    def _handlers_have_room(self) -> None:
        self._go_on(_HANDLERS_BUSY)

    def _stop(self, reason: int) -> None:
        """Take no more requests."""
        self._stops |= reason
        self._update_reading()

    def _go_on(self, reason: int) -> None:
        """Take one reason away; those requests that wait come first."""
        self._stops &= ~reason
        if self._backlog and not self._stops & ~_STOPPING:
            waiting = list(self._backlog)
            self._backlog.clear()
            self._turn(waiting)
        self._update_reading()

    def _update_reading(self) -> None:
        """Read or do not read, as things are now."""
        pause = self._stops != 0
        if self._stops == _HANDLERS_BUSY and self._pending:
            # What the handlers wait for may be among the bytes that have not been read.
            pause = len(self._backlog) >= _BACKLOG_LIMIT
        if pause != self._is_read_paused and not self.is_closing:
            assert self._transport is not None
            self._is_read_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()


def join_address(host: str, port: int) -> str:
    """`host:port`, or `[host]:port` for an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _endpoint(address: Any) -> tuple[str, int]:
    """Host and port of whatever kind of socket address it is."""
    if isinstance(address, tuple) and len(address) >= 2:
        return address[0], address[1]
    return str(address or ""), 0
