"""One connection between two programs; both ends of it work alike.

Either end may send requests. What arrives in one read is handled in one turn of the event
loop: its frames are split, requests go to the routes, responses to the calls that wait for
them, and everything there is to answer by the end of the turn leaves in one write.

Back-pressure works both ways. While a client does not read what it is sent, a server reads
nothing more from it; a client keeps reading, for if both ends stopped they would wait for
each other for ever. While as many asynchronous handlers are at work for a connection as it
may have, its further requests wait, and reading stops as well.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rocketq.common.buffers import Buffer
from rocketq.common.errors import RocketqError
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.command import ONEWAY_FLAG, RESPONSE_FLAG, Command
from rocketq.remoting.deadlines import Bucket, Deadlines
from rocketq.remoting.errors import (
    BadFrame,
    ConnectionLost,
    RemotingError,
    RequestRejected,
    RequestTimeout,
    TooManyRequests,
)
from rocketq.remoting.frame import FRAME_LIMIT, FrameSplitter
from rocketq.remoting.routes import Handler, Routes, RpcHook, RunRoute

logger = logging.getLogger(__name__)

# Why reading stops; any of them is enough.
_PEER_DOES_NOT_READ = 1
_HANDLERS_BUSY = 2
_STOPPING = 4

# Replies up to this many bytes are joined and written in one piece; larger ones are
# written part by part, because copying them would cost more than it saves.
_JOINED_SIZE = 64 * 1024

# How long a peer that was told goodbye may take to hang up.
_LINGER_S = 0.5

# A turn that has this much to say writes it before it handles more requests.
_TURN_SIZE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How much one connection may take."""

    frame_limit: int = FRAME_LIMIT
    handlers: int = 1024
    """Asynchronous handlers at work at a time."""
    calls: int = 65535
    """Calls of ours that wait for their answer at a time."""
    write_high_water: int = 1024 * 1024
    """Bytes sent and not read by the peer above which it counts as not reading."""
    stops_for_readers: bool = True
    """Whether reading stops while the peer does not read; true in servers only."""


class Waiting(Protocol):
    """Whoever wants the answer to a request of ours. One of the three comes, once."""

    def complete(self, response: Command) -> None: ...

    def fail(self, error: Exception) -> None: ...

    def expire(self) -> None:
        """The time is up; called by the deadlines it was entered in."""
        ...

    def leave(self) -> None:
        """Stop the clock; called before the others."""
        ...


class PendingCall:
    """A request of ours whose answer has not come."""

    __slots__ = ("_bucket", "_connection", "future", "request")

    def __init__(
        self,
        connection: "Connection",
        request: Command,
        future: asyncio.Future[Command],
        bucket: Bucket,
    ) -> None:
        self.request = request
        self.future = future
        self._connection = connection
        self._bucket = bucket
        bucket[id(self)] = self

    def leave(self) -> None:
        """Stop the clock."""
        self._bucket.pop(id(self), None)

    def complete(self, response: Command) -> None:
        if self.future.done():
            return
        try:
            self._connection.run_response_hooks(self.request, response)
        except Exception as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(response)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def expire(self) -> None:
        self._connection.forget(self.request.opaque)
        self.fail(
            RequestTimeout(
                f"no answer from {self._connection.peer_address}"
                f" to request {self.request.code} in time"
            )
        )


