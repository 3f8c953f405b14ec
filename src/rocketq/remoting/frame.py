"""Cuts a stream of bytes into frames.

    length   int32   what follows, 4 + header + body
    word     int32   header encoding << 24 | header length
    header
    body

Bytes arrive in pieces that know nothing of frames. Whole frames are taken out of a piece
where it lies; only what is left over at its end is copied, into a buffer that grows with
what arrives, never with what a length field promises.
"""

from rocketq.remoting.command import decode_at
from rocketq.remoting.errors import BadFrame

FRAME_LIMIT = 16 * 1024 * 1024
"""The longest frame, length word included, that RocketMQ sends or takes."""


class FrameSplitter:
    """Turns what one connection receives into commands.

    `error` is set when the stream cannot be understood any further; nothing more comes out
    of it then, and the connection is of no more use.
    """

    def __init__(self, limit=FRAME_LIMIT):
        self.error = None
        self._limit = limit
        self._rest = bytearray()
        self._wanted = 0  # size of the frame that begins in `_rest`, 0 while unknown

    @property
    def buffered(self):
        """How many bytes wait for the rest of their frame."""
        return len(self._rest)

    def feed(self, data):
        """The commands that are complete with this piece, in order."""
        commands = []
        if self.error is not None:
            return commands
        rest = self._rest
        try:
            if rest:
                rest += data
                if len(rest) < self._wanted or len(rest) < 4:
                    return commands
                # What is handed out refers to this buffer, so the next rest needs its own.
                data = rest
                self._rest = bytearray()
            end = len(data)
            at = 0
            self._wanted = 0
            while end - at >= 4:
                length = int.from_bytes(data[at : at + 4], "big", signed=True)
                if length < 4:
                    raise BadFrame(f"frame of length {length}")
                if length + 4 > self._limit:
                    raise BadFrame(f"frame of length {length}, allowed are {self._limit - 4}")
                if end - at < length + 4:
                    self._wanted = length + 4
                    break
                commands.append(decode_at(data, at, at + 4 + length))
                at += 4 + length
            if at < end:
                self._rest += memoryview(data)[at:end]
        except BadFrame as error:
            self.error = error
            self._rest = bytearray()
        return commands
