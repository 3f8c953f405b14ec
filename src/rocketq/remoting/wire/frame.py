# cython: annotation_typing=False
"""Cuts a stream of bytes into frames.

    length   int32   what follows: 4 + header + body
    word     int32   header encoding << 24 | header length
    header
    body

Bytes arrive in pieces that know nothing of frames. Whole frames are taken out of a piece
where they lie. What is left over at its end waits in a buffer that grows with what arrives,
never with what a length field promises; when its frame is complete the buffer goes with it.

Compiled where possible (frame.pxd gives the types).
"""

from typing import Final

import cython

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.remoting.errors import BadFrame
from rocketq.remoting.wire import command as commands
from rocketq.remoting.wire import scan
from rocketq.remoting.wire.binary_header import decode_binary_header
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.json_header import decode_json_header

FRAME_LIMIT: Final = 16 * 1024 * 1024
"""The longest frame, length word included, that RocketMQ sends or takes."""

# Uncompiled, the general decoders are faster than the scan.
SCANS = cython.compiled


class FrameSplitter:
    """Turns what one connection receives into commands.

    `error` is set when the stream cannot be understood any further; nothing more comes out
    of it then, and the connection is of no more use.
    """

    def __init__(self, limit: int = FRAME_LIMIT, header_limit: int = FRAME_LIMIT) -> None:
        self.error: BadFrame | None = None
        self._limit = limit
        self._header_limit = header_limit
        self._rest: bytearray | None = None  # the beginning of an unfinished frame
        self._wanted = 0  # the size of that frame; 4 while only a part of its length is there

    @property
    def buffered(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return 0 if self._rest is None else len(self._rest)

    def allow(self, limit: int) -> None:
        """Take frames of another size from now on; one that waits keeps to its own."""
        self._limit = limit

    def feed(self, data: bytes | bytearray) -> list[Command]:
        """The commands that are complete with this piece, in order."""
        found: list[Command] = []
        if self.error is not None:
            return found
        try:
            taken = 0
            if self._rest is not None:
                taken = self._complete(found, data)
                if self._rest is not None:
                    return found
            taken = self._take(found, data, taken)
            if taken < len(data):
                self._rest = bytearray(memoryview(data)[taken:])
        except BadFrame as error:
            self.error = error
            self._rest = None
        return found

    def _complete(self, found: list[Command], data: bytes | bytearray) -> int:
        """Add to the frame that waits what belongs to it; how many bytes those were."""
        rest = self._rest
        assert rest is not None
        used = 0
        if self._wanted == 4:
            used = min(4 - len(rest), len(data))
            rest += data[:used]
            if len(rest) < 4:
                return used
            self._wanted = self._checked(memory.get32u(memory.room(rest), 0))
        more = min(self._wanted - len(rest), len(data) - used)
        rest += memoryview(data)[used : used + more]
        if len(rest) == self._wanted:
            self._rest = None
            self._take(found, rest, 0)
        return used + more

    def _take(self, found: list[Command], data: bytes | bytearray, at: int) -> int:
        """Take whole frames out of a piece, from a place in it on; where they end."""
        base = commands.address_of(data)
        end = len(data)
        while end - at >= 4:
            self._wanted = self._checked(memory.get32u(base, at))
            if end - at < self._wanted:
                return at
            if self._wanted >= self._header_limit:
                self._check_header(memory.get32u(base, at + 4) & 0xFFFFFF)
            found.append(command_at(data, base, at, at + self._wanted))
            at += self._wanted
        self._wanted = 4
        return at

    def _check_header(self, size: int) -> None:
        if size > self._header_limit:
            raise BadFrame(f"header of {size} bytes, allowed are {self._header_limit}")

    def _checked(self, length: int) -> int:
        """The size of a frame, length word included, if there can be one of such a length."""
        if length < 4 or length > 0x7FFFFFFF or length + 4 > self._limit:
            signed = length - 0x100000000 if length > 0x7FFFFFFF else length
            raise BadFrame(f"frame of length {signed}, allowed are 4 to {self._limit - 4}")
        return length + 4


def decode_frame(frame: Buffer) -> Command:
    """The command in one whole frame, length word included."""
    frame = bytes(frame)
    if len(frame) < 8:
        raise BadFrame(f"frame of {len(frame)} bytes")
    base = commands.address_of(frame)
    length = memory.get32u(base, 0)
    if length != len(frame) - 4:
        raise BadFrame(f"frame of length {length} in {len(frame)} bytes")
    return command_at(frame, base, 0, len(frame))


def command_at(frame: Buffer, base: Buffer, start: int, end: int) -> Command:
    """The command whose frame, length word included, lies at `frame[start:end]`."""
    word = memory.get32u(base, start + 4)
    header_at = start + 8
    header_end = header_at + (word & 0xFFFFFF)
    if header_end > end:
        raise BadFrame(f"header of {word & 0xFFFFFF} bytes in a frame of {end - start}")
    command = commands.new_command()
    command.serialize_type = word >> 24
    command._frame = frame
    command._header_at = header_at
    command._header_end = header_end
    command._body_end = end
    if SCANS and _scan(command, base):
        return command
    command._has_ext_fields = False
    command._remark_at = 0
    raw = memoryview(frame)[header_at:header_end]
    if word >> 24 == 0:
        fields = decode_json_header(raw)
    elif word >> 24 == 1:
        fields = decode_binary_header(raw)
    else:
        raise BadFrame(f"unknown header encoding {word >> 24}")
    command.code = fields.code
    command.language = fields.language
    command.version = fields.version
    command.opaque = fields.opaque
    command.flag = fields.flag
    command._remark = fields.remark
    command._ext_fields = fields.ext_fields
    command._has_ext_fields = fields.ext_fields is not None
    return command


def _scan(command: Command, base: Buffer) -> bool:
    """Find the header's fields where they lie, if it is one of the usual kind."""
    scan.make_room(command)
    command.code = command.language = command.version = command.opaque = command.flag = 0
    if command.serialize_type == 0:
        found = scan.scan_json(command, base, command._header_at, command._header_end)
    else:
        found = command.serialize_type == 1 and scan.scan_binary(
            command, base, command._header_at, command._header_end
        )
    if not found:
        command._entry_count = -1
    return found
