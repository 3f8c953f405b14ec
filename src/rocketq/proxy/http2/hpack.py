# cython: annotation_typing=False
"""Headers of HTTP/2 (HPACK, RFC 7541): from the bytes of a block to names and values.

Whoever sends headers keeps a table of those it sent lately and names them by number; whoever
reads keeps the same table. Ours, for what we send, is empty: an answer has three headers, which
are written as they are.

Compiled where possible (hpack.pxd gives the types).
"""

from collections import deque

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.proxy.http2 import huffman

TABLE_SIZE = 4096
_ENTRY_OVERHEAD = 32
_STATIC_COUNT = 61

# So much may come out of one block; RocketMQ's clients send about 600 bytes.
_MOST_BYTES = 16 * 1024

_STATIC: list[tuple[str, str] | None] = [
    None,
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
]

_STEPS = huffman.STEPS
_ENDINGS = huffman.ENDINGS
_SYMBOL_SHIFT = 16


class BadHeaders(Exception):
    """A block that breaks the rules; the connection's tables can no longer be trusted."""


class HeadersTooLarge(Exception):
    """More than anybody who means well sends."""


class HeaderDecoder:
    """Decodes the blocks of one connection, in their order."""

    def __init__(self) -> None:
        self._entries: deque[tuple[str, str]] = deque()  # the newest first
        self._size = 0
        self._limit = TABLE_SIZE
        self._at = 0

    def decode(self, block: bytes) -> dict[str, str]:
        """Names and values; of a name that comes twice the last."""
        data: Buffer = memory.address(block)
        end = len(block)
        self._at = 0
        headers: dict[str, str] = {}
        total = 0
        while self._at < end:
            first = data[self._at]
            if first & 0x80:  # one of the table
                pair = self._entry(self._number(data, end, 7))
            elif first & 0xC0 == 0x40:  # a new one, kept
                pair = self._literal(data, end, 6)
                self._keep(pair)
            elif first & 0xE0 == 0x20:
                size = self._number(data, end, 5)
                if size > TABLE_SIZE:
                    raise BadHeaders(f"a table of {size} bytes")
                self._limit = size
                self._evict()
                continue
            else:  # a new one, not kept
                pair = self._literal(data, end, 4)
            total += len(pair[0]) + len(pair[1]) + _ENTRY_OVERHEAD
            if total > _MOST_BYTES:
                raise HeadersTooLarge(f"more than {_MOST_BYTES} bytes of headers")
            headers[pair[0]] = pair[1]
        return headers

    def _literal(self, data: Buffer, end: int, bits: int) -> tuple[str, str]:
        index = self._number(data, end, bits)
        name = self._entry(index)[0] if index else self._text(data, end)
        return name, self._text(data, end)

    def _entry(self, index: int) -> tuple[str, str]:
        if 0 < index <= _STATIC_COUNT:
            found = _STATIC[index]
            assert found is not None
            return found
        at = index - _STATIC_COUNT - 1
        if at < 0 or at >= len(self._entries):
            raise BadHeaders(f"no entry {index}")
        return self._entries[at]

    def _keep(self, pair: tuple[str, str]) -> None:
        self._entries.appendleft(pair)
        self._size += len(pair[0]) + len(pair[1]) + _ENTRY_OVERHEAD
        self._evict()

    def _evict(self) -> None:
        while self._size > self._limit:
            name, value = self._entries.pop()
            self._size -= len(name) + len(value) + _ENTRY_OVERHEAD

    def _number(self, data: Buffer, end: int, bits: int) -> int:
        """An integer with a prefix of so many bits."""
        most = (1 << bits) - 1
        number = data[self._at] & most
        self._at += 1
        if number < most:
            return number
        shift = 0
        while True:
            if self._at >= end or shift > 21:
                raise BadHeaders("a number that does not end")
            byte = data[self._at]
            self._at += 1
            number += (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def _text(self, data: Buffer, end: int) -> str:
        if self._at >= end:
            raise BadHeaders("a text is missing")
        is_coded = data[self._at] & 0x80 != 0
        size = self._number(data, end, 7)
        start = self._at
        if size > end - start:
            raise BadHeaders("a text that does not end")
        self._at = start + size
        if is_coded:
            return _decoded(data, start, size)
        return memory.bytes_at(data, start, size).decode("latin-1")


def _decoded(data: Buffer, start: int, size: int) -> str:
    """A text in the Huffman code."""
    # The shortest code has five bits.
    out = bytearray(size * 8 // 5 + 1)
    room = memory.room(out)
    endings: Buffer = memory.address(_ENDINGS)
    count = 0
    state = 0
    for at in range(start, start + size):
        byte = data[at]
        step = _STEPS[state * 16 + (byte >> 4)]
        if step < 0:
            raise BadHeaders("a code that is none")
        if step >> _SYMBOL_SHIFT:
            room[count] = (step >> _SYMBOL_SHIFT) - 1
            count += 1
        state = step & 0xFFFF
        step = _STEPS[state * 16 + (byte & 15)]
        if step < 0:
            raise BadHeaders("a code that is none")
        if step >> _SYMBOL_SHIFT:
            room[count] = (step >> _SYMBOL_SHIFT) - 1
            count += 1
        state = step & 0xFFFF
    if not endings[state]:
        raise BadHeaders("a code that does not end")
    return out[:count].decode("latin-1")


def literal(name: str, value: str) -> bytes:
    """One header of ours: both texts as they are, kept in nobody's table."""
    name_bytes, value_bytes = name.encode("latin-1"), value.encode("latin-1")
    return b"".join((b"\x00", _size(name_bytes), name_bytes, _size(value_bytes), value_bytes))


def _size(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,))
    size -= 127
    out = bytearray((127,))
    while size >= 128:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)
