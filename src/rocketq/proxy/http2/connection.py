# cython: annotation_typing=False
"""One HTTP/2 connection of a gRPC client: an `asyncio.Protocol`, the server's side of it.

Frames come in, messages go up; messages come down, frames go out. What is answered in one turn
of the loop leaves in one write.

    stream     one call: headers, messages each way, a status at the end
    window     how many more bytes of messages may be sent, for each stream and for all of them

A peer that does not read fills its windows, then our socket; from then on nothing more is read
from it, and whoever sends messages one after the other waits in `Stream.drained`. What can
arrive is bounded too: by the size of a message, of all unfinished messages of a connection, of
headers, by the number of streams and by how fast they may be given up again.

Compiled where possible (connection.pxd gives the types).
"""

import asyncio
import logging
import struct
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.proxy.http2.hpack import BadHeaders, HeaderDecoder, HeadersTooLarge, literal

logger = logging.getLogger(__name__)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Frames: the size in three bytes, the kind, flags, the stream
_HEAD = struct.Struct(">BHBBI")
_DATA = 0
_HEADERS = 1
_PRIORITY = 2
_RST_STREAM = 3
_SETTINGS = 4
_PUSH_PROMISE = 5
_PING = 6
_GOAWAY = 7
_WINDOW_UPDATE = 8
_CONTINUATION = 9

_END_STREAM = 1
_ACK = 1
_END_HEADERS = 4
_PADDED = 8
_WITH_PRIORITY = 32

# Why a stream or a connection ends
NO_ERROR = 0
PROTOCOL_ERROR = 1
INTERNAL_ERROR = 2
FLOW_CONTROL_ERROR = 3
STREAM_CLOSED = 5
FRAME_SIZE_ERROR = 6
REFUSED_STREAM = 7
CANCEL = 8
COMPRESSION_ERROR = 9
ENHANCE_YOUR_CALM = 11

_FRAME_SIZE = 16_384
_BLOCK_LIMIT = 32 * 1024
_FIRST_WINDOW = 65_535
_STREAM_WINDOW = 1024 * 1024
_CONNECTION_WINDOW = 8 * 1024 * 1024
_LARGEST_WINDOW = 0x7FFFFFFF

# Messages that wait for room in a window, above which a sender should wait as well.
_ENOUGH_WAITING = 64 * 1024
_WRITE_HIGH_WATER = 256 * 1024

# A peer may give up so many calls more than it lets end, within one sweep.
_MOST_RESETS = 20_000

_RESPONSE_HEADERS = b"\x88" + literal("content-type", "application/grpc")
_OK_TRAILERS = literal("grpc-status", "0")


