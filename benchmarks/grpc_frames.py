"""Calls of gRPC as frames of HTTP/2, made once: a client that costs little."""

import asyncio
import struct
import time
from collections.abc import Callable
from typing import Any, Final

from rocketq.proxy.http2.connection import PREFACE
from rocketq.proxy.http2.hpack import literal
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.protocol.pool import SERVICE

BODY: Final = b"x" * 128
_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 4, 6, 7, 8


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def header_block(rpc: str, client_id: str, timeout: str = "30S") -> bytes:
    """What an official client sends with each call, uncompressed."""
    values = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{SERVICE}/{rpc}",
        ":authority": "benchmark",
        "te": "trailers",
        "content-type": "application/grpc",
        "grpc-timeout": timeout,
        "x-mq-client-id": client_id,
        "x-mq-language": "GO",
        "x-mq-client-version": "5.1.3",
        "x-mq-protocol": "v2",
        "x-mq-request-id": "00000000-0000-0000-0000-000000000000",
        "x-mq-date-time": "20260101T000000Z",
    }
    return b"".join(literal(name, value) for name, value in values.items())


def message(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return b"\0" + struct.pack(">I", len(data)) + data


class Wire(asyncio.Protocol):
    """One connection: calls by number, `on_end` told of each that has ended, with its data."""

    def __init__(self, on_end: Callable[["Wire", int, bytes], None]) -> None:
        self._on_end = on_end
        self._next = 1
        self._rest = b""
        self._data: dict[int, bytes] = {}
        self._unread = 0
        self.failed = 0
        self.transport: Any = None
        self.on_data: Callable[[Wire, int, bytes], None] | None = None

    @classmethod
    async def open(cls, target: str, on_end: Callable[["Wire", int, bytes], None]) -> "Wire":
        host, port = target.rsplit(":", 1)
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(lambda: cls(on_end), host, int(port))
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        window = struct.pack(">HI", 4, 1 << 30)
        self.transport.write(
            PREFACE
            + frame(_SETTINGS, 0, 0, window)
            + frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
        )

    def start(self, headers: bytes, body: bytes, *, ends: bool = True) -> int:
        number, self._next = self._next, self._next + 2
        self._data[number] = b""
        self.transport.write(
            frame(_HEADERS, 4, number, headers) + frame(_DATA, int(ends), number, body)
        )
        return number

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while len(data) - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            stop = at + 9 + size
            if stop > len(data):
                break
            self._take(
                data[at + 3],
                data[at + 4],
                int.from_bytes(data[at + 5 : at + 9], "big"),
                data[at + 9 : stop],
            )
            at = stop
        self._rest = data[at:]

    def _take(self, kind: int, flags: int, number: int, body: bytes) -> None:
        if kind == _DATA:
            self._data[number] = self._data.get(number, b"") + body
            self._unread += len(body)
            if self._unread > 1 << 24:
                self.transport.write(frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", self._unread)))
                self._unread = 0
            if self.on_data is not None:
                self.on_data(self, number, body)
        elif kind == _HEADERS and flags & 1:
            self._on_end(self, number, self._data.pop(number, b""))
        elif kind == _SETTINGS and not flags & 1:
            self.transport.write(frame(_SETTINGS, 1, 0, b""))
        elif kind == _PING and not flags & 1:
            self.transport.write(frame(_PING, 1, 0, body))
        elif kind == _GOAWAY:
            self.failed += 1

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


def send_request(topic: str, number: int) -> bytes:
    request = pb.SendMessageRequest()
    made = request.messages.add(topic=pb.Resource(name=topic), body=BODY)
    made.system_properties.message_id = f"01000000000000000000000000{number:08X}"
    made.system_properties.message_type = pb.NORMAL
    made.system_properties.born_timestamp.FromMilliseconds(round(time.time() * 1000))
    made.system_properties.born_host = "benchmark"
    return message(request)
