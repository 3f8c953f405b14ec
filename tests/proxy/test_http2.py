"""HTTP/2 frame by frame, as no well-behaved client sends it."""

import asyncio
import gzip
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketq.proxy.http2.connection import PREFACE
from rocketq.proxy.http2.hpack import HeaderDecoder, literal
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.protocol.pool import SERVICE
from rocketq.remoting import Command
from rocketq.remoting.headers import GetConsumerConnectionList
from tests.proxy.harness import HERE, Place, place
from tests.waiting import eventually

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    *(0, 1, 3, 4, 6),
    *(7, 8, 9),
)
END_STREAM, END_HEADERS, PADDED, PRIORITY = 1, 4, 8, 32


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path, HERE, proxy={"grpc_max_inbound_message_size": 1 << 20}) as running:
        yield running


class Raw:
    """Frames over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.decoder = HeaderDecoder()

    @classmethod
    async def open(cls, at: Place, settings: bytes = b"") -> "Raw":
        raw = cls(*await asyncio.open_connection("127.0.0.1", at.server.port))
        raw._writer.write(PREFACE)
        raw.write(SETTINGS, 0, 0, settings)
        return raw

    def write(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        head = len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
        self._writer.write(head + body)

    def write_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def read(self) -> tuple[int, int, int, bytes]:
        async with asyncio.timeout(30):
            head = await self._reader.readexactly(9)
            body = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        return head[3], head[4], int.from_bytes(head[5:], "big"), body

    async def until(self, kind: int, *, flags: int = 0) -> tuple[int, bytes]:
        """The next frame of a kind that has some flags: its stream and body."""
        while True:
            found, its_flags, stream, body = await self.read()
            if found == kind and its_flags & flags == flags:
                return stream, body

    async def is_closed(self) -> bool:
        async with asyncio.timeout(30):
            while await self._reader.read(65536):
                pass
        return True

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def headers(rpc: str = "QueryRoute", **more: str) -> bytes:
    values = {
        ":method": "POST",
        ":path": f"/{SERVICE}/{rpc}",
        "content-type": "application/grpc",
        "x-mq-client-id": "raw",
        **more,
    }
    return b"".join(literal(name, value) for name, value in values.items())


def message(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return b"\0" + struct.pack(">I", len(data)) + data


ROUTE = message(pb.QueryRouteRequest(topic=pb.Resource(name="unknown")))


async def answer(raw: Raw) -> Any:
    _, data = await raw.until(DATA)
    _, trailers = await raw.until(HEADERS, flags=END_STREAM)
    assert raw.decoder.decode(trailers)["grpc-status"] == "0"
    return pb.QueryRouteResponse.FromString(data[5:])


async def test_headers_and_data_in_any_pieces(at: Place) -> None:
    raw = await Raw.open(at)
    block = headers()
    raw.write(HEADERS, PRIORITY | PADDED, 1, b"\x02" + bytes(5) + block[:10] + b"\0\0")
    raw.write(CONTINUATION, 0, 1, block[10:20])
    raw.write(CONTINUATION, END_HEADERS, 1, block[20:])
    raw.write(DATA, PADDED, 1, b"\x03" + ROUTE[:2] + bytes(3))
    raw.write(DATA, 0, 1, ROUTE[2:7])
    raw.write(DATA, 0, 1, b"")
    raw.write(DATA, END_STREAM, 1, ROUTE[7:])
    assert (await answer(raw)).status.code == pb.TOPIC_NOT_FOUND
    await raw.close()


async def test_bytes_one_by_one(at: Place) -> None:
    raw = await Raw.open(at)
    whole = bytearray()
    for kind, flags, body in (
        (HEADERS, END_HEADERS, headers()),
        (DATA, END_STREAM, ROUTE),
    ):
        whole += len(body).to_bytes(3, "big") + bytes((kind, flags)) + b"\0\0\0\1" + body
    for byte in whole:
        raw.write_bytes(bytes((byte,)))
        await asyncio.sleep(0)
    assert (await answer(raw)).status.code == pb.TOPIC_NOT_FOUND
    await raw.close()


async def test_a_ping_is_answered(at: Place) -> None:
    raw = await Raw.open(at)
    raw.write(PING, 0, 0, b"12345678")
    assert await raw.until(PING, flags=1) == (0, b"12345678")
    await raw.close()


async def test_what_is_not_http2_is_hung_up_on(at: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", at.server.port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    async with asyncio.timeout(30):
        assert PREFACE not in await reader.read(-1)
    writer.close()


@pytest.mark.parametrize(
    ("kind", "flags", "stream", "body"),
    [
        (DATA, 0, 0, b"x"),  # of no stream
        (DATA, 0, 7, b"x"),  # of one that never was
        (HEADERS, END_HEADERS, 2, headers()),  # a server's number
        (HEADERS, END_HEADERS, 1, b"\x80"),  # headers that are none
        (HEADERS, END_HEADERS | PADDED, 1, b"\xff" + headers()[:20]),
        (CONTINUATION, END_HEADERS, 1, headers()),
        (WINDOW_UPDATE, 0, 0, bytes(4)),
        (WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
        (SETTINGS, 0, 0, b"123"),
        (SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"),
        (PING, 0, 0, b"1"),
        (5, 0, 1, bytes(8)),  # a push
        (HEADERS, END_HEADERS, 1, headers(many="v" * 15_500, more="w" * 900)[:16_384]),
    ],
)
async def test_what_breaks_the_rules_ends_the_connection(
    at: Place, kind: int, flags: int, stream: int, body: bytes
) -> None:
    raw = await Raw.open(at)
    raw.write(kind, flags, stream, body)
    await raw.until(GOAWAY)
    assert await raw.is_closed()
    await raw.close()


async def test_headers_without_end_are_cut_off(at: Place) -> None:
    raw = await Raw.open(at)
    raw.write(HEADERS, 0, 1, b"")
    for _ in range(10):
        raw.write(CONTINUATION, 0, 1, bytes(16_000))
    await raw.until(GOAWAY)
    await raw.close()


async def test_a_frame_too_large_ends_the_connection(at: Place) -> None:
    raw = await Raw.open(at)
    raw.write_bytes(b"\xff\xff\xff\0\0\0\0\0\1")
    await raw.until(GOAWAY)
    await raw.close()


@pytest.mark.parametrize("is_sent", [False, True])
async def test_a_message_too_large_is_refused(at: Place, is_sent: bool) -> None:
    raw = await Raw.open(at)
    raw.write(HEADERS, END_HEADERS, 1, headers())
    raw.write(DATA, 0, 1, b"\0" + struct.pack(">I", (1 << 20) + 1))
    if is_sent:
        raw.write(DATA, 0, 1, bytes(16_384))
    _, trailers = await raw.until(HEADERS, flags=END_STREAM)
    assert raw.decoder.decode(trailers)["grpc-status"] == "8"  # RESOURCE_EXHAUSTED
    await raw.close()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", "13"),
        (b"\0\0\0\0\2\xff\xff", "13"),
        (b"\1\0\0\0\1x", "12"),
        (ROUTE + ROUTE, "13"),
    ],
)
async def test_what_is_no_request_has_a_status_of_grpc(at: Place, data: bytes, status: str) -> None:
    raw = await Raw.open(at)
    raw.write(HEADERS, END_HEADERS, 1, headers())
    raw.write(DATA, END_STREAM, 1, data)
    _, trailers = await raw.until(HEADERS, flags=END_STREAM)
    assert raw.decoder.decode(trailers)["grpc-status"] == status
    await raw.close()


async def test_compressed_requests_are_read(at: Place) -> None:
    raw = await Raw.open(at)
    packed = gzip.compress(ROUTE[5:])
    raw.write(HEADERS, END_HEADERS, 1, headers(**{"grpc-encoding": "gzip"}))
    raw.write(DATA, END_STREAM, 1, b"\1" + struct.pack(">I", len(packed)) + packed)
    assert (await answer(raw)).status.code == pb.TOPIC_NOT_FOUND
    bomb = gzip.compress(bytes(2 << 20))
    raw.write(HEADERS, END_HEADERS, 3, headers(**{"grpc-encoding": "gzip"}))
    raw.write(DATA, END_STREAM, 3, b"\1" + struct.pack(">I", len(bomb)) + bomb)
    _, trailers = await raw.until(HEADERS, flags=END_STREAM)
    assert raw.decoder.decode(trailers)["grpc-status"] == "12"
    await raw.close()


async def test_no_more_is_sent_than_there_is_room_for(at: Place) -> None:
    """An answer larger than the windows comes bit by bit, as they are opened."""
    await at.create_topic("t", queues=8)
    raw = await Raw.open(at, b"\0\4\0\0\0\x0a")  # ten bytes for each stream
    raw.write(HEADERS, END_HEADERS, 1, headers())
    route = pb.QueryRouteRequest(topic=pb.Resource(name="t"))
    raw.write(DATA, END_STREAM, 1, message(route))
    await raw.until(HEADERS)
    received = b""
    while True:
        kind, flags, _, body = await raw.read()
        if kind == HEADERS and flags & END_STREAM:
            break
        assert kind == DATA
        assert len(body) <= 10
        received += body
        raw.write(WINDOW_UPDATE, 0, 1, b"\0\0\0\x07")
    assert len(pb.QueryRouteResponse.FromString(received[5:]).message_queues) == 8
    await raw.close()


async def test_a_peer_that_does_not_read_is_bounded(at: Place) -> None:
    """Nobody else waits for it, and what is kept for it is limited."""
    await at.create_topic("t", queues=1)
    client = at.client()
    for _ in range(4):
        await client.send("t", bytes(200_000))
    raw = await Raw.open(at, b"\0\4\0\0\0\0")  # no room at all
    for number in range(1, 21, 2):
        raw.write(HEADERS, END_HEADERS, number, headers("PullMessage"))
        pull = pb.PullMessageRequest(
            group=pb.Resource(name="g"),
            message_queue=pb.MessageQueue(
                topic=pb.Resource(name="t"), broker=pb.Broker(name="broker-t")
            ),
            batch_size=32,
        )
        raw.write(DATA, END_STREAM, number, message(pull))
    await raw.until(HEADERS)
    assert (await client.send("t", b"other")).status.code == pb.OK
    await raw.close()


async def test_calls_given_up_by_the_thousand_end_the_connection(at: Place) -> None:
    raw = await Raw.open(at)
    try:
        for number in range(1, 60_001, 2):
            raw.write(HEADERS, END_HEADERS, number, headers())
            raw.write(RST_STREAM, 0, number, b"\0\0\0\x08")
            if number % 1000 == 1:
                await raw._writer.drain()
    except ConnectionError:
        return
    try:
        await raw.until(GOAWAY)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # hung up on while it was still sending
    await raw.close()


async def test_a_peer_that_vanishes_is_noticed(at: Place) -> None:
    """With calls under way, and without a word: its client is gone from the broker at once."""
    raw = await Raw.open(at)
    settings = at.client().consumer_settings("g", "t")
    raw.write(HEADERS, END_HEADERS, 1, headers("Telemetry"))
    raw.write(DATA, 0, 1, message(pb.TelemetryCommand(settings=settings)))
    await raw.until(DATA)
    listing = Command.request(GetConsumerConnectionList(consumer_group="g"))
    assert (await at.broker.call(listing)).code == 0
    raw.abort()

    async def is_gone() -> bool:
        again = Command.request(GetConsumerConnectionList(consumer_group="g"))
        return (await at.broker.call(again)).code != 0

    await eventually(is_gone)
