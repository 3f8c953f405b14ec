"""Bytes and numbers in memory: the one home of what hot modules do with them.

Every function stands here in Python and in memory.pxd in C, under the same name and with the
same arguments. A hot module says

    from rocketq.common import memory                   in its .py
    cimport rocketq.common.memory as memory             in its .pxd

and `memory.get32(data, 12)` is a few machine instructions when it is compiled and a call of the
function below when it is not. What is a pointer there is a buffer here: bytes, a bytearray or
a memoryview of single bytes. Nothing is checked, as in C: the caller knows that what it reads
and writes is inside.

Numbers are big-endian and signed unless their name says otherwise.
"""

import array
import mmap
import struct

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_UINT32_LITTLE = struct.Struct("<I")
_INT64 = struct.Struct(">q")

# Where bytes lie


def address(data: bytes) -> bytes:
    """Where the bytes of an object begin, for as long as somebody holds on to the object."""
    return data


def room(out: bytearray) -> bytearray:
    """The same of a bytearray, which may be written to, and must not change its size."""
    return out


def viewed(view: memoryview) -> memoryview:
    """Where the bytes of a memoryview begin, for as long as somebody holds on to the view."""
    return view


def viewed_int32s(view: memoryview) -> memoryview:
    """The same of bytes that are a row of int32, in the machine's own order."""
    return view.cast("i") if len(view) else view


def int32s(out: bytearray) -> memoryview:
    """A bytearray as a row of int32, in the machine's own order."""
    return memoryview(out).cast("i") if out else memoryview(array.array("i"))


def int64s(out: bytearray) -> memoryview:
    """A bytearray as a row of int64, in the machine's own order."""
    return memoryview(out).cast("q") if out else memoryview(array.array("q"))


class Held:
    """A buffer that stays where it is until it is released; a `Py_buffer` when compiled."""

    def __init__(self, buffer: Buffer | mmap.mmap) -> None:
        self.buf = memoryview(buffer)
        if self.buf.format != "B":
            self.buf = self.buf.cast("B")
        self.len = self.buf.nbytes


def hold(buffer: Buffer) -> Held:
    """Keep a buffer in its place, to read from `start` of it; `release` it in any case."""
    return Held(buffer)


def hold_writable(buffer: WritableBuffer | mmap.mmap) -> Held:
    """The same to write to; an error when it cannot be written to."""
    held = Held(buffer)
    if held.buf.readonly:
        raise BufferError("the buffer cannot be written to")
    return held


def start(held: Held) -> memoryview:
    """Where a held buffer begins."""
    return held.buf


def release(held: Held) -> None:
    """Let go of a buffer."""
    held.buf.release()


def part(data: Buffer, at: int) -> Buffer:
    """The bytes from `at` on."""
    return data[at:]


# New objects


def unfilled(size: int) -> bytearray:
    """A buffer of which every byte is going to be written: until then it may hold anything."""
    return bytearray(size)


def bytes_at(data: Buffer, at: int, size: int) -> bytes:
    """A copy of so many bytes."""
    return bytes(data[at : at + size])


def text_at(data: Buffer, at: int, size: int) -> str:
    """So many bytes of UTF-8 as text; what is not UTF-8 is replaced."""
    return str(data[at : at + size], "utf-8", "replace")


def view(data: Buffer, at: int, size: int) -> memoryview:
    """So many bytes as an object, without a copy: only while the bytes stay in their place."""
    return memoryview(data)[at : at + size]


# Numbers, big-endian


def get16(data: Buffer, at: int) -> int:
    number: int = _INT16.unpack_from(data, at)[0]
    return number


def get32(data: Buffer, at: int) -> int:
    number: int = _INT32.unpack_from(data, at)[0]
    return number


def get32u(data: Buffer, at: int) -> int:
    """The same without a sign."""
    number: int = _UINT32.unpack_from(data, at)[0]
    return number


def get32u_little(data: Buffer, at: int) -> int:
    """The same of bytes that begin with the lowest one."""
    number: int = _UINT32_LITTLE.unpack_from(data, at)[0]
    return number


def get64(data: Buffer, at: int) -> int:
    number: int = _INT64.unpack_from(data, at)[0]
    return number


def put16(out: WritableBuffer, at: int, value: int) -> None:
    """The lowest 16 bits of a number."""
    out[at : at + 2] = (value & 0xFFFF).to_bytes(2, "big")


def put32(out: WritableBuffer, at: int, value: int) -> None:
    """The lowest 32 bits of a number, with or without a sign."""
    out[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")


def put64(out: WritableBuffer, at: int, value: int) -> None:
    out[at : at + 8] = (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")


def unsigned32(value: int) -> int:
    """The lowest 32 bits of a number. (A literal above 2**31 would be a Python object in C.)"""
    return value & 0xFFFFFFFF


def signed32(value: int) -> int:
    """The number whose 32 bits are these."""
    return value - 0x100000000 if value & 0x80000000 else value


def bit(place: int) -> int:
    """The number with this bit alone, of 64."""
    return 1 << place


# Pieces


def copy(out: WritableBuffer, at: int, data: Buffer, start: int, size: int) -> None:
    """Put `size` bytes of `data` from `start` on into `out`."""
    out[at : at + size] = data[start : start + size]


def same(data: Buffer, at: int, other: Buffer, size: int) -> bool:
    """Whether the first `size` bytes of `other` lie here."""
    return data[at : at + size] == other[:size]


def find(data: Buffer, at: int, end: int, byte: int) -> int:
    """Where a byte is found first, or `end`."""
    if isinstance(data, memoryview):
        found = bytes(data[at:end]).find(byte)
        return end if found < 0 else at + found
    found = data.find(byte, at, end)
    return end if found < 0 else found


# Text, put at a place: each function says where it ends


def put(out: WritableBuffer, at: int, text: bytes) -> int:
    out[at : at + len(text)] = text
    return at + len(text)


def put_hex(out: WritableBuffer, at: int, data: Buffer, start: int, size: int) -> int:
    """Bytes in hexadecimal, with capital letters."""
    return put(out, at, data[start : start + size].hex().upper().encode())


def put_hex_number(out: WritableBuffer, at: int, number: int, digit_count: int) -> int:
    """The lowest digits of a number in hexadecimal, with zeros in front."""
    lowest = number & ((1 << (4 * digit_count)) - 1)
    return put(out, at, b"%0*X" % (digit_count, lowest))


def put_number(out: WritableBuffer, at: int, number: int) -> int:
    """A whole number in decimal."""
    return put(out, at, b"%d" % number)
