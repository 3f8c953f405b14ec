"""A small HTTP server for a few pages that take no input.

Anybody may come, so little is taken from anybody: one GET or HEAD per connection, a head of
some kilobytes within some seconds, and so many connections at a time. A client that does not
read its answer is hung up on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

_HEAD_LIMIT: Final = 8 * 1024
_HEAD_WITHIN_S: Final = 5.0
_ANSWER_WITHIN_S: Final = 60.0
_CONNECTIONS: Final = 64


class Answer(NamedTuple):
    """What a page says."""

    status: HTTPStatus
    content_type: str
    body: list[bytes]
    """In pieces, so that nobody has to put together what is sent apart."""


Page = Callable[[], Awaitable[Answer]]


class PageServer:
    """Serves pages by their paths. Owned by the loop."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None, "not started"
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=_HEAD_LIMIT)

    async def stop(self) -> None:
        """Stop listening, and hang up on whoever is still there."""
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: asyncio would keep the task to itself.
        if len(self._tasks) >= _CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_WITHIN_S):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                await self._answer(head, writer)
                writer.write_eof()
                await reader.read(1)  # until the client hangs up, or it would lose the rest
        except asyncio.LimitOverrunError:
            writer.write(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            pass  # it sent nothing, read nothing, or is gone
        except Exception:
            logger.exception("a page failed")
        finally:
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            writer.write(_refusal(HTTPStatus.BAD_REQUEST))
            return
        method, target, _ = words
        if method not in (b"GET", b"HEAD"):
            writer.write(_refusal(HTTPStatus.METHOD_NOT_ALLOWED))
            return
        page = self._pages.get(target.partition(b"?")[0].decode("latin-1"))
        if page is None:
            writer.write(_refusal(HTTPStatus.NOT_FOUND))
            return
        answer = await page()
        length = sum(map(len, answer.body))
        writer.write(_head(answer.status, answer.content_type, length))
        if method == b"HEAD":
            return
        for piece in answer.body:
            writer.write(piece)
            await writer.drain()


def _head(status: HTTPStatus, content_type: str, length: int) -> bytes:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {length}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _refusal(status: HTTPStatus) -> bytes:
    text = f"{status.phrase}\n".encode()
    return _head(status, "text/plain; charset=utf-8", len(text)) + text
