"""A server that takes certain requests and remembers them, in a thread of its own."""

import asyncio
import threading
from types import TracebackType
from typing import Self

from rocketq.remoting import Command, Connection, RemotingServer
from rocketq.remoting.headers.header import RequestHeader


class StandIn:
    """For the length of a block."""

    def __init__(self, *headers: type[RequestHeader]) -> None:
        self.taken: list[RequestHeader] = []
        self.address = ""
        self._headers = headers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: RemotingServer | None = None

    def _take(self, request: Command, connection: Connection) -> Command:
        (kind,) = (each for each in self._headers if request.code == each.CODE)
        self.taken.append(request.header(kind))
        return request.reply()

    async def _start(self) -> None:
        self._server = RemotingServer({each.CODE: self._take for each in self._headers})
        await self._server.start("127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        asyncio.run_coroutine_threadsafe(self._server.stop(0.1), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
