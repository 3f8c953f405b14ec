"""Asking the pages of a server, with nothing but a socket: what is sent is part of the tests."""

import asyncio
import json
from typing import Any, NamedTuple


class Page(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(url: str, path: str = "/metrics", method: str = "GET", within_s: float = 20) -> Page:
    """A page of the server whose metrics are at `url`."""
    host, _, port = url.removeprefix("http://").partition("/")[0].rpartition(":")
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    return read_page(await exchange(host, int(port), head, within_s))


async def exchange(host: str, port: int, sent: bytes, within_s: float = 20) -> bytes:
    """Everything a server says to these bytes until it hangs up."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(sent)
        async with asyncio.timeout(within_s):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def read_page(said: bytes) -> Page:
    head, _, body = said.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Page(int(first.split()[1]), headers, body)