class GrpcStatus:
    """The statuses of gRPC itself that are used here."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    """How much one connection may take."""

    message_size: int = 32 * 1024 * 1024
    """The largest message."""
    unfinished: int = 64 * 1024 * 1024
    """Bytes of messages of which the rest is still to come."""
    unsent: int = 64 * 1024 * 1024
    """Bytes that wait for a peer that does not read; with more it is hung up on."""
    streams: int = 8_192
    """Calls under way at a time."""


class Receiver(Protocol):
    """What a call does with what arrives for it."""

    def message(self, data: bytes) -> None: ...

    def ended(self) -> None:
        """The peer sends no more messages."""

    def cancelled(self) -> None:
        """The peer is no longer interested, or gone."""


Opener = Callable[["Stream"], Receiver | None]
"""Told of each new call; None when it has answered already."""


class Stream:
    """One call. Its owner sends messages and finishes it."""

    def __init__(
        self, connection: "Http2Connection", number: int, headers: dict[str, str], window: int
    ) -> None:
        self.connection = connection
        self.number = number
        self.headers = headers
        self.receiver: Any = None
        self.window = window  # what we may send
        self.is_over = False  # nothing more can be sent
        self.has_ended = False  # nothing more will come
        self._are_headers_sent = False
        self._trailers: bytes | None = None  # to be sent when nothing waits any more
        self._waiting: deque[bytes] | None = None
        self._waiting_size = 0
        self._drained: asyncio.Future[None] | None = None
        self._parts: list[bytes] | None = None
        self._parts_size = 0
        self._unread = 0  # bytes since the window was last moved

    # Sending

    def send(self, message: bytes) -> None:
        """Send a message; what is over swallows it."""
        if self.is_over or self._trailers is not None:
            return
        self._send_headers()
        self._put(b"\x00" + len(message).to_bytes(4, "big") + message)

    def send_last(self, message: bytes) -> None:
        """Send the only message of an answer, and that all went well."""
        self.send(message)
        self.finish()

    def finish(self, status: int = 0, text: str = "") -> None:
        """End the call; messages that still wait go first."""
        if self.is_over or self._trailers is not None:
            return
        trailers = _OK_TRAILERS if status == 0 else _trailers(status, text)
        if not self._are_headers_sent:
            trailers = _RESPONSE_HEADERS + trailers
        if self._waiting:
            self._trailers = trailers
        else:
            self._end(trailers)

    def reset(self, error: int) -> None:
        """End the call without a word."""
        if not self.is_over:
            self.connection._write_reset(self.number, error)
            self._leave()

    async def drained(self) -> None:
        """Wait until the peer has taken most of what it was sent."""
        while self._waiting_size > _ENOUGH_WAITING and not self.is_over:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    @property
    def waiting_size(self) -> int:
        """Bytes that the peer has no room for yet."""
        return self._waiting_size

    def _send_headers(self) -> None:
        if not self._are_headers_sent:
            self._are_headers_sent = True
            self.connection._write_headers(self.number, _RESPONSE_HEADERS, False)

    def _put(self, data: bytes) -> None:
        connection = self.connection
        size = len(data)
        if self._waiting or not connection._may_write(self, size):
            if self._waiting is None:
                self._waiting = deque()
            self._waiting.append(data)
            self._waiting_size += size
            connection._note_waiting(self, size)
            self._push()
        else:
            connection._write_data(self, data, size)

    def _push(self) -> None:
        """Send of what waits as much as there is room for."""
        connection = self.connection
        waiting = self._waiting
        assert waiting is not None
        while waiting:
            room = connection._room(self)
            if room <= 0:
                break
            data = waiting[0]
            if len(data) > room:
                waiting[0] = data[room:]
                data = data[:room]
            else:
                waiting.popleft()
            self._waiting_size -= len(data)
            connection._waited(len(data))
            connection._write_data(self, data, len(data))
        if not waiting:
            connection._no_longer_waiting(self)
            if self._trailers is not None:
                self._end(self._trailers)
        if self._waiting_size <= _ENOUGH_WAITING:
            self._wake()

    def _wake(self) -> None:
        if self._drained is not None:
            if not self._drained.done():
                self._drained.set_result(None)
            self._drained = None

    def _end(self, trailers: bytes) -> None:
        self.connection._write_headers(self.number, trailers, True)
        if not self.has_ended:
            self.connection._write_reset(self.number, NO_ERROR)
        self._leave()

    def _leave(self) -> None:
        self.is_over = True
        self.connection._forget(self)
        self._wake()
        self._parts = None
        self.receiver = None

    # Receiving

    def _take(self, data: bytes) -> bool:
        """Take bytes of messages; False when one is too large."""
        if self._parts is None:
            size = len(data)
            if size >= 5:
                raw: Buffer = memory.address(data)
                end = 5 + (raw[1] << 24 | raw[2] << 16 | raw[3] << 8 | raw[4])
                if end == size:  # as nearly always: one message, all of it
                    self._hand_up(raw[0], data[5:])
                    return True
            self._parts = []
        self._parts.append(data)
        self._parts_size += len(data)
        self.connection._unfinished += len(data)
        return self._take_parts()

    def _take_parts(self) -> bool:
        connection = self.connection
        while self._parts is not None:
            if self._parts_size < 5:
                break
            if len(self._parts[0]) < 5:
                self._parts = [b"".join(self._parts)]
            first = self._parts[0]
            size = int.from_bytes(first[1:5], "big")
            if size > connection._message_limit:
                return False
            if self._parts_size < 5 + size:
                break
            whole = first if len(self._parts) == 1 else b"".join(self._parts)
            rest = whole[5 + size :]
            self._parts = [rest] if rest else None
            self._parts_size = len(rest)
            connection._unfinished -= 5 + size
            self._hand_up(whole[0], whole[5 : 5 + size])
            if self.is_over:
                break
        return True

    def _hand_up(self, flag: int, message: bytes) -> None:
        if flag:
            try:
                message = _decompressed(
                    message, self.headers.get("grpc-encoding"), self.connection._message_limit
                )
            except ValueError as error:
                self.finish(GrpcStatus.UNIMPLEMENTED, str(error))
                return
        if self.receiver is not None:
            self.receiver.message(message)


class Http2Connection:
    """A connection to one client. `attributes` is for the programs above."""

    def __init__(
        self,
        opener: Opener,
        limits: Http2Limits,
        *,
        on_connect: Callable[["Http2Connection"], None] | None = None,
    ) -> None:
        self.attributes: dict[str, Any] = {}
        self.peer: tuple[str, int] | None = None  # set before, where a proxy said who it is
        self.peer_address = ""
        self.quiet_rounds = 0  # counted by the sweep, set back by whatever arrives
        self.idle_rounds = 0  # the same of having no calls
        self.resets = 0  # calls given up, less those that ended, since the last sweep
        self._opener = opener
        self._limits = limits
        self._message_limit = limits.message_size
        self._on_connect = on_connect
        self._close_callbacks: list[Callable[[Http2Connection], None]] = []
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._streams: dict[int, Stream] = {}
        self._last_stream = 0
        self._decoder = HeaderDecoder()
        self._rest = b""
        self._has_preface = False
        self._block: list[bytes] | None = None
        self._block_size = 0
        self._block_stream = 0
        self._block_flags = 0
        self._window = _FIRST_WINDOW
        self._stream_window = _FIRST_WINDOW
        self._frame_size = _FRAME_SIZE
        self._unread = 0
        self._unfinished = 0
        self._waiting: dict[Stream, None] = {}
        self._waiting_size = 0
        self._out: list[bytes] = []
        self._in_turn = False
        self._flush_scheduled = False
        self._is_write_paused = False
        self._is_going_away = False
        self._closed: asyncio.Future[None] = self._loop.create_future()

    # What it is

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def transport(self) -> Any:
        return self._transport

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    def __repr__(self) -> str:
        return f"<gRPC connection of {self.peer_address}>"

    # The end

    def on_close(self, callback: Callable[["Http2Connection"], None]) -> None:
        """Have something called when the connection is gone."""
        self._close_callbacks.append(callback)

    def go_away(self, error: int = NO_ERROR, why: str = "") -> None:
        """Take no more calls; those under way may end."""
        if not self._is_going_away and not self.is_closing:
            self._is_going_away = True
            body = self._last_stream.to_bytes(4, "big") + error.to_bytes(4, "big") + why.encode()
            self._write(_GOAWAY, 0, 0, body)
        if not self._streams or error != NO_ERROR:
            self.close()

    def close(self) -> None:
        """Close after what was sent has been written."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        await asyncio.shield(self._closed)

    def ping(self) -> None:
        """Have the peer show that it is alive."""
        self._write(_PING, 0, 0, b"rocketq\x00")

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if self.peer is None:
            name = transport.get_extra_info("peername")
            self.peer = (name[0], name[1]) if isinstance(name, tuple) else ("", 0)
        host, port = self.peer
        self.peer_address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER)
        settings = b"".join(
            name.to_bytes(2, "big") + value.to_bytes(4, "big")
            for name, value in (
                (3, self._limits.streams),
                (4, _STREAM_WINDOW),
                (6, 16 * 1024),  # headers
            )
        )
        self._write(_SETTINGS, 0, 0, settings)
        more = _CONNECTION_WINDOW - _FIRST_WINDOW
        self._write(_WINDOW_UPDATE, 0, 0, more.to_bytes(4, "big"))
        if self._on_connect is not None:
            self._on_connect(self)

    def data_received(self, data: bytes) -> None:
        self.quiet_rounds = 0
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at = 0
        if not self._has_preface:
            if len(data) < len(PREFACE):
                if PREFACE.startswith(data):
                    self._rest = data
                else:
                    self.abort()
                return
            if not data.startswith(PREFACE):
                self.abort()
                return
            self._has_preface = True
            at = len(PREFACE)
        self._in_turn = True
        try:
            at = self._take_frames(data, at)
        finally:
            self._in_turn = False
        if at < len(data):
            self._rest = data[at:]
        if self._out:
            self._flush()

    def eof_received(self) -> None:
        """The peer sends nothing more: the connection closes by itself."""

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if not self.is_closing:
            self._transport.resume_reading()
        self._push_all()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        streams, self._streams = self._streams, {}
        self._waiting.clear()
        for stream in streams.values():
            receiver = stream.receiver
            stream._leave()
            if receiver is not None:
                receiver.cancelled()
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            callback(self)

    # Frames

    def _take_frames(self, data: bytes, at: int) -> int:
        """Handle the whole frames of some bytes; where the rest begins."""
        raw: Buffer = memory.address(data)
        end = len(data)
        while end - at >= 9:
            size = raw[at] << 16 | raw[at + 1] << 8 | raw[at + 2]
            if size > _FRAME_SIZE:
                self._fail(FRAME_SIZE_ERROR, f"a frame of {size} bytes")
                return end
            stop = at + 9 + size
            if stop > end:
                break
            kind = raw[at + 3]
            flags = raw[at + 4]
            number = (raw[at + 5] & 0x7F) << 24 | raw[at + 6] << 16 | raw[at + 7] << 8 | raw[at + 8]
            if self._block is not None and kind != _CONTINUATION:
                self._fail(PROTOCOL_ERROR, "headers that do not end")
                return end
            self._take_frame(kind, flags, number, data, at + 9, stop)
            if self.is_closing:
                return end
            at = stop
        return at

    def _take_frame(
        self, kind: int, flags: int, number: int, data: bytes, start: int, stop: int
    ) -> None:
        if kind == _DATA:
            self._take_data(flags, number, data, start, stop)
        elif kind == _HEADERS:
            self._take_headers(flags, number, data, start, stop)
        elif kind == _WINDOW_UPDATE:
            self._take_window_update(number, data[start:stop])
        elif kind == _RST_STREAM:
            self._take_reset(number)
        elif kind == _PING:
            if stop - start != 8:
                self._fail(FRAME_SIZE_ERROR, "a ping of another size")
            elif not flags & _ACK:
                self._write(_PING, _ACK, 0, data[start:stop])
        elif kind == _SETTINGS:
            if not flags & _ACK:
                self._take_settings(data[start:stop])
        elif kind == _CONTINUATION:
            self._take_continuation(flags, number, data[start:stop])
        elif kind == _PUSH_PROMISE:
            self._fail(PROTOCOL_ERROR, "a client does not push")
        # GOAWAY: it hangs up by itself. PRIORITY, and kinds to come, mean nothing here.

    def _take_data(self, flags: int, number: int, data: bytes, start: int, stop: int) -> None:
        size = stop - start
        self._unread += size
        if self._unread >= _CONNECTION_WINDOW // 2:
            self._write(_WINDOW_UPDATE, 0, 0, self._unread.to_bytes(4, "big"))
            self._unread = 0
        stream = self._streams.get(number)
        if stream is None or stream.has_ended:
            if number == 0 or number > self._last_stream:
                self._fail(PROTOCOL_ERROR, "data of no stream")
            return  # of one that is over
        if flags & _PADDED:
            start, stop = _without_padding(data, start, stop)
            if stop < start:
                self._fail(PROTOCOL_ERROR, "padding beyond the frame")
                return
        if stop > start and not stream._take(data[start:stop]):
            stream.finish(
                GrpcStatus.RESOURCE_EXHAUSTED,
                f"a message of more than {self._limits.message_size} bytes",
            )
            return
        if stream.is_over:
            return
        if self._unfinished > self._limits.unfinished:
            stream.finish(GrpcStatus.RESOURCE_EXHAUSTED, "too many unfinished messages")
            return
        if flags & _END_STREAM:
            self._ended(stream)
            return
        stream._unread += size
        if stream._unread >= _STREAM_WINDOW // 2:
            self._write(_WINDOW_UPDATE, 0, number, stream._unread.to_bytes(4, "big"))
            stream._unread = 0

    def _ended(self, stream: Stream) -> None:
        stream.has_ended = True
        if stream.receiver is not None:
            stream.receiver.ended()

    def _take_headers(self, flags: int, number: int, data: bytes, start: int, stop: int) -> None:
        if flags & _PADDED:
            start, stop = _without_padding(data, start, stop)
        if flags & _WITH_PRIORITY:
            start += 5
        if stop < start:
            self._fail(PROTOCOL_ERROR, "padding beyond the frame")
        elif flags & _END_HEADERS:
            self._take_block(flags, number, data[start:stop])
        else:
            self._block = [data[start:stop]]
            self._block_size = stop - start
            self._block_stream = number
            self._block_flags = flags

    def _take_continuation(self, flags: int, number: int, part: bytes) -> None:
        if self._block is None or number != self._block_stream:
            self._fail(PROTOCOL_ERROR, "a continuation of nothing")
            return
        self._block.append(part)
        self._block_size += len(part) + 9
        if self._block_size > _BLOCK_LIMIT:
            self._fail(ENHANCE_YOUR_CALM, "too many headers")
        elif flags & _END_HEADERS:
            block, self._block = b"".join(self._block), None
            self._take_block(self._block_flags, number, block)

    def _take_block(self, flags: int, number: int, block: bytes) -> None:
        try:
            headers = self._decoder.decode(block)
        except BadHeaders as error:
            self._fail(COMPRESSION_ERROR, str(error))
            return
        except HeadersTooLarge as error:
            self._fail(ENHANCE_YOUR_CALM, str(error))
            return
        stream = self._streams.get(number)
        if stream is not None:  # trailers
            if flags & _END_STREAM and not stream.has_ended:
                self._ended(stream)
            return
        if number <= self._last_stream or not number & 1:
            if number & 1:
                return  # trailers of a call that is over
            self._fail(PROTOCOL_ERROR, f"stream {number} cannot be new")
            return
        self._last_stream = number
        if self._is_going_away or len(self._streams) >= self._limits.streams:
            self._write_reset(number, REFUSED_STREAM)
            return
        stream = Stream(self, number, headers, self._stream_window)
        self._streams[number] = stream
        self.idle_rounds = 0
        stream.receiver = self._opener(stream)
        if flags & _END_STREAM and not stream.is_over:
            self._ended(stream)

    def _take_reset(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        self.resets += 2
        if self.resets > _MOST_RESETS:
            self._fail(ENHANCE_YOUR_CALM, "too many calls given up")
            return
        receiver = stream.receiver
        stream._leave()
        if receiver is not None:
            receiver.cancelled()

    def _take_settings(self, body: bytes) -> None:
        if len(body) % 6:
            self._fail(FRAME_SIZE_ERROR, "settings of another size")
            return
        for at in range(0, len(body), 6):
            name = int.from_bytes(body[at : at + 2], "big")
            value = int.from_bytes(body[at + 2 : at + 6], "big")
            if name == 4:
                if value > _LARGEST_WINDOW:
                    self._fail(FLOW_CONTROL_ERROR, "a window too large")
                    return
                more = value - self._stream_window
                self._stream_window = value
                for stream in self._streams.values():
                    stream.window += more
            elif name == 5 and value >= _FRAME_SIZE:
                self._frame_size = min(value, 1024 * 1024)
        self._write(_SETTINGS, _ACK, 0, b"")
        self._push_all()

    def _take_window_update(self, number: int, body: bytes) -> None:
        more = int.from_bytes(body, "big") & 0x7FFFFFFF if len(body) == 4 else 0
        if number == 0:
            self._window += more
            if not more or self._window > _LARGEST_WINDOW:
                self._fail(FLOW_CONTROL_ERROR, "a window that cannot be")
                return
            if self._waiting:
                self._push_all()
            return
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.window += more
        if not more or stream.window > _LARGEST_WINDOW:
            stream.reset(FLOW_CONTROL_ERROR)
        elif stream._waiting:
            stream._push()

    def _fail(self, error: int, why: str) -> None:
        logger.info("closing the gRPC connection of %s: %s", self.peer_address, why)
        self.go_away(error, why)

    # Windows

    def _may_write(self, stream: Stream, size: int) -> bool:
        return (
            size <= stream.window
            and size <= self._window
            and size <= self._frame_size
            and not self._is_write_paused
        )

    def _room(self, stream: Stream) -> int:
        """How many bytes of a stream may be sent in one frame now."""
        if self._is_write_paused:
            return 0
        return min(stream.window, self._window, self._frame_size)

    def _note_waiting(self, stream: Stream, size: int) -> None:
        self._waiting[stream] = None
        self._waiting_size += size
        if self._waiting_size > self._limits.unsent:
            logger.warning(
                "closing the gRPC connection of %s, which leaves %d bytes unread",
                self.peer_address,
                self._waiting_size,
            )
            self.abort()

    def _waited(self, size: int) -> None:
        self._waiting_size -= size

    def _no_longer_waiting(self, stream: Stream) -> None:
        self._waiting.pop(stream, None)

    def _push_all(self) -> None:
        for stream in list(self._waiting):
            if self._window <= 0 or self._is_write_paused:
                break
            if stream._waiting:
                stream._push()

    def _forget(self, stream: Stream) -> None:
        if self._streams.pop(stream.number, None) is not None and self.resets:
            self.resets -= 1
        self._unfinished -= stream._parts_size
        stream._parts_size = 0
        if stream._waiting:
            self._waiting.pop(stream, None)
            self._waiting_size -= stream._waiting_size
            stream._waiting = None
            stream._waiting_size = 0
        if self._is_going_away and not self._streams:
            self._loop.call_soon(self.close)

    # Writing

    def _write_headers(self, number: int, block: bytes, is_last: bool) -> None:
        self._write(
            _HEADERS, _END_HEADERS | _END_STREAM if is_last else _END_HEADERS, number, block
        )

    def _write_data(self, stream: Stream, data: bytes, size: int) -> None:
        stream.window -= size
        self._window -= size
        self._write(_DATA, 0, stream.number, data)

    def _write_reset(self, number: int, error: int) -> None:
        self._write(_RST_STREAM, 0, number, error.to_bytes(4, "big"))

    def _write(self, kind: int, flags: int, number: int, body: bytes) -> None:
        size = len(body)
        self._out.append(_HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, number) + body)
        if not self._in_turn and not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        out = self._out
        if out:
            self._out = []
            if not self._transport.is_closing():
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))


def _without_padding(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Where the rest of a padded frame begins and ends; ends before it begins when wrong."""
    if stop <= start:
        return start, start - 1
    return start + 1, stop - data[start]


def _decompressed(message: bytes, encoding: str | None, most: int) -> bytes:
    if encoding not in ("gzip", "deflate"):
        raise ValueError(f"grpc-encoding {encoding or ''} is not supported")
    reader = zlib.decompressobj(47)  # of either kind, by its head
    try:
        plain = reader.decompress(message, most)
    except zlib.error as error:
        raise ValueError(f"a message that cannot be decompressed: {error}") from None
    if reader.unconsumed_tail:
        raise ValueError(f"a message of more than {most} bytes")
    return plain


def _trailers(status: int, text: str) -> bytes:
    """With the text as gRPC wants it: other than printable ASCII in per cent."""
    shown = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x25 else f"%{byte:02X}"
        for byte in text.encode("utf-8", "replace")[:1024]
    )
    return literal("grpc-status", str(status)) + literal("grpc-message", shown)
