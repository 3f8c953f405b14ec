"""gRPC on streams: which path is which RPC, how a call runs, what its failures become.

A handler is an `async def` that takes a request and the call, and returns the response. A
refusal becomes the status inside the response; the status of gRPC itself is for calls that
cannot be understood at all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from rocketq.common.errors import RocketqError
from rocketq.common.numbers import parse_natural
from rocketq.proxy.http2.connection import GrpcStatus, Http2Connection, Receiver, Stream
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.protocol.pool import SERVICE
from rocketq.proxy.refusal import Refused, refusal_for

logger = logging.getLogger(__name__)

_UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_LONGEST_ID: Final = 512
_OK, _REFUSED, _FAILED = "OK", "REFUSED", "FAILED"

Unary = Callable[[Any, "Call"], Awaitable[Any]]
"""From a request to its response."""
Streaming = Callable[[Any, "Call"], Awaitable[None]]
"""The same for an RPC that answers with several messages: it sends them by itself."""
Check = Callable[[str, Any, "Call"], Awaitable[None] | None]
"""Looks at a request before its handler does; raises `Refused`."""

Observe = Callable[[str, str, float], None]
"""Told which RPC took so many seconds, and whether it was answered (`OK`) or refused."""


class Call:
    """One RPC: who calls, how long they wait, and where answers go."""

    __slots__ = (
        "_deadline",
        "began",
        "client_id",
        "connection",
        "metadata",
        "rpc",
        "stream",
        "user",
    )

    def __init__(self, rpc: str, stream: Stream, now: float) -> None:
        self.rpc = rpc
        self.began = now
        self.stream = stream
        self.connection: Http2Connection = stream.connection
        self.metadata = stream.headers
        self.client_id = self.metadata.get("x-mq-client-id", "").strip()
        self.user: str | None = None
        timeout_s = _timeout_s(self.metadata.get("grpc-timeout"))
        self._deadline = None if timeout_s is None else now + timeout_s

    def remaining_s(self, now: float) -> float | None:
        """How much longer the client waits; None for ever."""
        return None if self._deadline is None else self._deadline - now

    @property
    def peer(self) -> tuple[str, int]:
        return self.connection.peer or ("", 0)

    def check_client_id(self) -> None:
        if not self.client_id or len(self.client_id) > _LONGEST_ID:
            raise Refused(pb.CLIENT_ID_REQUIRED, "x-mq-client-id is missing, or too long")


class Rpcs:
    """The RPCs of one server. `open` is told of every stream."""

    def __init__(self, check: Check, observe: Observe | None = None) -> None:
        """`observe` is told of every call that has ended."""
        self._check = check
        self._observe = observe
        self._openers: dict[str, Callable[[Stream, str], Receiver]] = {}
        self._running: set[asyncio.Task[None]] = set()

    def unary(self, name: str, handler: Unary) -> None:
        request_class, response_class = pb.rpcs[name]

        async def run(request: Any, call: Call) -> None:
            result = _OK
            try:
                await self.checked(name, request, call)
                response = await handler(request, call)
            except RocketqError as error:
                response = response_class(status=refusal_for(error).status)
                result = _REFUSED
            except Exception as error:
                logger.exception("%s of %s failed", name, call.client_id)
                response = response_class(status=unforeseen(error))
                result = _FAILED
            call.stream.send_last(response.SerializeToString())
            self._ended(call, result)

        self._add(name, lambda stream, rpc: _Single(self, rpc, stream, request_class, run))

    def streaming(self, name: str, handler: Streaming, refuse: Callable[[Call, Any], None]) -> None:
        """`refuse` answers with a status."""
        request_class = pb.rpcs[name][0]

        async def run(request: Any, call: Call) -> None:
            result = _OK
            try:
                await self.checked(name, request, call)
                await handler(request, call)
            except RocketqError as error:
                refuse(call, refusal_for(error).status)
                result = _REFUSED
            except Exception as error:
                logger.exception("%s of %s failed", name, call.client_id)
                refuse(call, unforeseen(error))
                result = _FAILED
            call.stream.finish()
            self._ended(call, result)

        self._add(name, lambda stream, rpc: _Single(self, rpc, stream, request_class, run))

    def both_ways(self, name: str, opener: Callable[[Call], Receiver]) -> None:
        """An RPC whose messages in either direction come when they like."""
        self._add(name, lambda stream, rpc: opener(self.call(rpc, stream)))

    def _add(self, name: str, opener: Callable[[Stream, str], Receiver]) -> None:
        self._openers[f"/{SERVICE}/{name}"] = opener

    # Calls

    def open(self, stream: Stream) -> Receiver | None:
        """A new stream: find its RPC."""
        path = stream.headers.get(":path", "")
        opener = self._openers.get(path)
        if opener is None:
            stream.finish(GrpcStatus.UNIMPLEMENTED, f"Method not found: {path[:200]}")
            return None
        if not stream.headers.get("content-type", "").startswith("application/grpc"):
            stream.finish(GrpcStatus.INTERNAL, "content-type is not application/grpc")
            return None
        return opener(stream, path.rpartition("/")[2])

    def call(self, name: str, stream: Stream) -> Call:
        return Call(name, stream, asyncio.get_running_loop().time())

    async def checked(self, name: str, request: Any, call: Call) -> None:
        waiting = self._check(name, request, call)
        if waiting is not None:
            await waiting
        call.check_client_id()

    def _ended(self, call: Call, result: str) -> None:
        if self._observe is not None:
            now = asyncio.get_running_loop().time()
            self._observe(call.rpc, result, now - call.began)

    def start(self, work: Any) -> asyncio.Task[None]:
        """Run something that nobody waits for."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def stop(self) -> None:
        """End what is still running."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class _Single:
    """A call with one request."""

    __slots__ = ("_call", "_data", "_request_class", "_rpcs", "_run", "_task")

    def __init__(
        self,
        rpcs: Rpcs,
        rpc: str,
        stream: Stream,
        request_class: Any,
        run: Callable[[Any, Call], Awaitable[None]],
    ) -> None:
        self._rpcs = rpcs
        self._call = rpcs.call(rpc, stream)
        self._request_class = request_class
        self._run = run
        self._data: bytes | None = None
        self._task: asyncio.Task[None] | None = None

    def message(self, data: bytes) -> None:
        if self._data is not None:
            self._call.stream.finish(GrpcStatus.INTERNAL, "more than one request")
        self._data = data

    def ended(self) -> None:
        stream = self._call.stream
        if self._data is None:
            stream.finish(GrpcStatus.INTERNAL, "no request")
            return
        try:
            request = self._request_class.FromString(self._data)
        except DecodeError as error:
            stream.finish(GrpcStatus.INTERNAL, f"a request that cannot be read: {error}")
            return
        self._data = b""
        self._task = self._rpcs.start(self._run(request, self._call))

    def cancelled(self) -> None:
        if self._task is not None:
            self._task.cancel()


def unforeseen(error: Exception) -> Any:
    return pb.Status(code=pb.INTERNAL_SERVER_ERROR, message=f"{type(error).__name__}: {error}")


def _timeout_s(text: str | None) -> float | None:
    """`20S`, `3000m` and so on; what cannot be read counts as none."""
    if not text or len(text) > 9:
        return None
    number = parse_natural(text[:-1])
    unit_s = _UNITS_S.get(text[-1])
    return None if number is None or unit_s is None else number * unit_s