class Connection(asyncio.Protocol):
    """A connection to one peer, made by a server or a client.

    `attributes` is for the programs above, which know whom they talk to.
    """

    def __init__(
        self,
        routes: Routes,
        *,
        deadlines: Deadlines,
        limits: ConnectionLimits,
        hooks: Sequence[RpcHook] = (),
        on_connect: Callable[["Connection"], None] | None = None,
    ) -> None:
        self.attributes: dict[str, Any] = {}
        self.peer: tuple[str, int] = ("", 0)
        self.peer_address = ""
        self.local: tuple[str, int] = ("", 0)
        self.idle_rounds = 0  # counted by the idle scan, set back by every read and write
        self._routes = routes
        self._deadlines = deadlines
        self._limits = limits
        self._hooks = tuple(hooks)
        self._on_connect = on_connect
        self._close_callbacks: list[Callable[[Connection], None]] = []
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._closed = self._loop.create_future()
        self._splitter = FrameSplitter(limits.frame_limit)
        self._backlog: deque[Command] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: dict[int, Waiting] = {}
        self._out: list[Buffer] = []
        self._out_size = 0
        self._in_turn = False
        self._flush_scheduled = False
        self._read_stops = 0
        self._write_paused = False
        self._is_finished = False  # what still comes is dropped
        self._drained: asyncio.Future[None] | None = None

    # -- for the programs above -----------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def is_write_paused(self) -> bool:
        """Whether the peer has a lot to read already; see `writable`."""
        return self._write_paused

    @property
    def pending_calls(self) -> int:
        """Requests of ours that wait for their answer."""
        return len(self._pending)

    @property
    def running_handlers(self) -> int:
        """Requests of the peer that asynchronous handlers are working on."""
        return len(self._tasks)

    def on_close(self, callback: Callable[["Connection"], None]) -> None:
        """Have something called when the connection is gone; at once if it already is."""
        if self._closed.done():
            callback(self)
        else:
            self._close_callbacks.append(callback)

    def send(self, command: Command) -> None:
        """Send a command and forget it; a closed connection swallows it.

        Inside a turn it leaves with the turn's replies, otherwise with whatever else is
        sent in this round of the loop.
        """
        if self.is_closing or self._is_finished:
            return
        self._out_size += command.encode_into(self._out)
        if not self._in_turn and not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def start_call(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Send a request; the future gets the response, or ConnectionLost or RequestTimeout."""
        future: asyncio.Future[Command] = self._loop.create_future()
        if self.is_closing:
            raise ConnectionLost(f"connection to {self.peer_address} is closed")
        if len(self._pending) >= self._limits.calls:
            raise TooManyRequests(f"{len(self._pending)} requests to {self.peer_address} pending")
        for hook in self._hooks:
            hook.before_request(self.peer_address, command)
        if command.opaque in self._pending:
            raise RemotingError(f"request {command.opaque} is already under way")
        self._pending[command.opaque] = PendingCall(
            self, command, future, self._deadlines.bucket(timeout_s)
        )
        self.send(command)
        return future

    def start_frame(self, opaque: int, head: bytes, body: Buffer, waiting: Waiting) -> bool:
        """Send a request that its sender has encoded; `waiting` gets the answer.

        For those who send thousands of alike requests a second, and write them from a
        template. No hook sees them: look at `has_hooks` first. False when it cannot be sent
        now: the connection is closing, or full, or as many calls wait as may.
        """
        pending = self._pending
        if self._write_paused or self.is_closing or len(pending) >= self._limits.calls:
            return False
        pending[opaque] = waiting
        self._out.append(head)
        self._out.append(body)
        self._out_size += len(head) + len(body)
        if not self._in_turn and not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)
        return True

    @property
    def deadlines(self) -> Deadlines:
        """Where whoever waits enters when to give up."""
        return self._deadlines

    @property
    def has_hooks(self) -> bool:
        return bool(self._hooks)

    async def call(self, command: Command, timeout_s: float = 3.0) -> Command:
        """Send a request and wait for the response."""
        future = self.start_call(command, timeout_s)
        try:
            return await future
        except asyncio.CancelledError:
            self.forget(command.opaque)
            raise

    def call_oneway(self, command: Command) -> None:
        """Send a request that nobody answers."""
        command.flag |= ONEWAY_FLAG
        for hook in self._hooks:
            hook.before_request(self.peer_address, command)
        self.send(command)

    async def writable(self) -> None:
        """Wait until the peer has read most of what it was sent."""
        while self._write_paused and not self.is_closing:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def forget(self, opaque: int) -> None:
        """Give up waiting for an answer; it is dropped if it still comes."""
        call = self._pending.pop(opaque, None)
        if call is not None:
            call.leave()

    def close(self) -> None:
        """Close after what was sent has been written."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """Close without waiting for anything."""
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        """Wait until the connection is gone."""
        await asyncio.shield(self._closed)

    async def finish(self) -> None:
        """Take no more requests, answer those that were accepted, close.

        A socket that is closed with something unread in it is reset, and the peer may lose
        answers it has not read. So the peer is first told that nothing more will come, and
        what it still sends is read and dropped until it hangs up.
        """
        self._stop_reading(_STOPPING)
        while (self._tasks or self._backlog) and not self.is_closing:
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            else:
                await self.writable()
                await asyncio.sleep(0)
        if not self.is_closing:
            assert self._transport is not None
            self._flush()
            self._is_finished = True
            self._read_stops = 0
            self._transport.resume_reading()
            self._transport.write_eof()
            while not self._closed.done():
                await asyncio.wait([self._closed], timeout=_LINGER_S)
                if self._transport.get_write_buffer_size() == 0:
                    break
            self.close()
        await self.closed()

    def __repr__(self) -> str:
        return f"<connection to {self.peer_address}>"

    # -- called by the event loop ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "writelines")
        self._transport = transport  # type: ignore[assignment]
        self.peer = _endpoint(transport.get_extra_info("peername"))
        self.local = _endpoint(transport.get_extra_info("sockname"))
        self.peer_address = f"{self.peer[0]}:{self.peer[1]}"
        transport.set_write_buffer_limits(high=self._limits.write_high_water)  # type: ignore[attr-defined]
        if self._on_connect is not None:
            self._on_connect(self)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        self._backlog.clear()
        self._out.clear()
        self._out_size = 0
        pending = list(self._pending.values())
        self._pending.clear()
        reason = f": {error}" if error is not None else ""
        for call in pending:
            call.leave()
            call.fail(
                ConnectionLost(
                    f"connection to {self.peer_address} lost before the request"
                    f" was answered{reason}"
                )
            )
        self._wake_writers()
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                logger.exception("closing %s", self.peer_address)

    def data_received(self, data: bytes) -> None:
        self.idle_rounds = 0
        if self._is_finished:
            return
        splitter = self._splitter
        commands = splitter.feed(data)
        if commands:
            if self._backlog:
                self._backlog.extend(commands)
            else:
                self._turn(commands)
        if splitter.error is not None:
            self._refuse(splitter.error)

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._limits.stops_for_readers:
            self._stop_reading(_PEER_DOES_NOT_READ)

    def resume_writing(self) -> None:
        self._write_paused = False
        self._wake_writers()
        if self._limits.stops_for_readers:
            self._start_reading(_PEER_DOES_NOT_READ)

    # -- one turn -------------------------------------------------------------------------

    def _turn(self, commands: list[Command]) -> None:
        """Handle what came in, then write what there is to say."""
        self._in_turn = True
        try:
            at = 0
            count = len(commands)
            while at < count:
                if self._read_stops & (_HANDLERS_BUSY | _PEER_DOES_NOT_READ):
                    self._backlog.extend(commands[at:])
                    break
                command = commands[at]
                if command.flag & RESPONSE_FLAG:
                    self._complete(command)
                    at += 1
                    continue
                route = self._routes.get(command.code)
                if isinstance(route, RunRoute):
                    end = _end_of_run(commands, at)
                    self._handle_run(route, commands[at:end])
                    at = end
                else:
                    self._handle(route, command)
                    at += 1
                if self._out_size >= _TURN_SIZE:
                    self._flush()
        finally:
            self._in_turn = False
        if self._out:
            self._flush()

    def _handle(self, route: Handler | None, request: Command) -> None:
        try:
            for hook in self._hooks:
                hook.before_request(self.peer_address, request)
            if route is None:
                raise RequestRejected(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    f" request type {request.code} not supported",
                )
            reply = route(request, self)
        except Exception as error:
            reply = self._refusal(request, error)
        if reply is None:
            return
        if isinstance(reply, Command):
            self._answer(request, reply)
        else:
            task = self._loop.create_task(self._finish(request, reply))
            self._tasks.add(task)
            task.add_done_callback(self._finished)
            if len(self._tasks) >= self._limits.handlers:
                self._stop_reading(_HANDLERS_BUSY)

    async def _finish(self, request: Command, awaitable: Awaitable[Command | None]) -> None:
        try:
            reply = await awaitable
        except Exception as error:
            reply = self._refusal(request, error)
        if reply is not None:
            self._answer(request, reply)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._read_stops & _HANDLERS_BUSY and len(self._tasks) < self._limits.handlers:
            self._start_reading(_HANDLERS_BUSY)

    def _handle_run(self, route: RunRoute, requests: list[Command]) -> None:
        if self._hooks:
            requests = self._accepted(requests)
        if not requests:
            return
        try:
            replies = route.handle_run(requests, self)
        except Exception as error:
            for request in requests:
                self._answer(request, self._refusal(request, error))
            return
        if not replies:
            return
        if not self._hooks:
            out = self._out
            size = 0
            for reply in replies:
                size += reply.encode_into(out)
            self._out_size += size
        else:
            by_opaque = {request.opaque: request for request in requests}
            for reply in replies:
                self._answer(by_opaque[reply.opaque], reply)

    def _accepted(self, requests: list[Command]) -> list[Command]:
        """Those the hooks let through; the others are answered."""
        accepted = []
        for request in requests:
            try:
                for hook in self._hooks:
                    hook.before_request(self.peer_address, request)
            except Exception as error:
                self._answer(request, self._refusal(request, error))
            else:
                accepted.append(request)
        return accepted

    def _answer(self, request: Command, reply: Command) -> None:
        try:
            for hook in self._hooks:
                hook.after_response(self.peer_address, request, reply)
        except Exception as error:
            reply = self._refusal(request, error)
        if not request.is_oneway:
            self.send(reply)

    def _refusal(self, request: Command, error: Exception) -> Command:
        """The one place where an exception becomes a response code."""
        if isinstance(error, RequestRejected):
            return request.reply(code=error.code, remark=error.remark)
        logger.error("request %d from %s failed", request.code, self.peer_address, exc_info=error)
        return request.reply(
            code=ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}"
        )

    def _complete(self, response: Command) -> None:
        call = self._pending.pop(response.opaque, None)
        if call is None:
            logger.debug("late or unknown answer from %s: %r", self.peer_address, response.opaque)
            return
        call.leave()
        call.complete(response)

    def run_response_hooks(self, request: Command, response: Command) -> None:
        """Show the hooks the answer to a request of ours."""
        for hook in self._hooks:
            hook.after_response(self.peer_address, request, response)

    def _refuse(self, error: BadFrame) -> None:
        if not self.is_closing:
            logger.warning("closing the connection to %s: %s", self.peer_address, error)
            self.close()

    # -- reading and writing --------------------------------------------------------------

    def _flush(self) -> None:
        self._flush_scheduled = False
        out = self._out
        if not out:
            return
        size = self._out_size
        self._out = []
        self._out_size = 0
        self.idle_rounds = 0
        transport = self._transport
        assert transport is not None
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOINED_SIZE:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)

    def _stop_reading(self, reason: int) -> None:
        if not self._read_stops and self._transport is not None:
            self._transport.pause_reading()
        self._read_stops |= reason

    def _start_reading(self, reason: int) -> None:
        """Take one reason away: first what waits is handled, then reading goes on."""
        self._read_stops &= ~reason
        if self._backlog and not self._read_stops & ~_STOPPING:
            waiting = list(self._backlog)
            self._backlog.clear()
            self._turn(waiting)
        if not self._read_stops and not self.is_closing:
            assert self._transport is not None
            self._transport.resume_reading()

    def _wake_writers(self) -> None:
        if self._drained is not None:
            if not self._drained.done():
                self._drained.set_result(None)
            self._drained = None


def _end_of_run(commands: list[Command], start: int) -> int:
    """Where the requests of one code that begin at `start` end."""
    code = commands[start].code
    end = start + 1
    while end < len(commands):
        command = commands[end]
        if command.code != code or command.flag & RESPONSE_FLAG:
            break
        end += 1
    return end


def _endpoint(address: Any) -> tuple[str, int]:
    """Host and port of whatever kind of socket address it is."""
    if isinstance(address, tuple) and len(address) >= 2:
        return address[0], address[1]
    return str(address or ""), 0
