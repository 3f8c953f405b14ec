# cython: annotation_typing=False
"""From requests to replies: finds the handler, runs the hooks, turns errors into codes.

Compiled where possible (handling.pxd gives the types).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from rocketq.common.errors import RocketqError
from rocketq.remoting.codes import ResponseCode, Version
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.link.handlers import Handler, Handlers, RpcHook, RunHandler
from rocketq.remoting.link.meter import RUNS_TIMED, RequestMeter
from rocketq.remoting.wire.command import RESPONSE_FLAG, Command

if TYPE_CHECKING:
    from rocketq.remoting.link.connection import Connection

_RESPONSE = RESPONSE_FLAG

# So many requests are handed over together: then somebody looks at the clock.
_LONGEST_RUN = 128

# So many bytes of requests may asynchronous handlers have in their hands, for one connection.
_BYTES_AT_WORK = 32 * 1024 * 1024

logger = logging.getLogger(__name__)


class RequestHandling:
    """Handles the requests of one connection.

    A handler that answers at once costs no task. The others become tasks, of which there
    may be `limit` at a time; `on_room` is called when there is room again.
    """

    def __init__(
        self,
        connection: "Connection",
        handlers: Handlers,
        hooks: Sequence[RpcHook],
        *,
        limit: int,
        on_room: Callable[[], None],
        meter: RequestMeter | None = None,
    ) -> None:
        self._connection = connection
        self._handlers = handlers
        self._hooks = tuple(hooks)
        self._limit = limit
        self._on_room = on_room
        self._tasks: dict[asyncio.Task[None], int] = {}  # and how large their requests are
        self._bytes_at_work = 0
        self.is_stranger = False  # until the hooks have let something through
        self._meter = meter
        self._sent_away: frozenset[int] | None = None
        self.sent_away_count = 0

    @property
    def running(self) -> int:
        """How many handlers are at work."""
        return len(self._tasks)

    @property
    def is_full(self) -> bool:
        """Whether no more handlers may be started."""
        return len(self._tasks) >= self._limit or self._bytes_at_work >= _BYTES_AT_WORK

    async def idle(self) -> None:
        """Wait until the handlers at work now are done."""
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def cancel(self) -> None:
        """Stop the handlers at work; their requests stay unanswered."""
        for task in self._tasks:
            task.cancel()

    def handle(self, commands: list[Command], at: int) -> int:
        """Handle the request at a place of a list, or the run that begins there; where it ends."""
        request = commands[at]
        if self._sent_away is not None and self._is_sent_away(request):
            return at + 1
        handler = self._handlers.get(request.code)
        if isinstance(handler, RunHandler):
            end = _end_of_run(commands, at)
            self._handle_run(handler, commands if end - at == len(commands) else commands[at:end])
            return end
        self._handle_one(handler, request)
        return at + 1

    # Going away

    def send_away(self, codes: frozenset[int]) -> None:
        """Answer requests with these codes by "go away" from now on, if that is understood."""
        self._sent_away = codes

    def _is_sent_away(self, request: Command) -> bool:
        assert self._sent_away is not None
        if request.code not in self._sent_away or request.is_oneway:
            return False
        if request.version <= Version.V5_3_1:
            return False  # it would take it for an error
        self.sent_away_count += 1
        self._connection.send(request.reply(code=ResponseCode.GO_AWAY, remark="please go away"))
        return True

    # One request

    def _handle_one(self, handler: Handler | None, request: Command) -> None:
        weight = 0 if self._meter is None else self._meter.weight()
        began = time.perf_counter() if weight else 0.0
        try:
            for hook in self._hooks:
                hook.before_request(self._connection.peer_address, request)
            if self.is_stranger:
                self._admit()
            if handler is None:
                raise RequestRejected(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    f" request type {request.code} not supported",
                )
            reply = handler(request, self._connection)
        except Exception as error:
            reply = self._refusal(request, error)
        if reply is None:
            return
        if isinstance(reply, Command):
            if weight:
                self._time_one(request, reply, began, weight)
            self._answer(request, reply)
        else:
            finish = self._finish(request, reply, began, weight)
            task = asyncio.get_running_loop().create_task(finish)
            size = len(request.body)
            self._tasks[task] = size
            self._bytes_at_work += size
            task.add_done_callback(self._finished)

    async def _finish(
        self, request: Command, awaitable: Awaitable[Command | None], began: float, weight: int
    ) -> None:
        try:
            reply = await awaitable
        except Exception as error:
            reply = self._refusal(request, error)
        if reply is not None:
            if weight:
                self._time_one(request, reply, began, weight)
            self._answer(request, reply)

    def _time_one(self, request: Command, reply: Command, began: float, weight: int) -> None:
        assert self._meter is not None
        passed = time.perf_counter() - began
        self._meter.observe(request.code, reply.code, request.is_oneway, passed, weight)

    def _finished(self, task: asyncio.Task[None]) -> None:
        was_full = self.is_full
        self._bytes_at_work -= self._tasks.pop(task)
        if was_full and not self.is_full:
            self._on_room()

    # A run of requests

    def _handle_run(self, handler: RunHandler, requests: list[Command]) -> None:
        if self._hooks:
            requests = self._accepted(requests)
            if not requests:
                return
        is_timed = self._meter is not None and self._meter.is_run_timed()
        began = time.perf_counter() if is_timed else 0.0
        try:
            replies = handler.handle_run(requests, self._connection)
        except Exception as error:
            for request in requests:
                self._answer(request, self._refusal(request, error))
            return
        if is_timed:
            self._time_run(requests, replies, time.perf_counter() - began)
        if not replies:
            return
        if self._hooks:
            by_opaque = {request.opaque: request for request in requests}
            for reply in replies:
                self._answer(by_opaque[reply.opaque], reply)
        else:
            self._connection.send_all(replies)

    def _time_run(
        self, requests: list[Command], replies: list[Command] | None, passed: float
    ) -> None:
        """Most answers of a run are written by its handler; those it returns say what they are."""
        assert self._meter is not None
        code, plain = requests[0].code, len(requests)
        for reply in replies or ():
            self._meter.observe(code, reply.code, False, passed, RUNS_TIMED)
            plain -= 1
        if plain > 0:
            self._meter.observe(code, 0, False, passed, plain * RUNS_TIMED)

    def _accepted(self, requests: list[Command]) -> list[Command]:
        """Those the hooks let through; the others are answered."""
        accepted = []
        for request in requests:
            try:
                for hook in self._hooks:
                    hook.before_request(self._connection.peer_address, request)
            except Exception as error:
                self._answer(request, self._refusal(request, error))
            else:
                accepted.append(request)
        if accepted and self.is_stranger:
            self._admit()
        return accepted

    def _admit(self) -> None:
        self.is_stranger = False
        self._connection.admit()

    # Replies

    def _answer(self, request: Command, reply: Command) -> None:
        try:
            for hook in self._hooks:
                hook.after_response(self._connection.peer_address, request, reply)
        except Exception as error:
            reply = self._refusal(request, error)
        if not request.is_oneway:
            self._connection.send(reply)

    def _refusal(self, request: Command, error: Exception) -> Command:
        return refusal(request, error, self._connection.peer_address)


def refusal(request: Command, error: Exception, peer: str) -> Command:
    """The one place where an exception becomes a response code."""
    if isinstance(error, RequestRejected):
        return request.reply(code=error.code, remark=error.remark)
    if isinstance(error, RocketqError):
        # Foreseen, if not by the handler: a body that cannot be read, for example.
        logger.warning("request %d from %s: %s", request.code, peer, error)
    else:
        logger.error("request %d from %s failed", request.code, peer, exc_info=error)
    is_passing = isinstance(error, RocketqError) and error.retriable
    code = ResponseCode.SYSTEM_BUSY if is_passing else ResponseCode.SYSTEM_ERROR
    return request.reply(code=code, remark=f"{type(error).__name__}: {error}")


def _end_of_run(commands: list[Command], start: int) -> int:
    """Where the requests of one code that begin at `start` end."""
    code = commands[start].code
    end = start + 1
    limit = min(len(commands), start + _LONGEST_RUN)
    while end < limit:
        command = commands[end]
        if command.code != code or command.flag & _RESPONSE:
            break
        end += 1
    return end
