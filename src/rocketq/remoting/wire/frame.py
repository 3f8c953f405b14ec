"""Cuts a stream of bytes into frames.

    length   int32   what follows: 4 + header + body
    word     int32   header encoding << 24 | header length
    header
    body

Bytes arrive in pieces that know nothing of frames. Whole frames are taken out of a piece
where they lie. What is left over at its end waits in a buffer that grows with what arrives,
never with what a length field promises; when its frame is complete the buffer goes with it.

Compiled where possible (frame.pxd gives the types), the same code runs uncompiled.
"""

import cython

from rocketq.remoting.errors import BadFrame
from rocketq.remoting.wire.binary_header import decode_binary_header
from rocketq.remoting.wire.json_header import decode_json_header

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.rocketq.remoting.wire.command import Command, address_of
    from cython.cimports.rocketq.remoting.wire.scan import scan_binary, scan_json
else:
    from rocketq.remoting.wire.command import Command, address_of

FRAME_LIMIT = 16 * 1024 * 1024
"""The longest frame, length word included, that RocketMQ sends or takes."""


class FrameSplitter:
    """Turns what one connection receives into commands.

    `error` is set when the stream cannot be understood any further; nothing more comes out
    of it then, and the connection is of no more use.
    """

    def __init__(self, limit=FRAME_LIMIT, header_limit=FRAME_LIMIT):
        self.error = None
        self._limit = limit
        self._header_limit = header_limit
        self._rest = None  # the beginning of a frame that has not come to its end
        self._wanted = 0  # the size of that frame; 4 while only a part of its length is there

    @property
    def buffered(self):
        """How many bytes wait for the rest of their frame."""
        return 0 if self._rest is None else len(self._rest)

    def feed(self, data):
        """The commands that are complete with this piece, in order."""
        commands = []
        if self.error is not None:
            return commands
        try:
            taken = 0
            if self._rest is not None:
                taken = self._complete(commands, data)
                if self._rest is not None:
                    return commands
            taken = self._take(commands, data, taken)
            if taken < len(data):
                self._rest = bytearray(memoryview(data)[taken:])
        except BadFrame as error:
            self.error = error
            self._rest = None
        return commands

    def _complete(self, commands, data):
        """Add to the frame that waits what belongs to it; how many bytes those were."""
        rest = self._rest
        used = 0
        if self._wanted == 4:
            used = min(4 - len(rest), len(data))
            rest += data[:used]
            if len(rest) < 4:
                return used
            self._wanted = self._checked(word_at(address_of(rest), 0))
        more = min(self._wanted - len(rest), len(data) - used)
        rest += memoryview(data)[used : used + more]
        if len(rest) == self._wanted:
            self._rest = None
            self._take(commands, rest, 0)
        return used + more

    def _take(self, commands, data, at):
        """Take whole frames out of a piece, from a place in it on; where they end."""
        base = address_of(data)
        end = len(data)
        while end - at >= 4:
            self._wanted = self._checked(word_at(base, at))
            if end - at < self._wanted:
                return at
            if self._wanted >= self._header_limit:
                self._check_header(word_at(base, at + 4) & 0xFFFFFF)
            commands.append(command_at(data, base, at, at + self._wanted))
            at += self._wanted
        self._wanted = 4
        return at

    def _check_header(self, size):
        if size > self._header_limit:
            raise BadFrame(f"header of {size} bytes, allowed are {self._header_limit}")

    def _checked(self, length):
        """The size of a frame, length word included, if there can be one of such a length."""
        if length < 4 or length > 0x7FFFFFFF or length + 4 > self._limit:
            signed = length - 0x100000000 if length > 0x7FFFFFFF else length
            raise BadFrame(f"frame of length {signed}, allowed are 4 to {self._limit - 4}")
        return length + 4


def unfilled(size):
    """A buffer of which every byte is going to be written: what is in it until then is anything."""
    if cython.compiled:
        return PyByteArray_FromStringAndSize(cython.NULL, size)
    return bytearray(size)


def decode_frame(frame):
    """The command in one whole frame, length word included."""
    frame = bytes(frame)
    if len(frame) < 8:
        raise BadFrame(f"frame of {len(frame)} bytes")
    base = address_of(frame)
    length = word_at(base, 0)
    if length != len(frame) - 4:
        raise BadFrame(f"frame of length {length} in {len(frame)} bytes")
    return command_at(frame, base, 0, len(frame))


def command_at(frame, base, start, end):
    """The command whose frame, length word included, lies at `frame[start:end]`."""
    word = word_at(base, start + 4)
    header_at = start + 8
    header_end = header_at + (word & 0xFFFFFF)
    if header_end > end:
        raise BadFrame(f"header of {word & 0xFFFFFF} bytes in a frame of {end - start}")
    command = Command.__new__(Command)
    command.serialize_type = word >> 24
    command._body = None
    command._frame = frame
    command._header_at = header_at
    command._header_end = header_end
    command._body_end = end
    command._is_encoded = False
    if cython.compiled:
        command._entry_count = -1
        if word >> 24 == 0:
            if scan_json(command, base, header_at, header_end):
                return command
        elif word >> 24 == 1 and scan_binary(command, base, header_at, header_end):
            return command
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
    command._entry_count = -1
    return command


def word_at(base, at):
    """Four bytes as an unsigned number."""
    return base[at] << 24 | base[at + 1] << 16 | base[at + 2] << 8 | base[at + 3]
