# cython: annotation_typing=False
"""One message of the protocol, request or response: header and body.

    request = Command.request(QueryConsumerOffset(consumer_group=..., topic=..., queue_id=0))
    header = request.header(QueryConsumerOffset)
    reply = request.reply(QueryConsumerOffsetResponse(offset=12))
    transport.writelines(reply.encode())

A command that came off the wire keeps the frame it came in. Code, opaque, flag, language
and version are known at once; the remark, the ext fields and the body are taken out of the
frame when somebody asks for them, because most are never asked for.

How long a body lives: it is valid as long as it is held. A small one is a copy. A large
one is a view of what was read from the socket and keeps that alive, up to a quarter of a
megabyte beside itself, so whoever keeps it beyond the request copies it
(`bytes(command.body)`).

Compiled where possible (command.pxd gives the types).
"""

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import cython
import orjson

from rocketq.common import json, memory
from rocketq.common.memory import Buffer
from rocketq.remoting.codes import LanguageCode, SerializeType, Version
from rocketq.remoting.wire import json_header
from rocketq.remoting.wire.binary_header import encode_binary_header
from rocketq.remoting.wire.json_header import HeaderFields, decode_json_header, language_name

if TYPE_CHECKING:
    from rocketq.remoting.headers.header import Header, RequestHeader

H = TypeVar("H", bound="Header")

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2
_RESPONSE = 1
_ONEWAY = 2

# Bodies up to this size are copied out of their frame.
_COPIED_SIZE = 4096

_WORDS: Final = struct.Struct(">II")

_JSON = int(SerializeType.JSON)
_BINARY = int(SerializeType.ROCKETMQ)
_PYTHON = int(LanguageCode.PYTHON)
_CURRENT = int(Version.CURRENT)

_last_opaque = 0


def next_opaque() -> int:
    """A number for a new request, unique in this process; never 0, which ali-ons misreads."""
    global _last_opaque
    _last_opaque = 1 if _last_opaque == 0x7FFFFFFF else _last_opaque + 1
    return _last_opaque


class Entry:
    """Where the scan found an ext field in its frame; a C struct when compiled."""

    __slots__ = ("is_escaped", "name_at", "name_size", "value_at", "value_size")

    name_at: int
    name_size: int
    value_at: int
    value_size: int
    is_escaped: bool


@cython.freelist(64)
@cython.cclass
class Command:
    """A request or a response."""

    _remark_at: int
    _remark_size: int
    _remark_is_escaped: bool
    _entries: list[Entry]

    def __init__(
        self,
        code: int,
        *,
        ext_fields: dict[str, str] | None = None,
        body: Buffer | Sequence[Buffer] = b"",
        remark: str | None = None,
        flag: int = 0,
        opaque: int = 0,
        language: int = _PYTHON,
        version: int = _CURRENT,
        serialize_type: int = _JSON,
    ) -> None:
        self.code = code
        self.language = language
        self.version = version
        self.opaque = opaque
        self.flag = flag
        self.serialize_type = serialize_type
        self._remark = remark
        self._ext_fields = ext_fields
        self._has_ext_fields = ext_fields is not None
        self._body: Any = body
        self._frame: Any = None
        self._header_at = 0
        self._header_end = 0
        self._body_end = 0
        self._is_encoded = False
        self._entry_count = -1

    # Made here

    @staticmethod
    def request(
        header: "RequestHeader | int",
        body: Buffer | Sequence[Buffer] = b"",
        *,
        code: int | None = None,
        ext: Mapping[str, str] | None = None,
        oneway: bool = False,
    ) -> "Command":
        """A new request: a typed header, or the bare code where a request has no header.

        `code` overrides the header's own where several requests share one; `ext` are ext
        fields beyond those of the header.
        """
        if isinstance(header, int):
            number = header
            ext_fields = dict(ext) if ext is not None else None
        else:
            number = header.CODE if code is None else code
            ext_fields = header.to_ext_fields()
            if ext is not None:
                ext_fields.update(ext)
        return Command(
            number,
            ext_fields=ext_fields,
            body=body,
            flag=ONEWAY_FLAG if oneway else 0,
            opaque=next_opaque(),
        )

    def reply(
        self,
        header: "Header | None" = None,
        body: Buffer | Sequence[Buffer] = b"",
        *,
        code: int = 0,
        remark: str | None = None,
        ext: Mapping[str, str] | None = None,
    ) -> "Command":
        """The answer to this request, in the form in which the request came."""
        ext_fields = header.to_ext_fields() if header is not None else None
        if ext is not None:
            ext_fields = {**ext_fields, **ext} if ext_fields is not None else dict(ext)
        return Command(
            code,
            ext_fields=ext_fields,
            body=body,
            remark=remark,
            flag=RESPONSE_FLAG,
            opaque=self.opaque,
            serialize_type=self.serialize_type,
        )

    # What it says

    @property
    def is_response(self) -> bool:
        return self.flag & _RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether nobody waits for an answer. Go and ali-ons clients never say so."""
        return self.flag & 3 == _ONEWAY

    @property
    def remark(self) -> str | None:
        self._unpack()
        return self._remark

    @remark.setter
    def remark(self, remark: str | None) -> None:
        self._unpack()
        self._remark = remark

    @property
    def ext_fields(self) -> dict[str, str]:
        """The ext fields; changes made to them are sent."""
        self._unpack()
        if self._ext_fields is None:
            self._ext_fields = {}
        return self._ext_fields

    @property
    def has_ext_fields(self) -> bool:
        """Whether there is a header at all, be it an empty one."""
        return self._has_ext_fields or bool(self._ext_fields)

    @property
    def body(self) -> bytes | memoryview:
        """The body in one piece; `b""` when there is none. Up to 4096 bytes are copied."""
        body = self._body
        if body is None:
            body = self._body_of_frame()
        elif isinstance(body, (list, tuple)):
            body = b"".join(body)
        return body  # type: ignore[no-any-return]

    @body.setter
    def body(self, body: Buffer | Sequence[Buffer]) -> None:
        self._unpack()
        self._body = body

    def _body_of_frame(self) -> bytes | memoryview:
        start = self._header_end
        size = self._body_end - start
        if size <= _COPIED_SIZE:
            self._body = memory.bytes_at(address_of(self._frame), start, size)
        else:
            self._body = memoryview(self._frame)[start : self._body_end]
        return self._body  # type: ignore[no-any-return]

    @property
    def raw_header(self) -> memoryview:
        """The header's bytes as they came; empty for a command made here."""
        if self._frame is None:
            return memoryview(b"")
        return memoryview(self._frame)[self._header_at : self._header_end]

    def header(self, cls: type[H]) -> H:
        """The typed header."""
        return cls.from_ext_fields(self.ext_fields)

    def _unpack(self) -> None:
        """Take remark and ext fields out of the frame, if that has not been done."""
        if self._is_encoded:
            # Made as a whole frame (`encoded_reply`); from now on its parts count.
            self._is_encoded = False
            fields = decode_json_header(self.raw_header)
            self._remark = fields.remark
            self._ext_fields = fields.ext_fields
            self._has_ext_fields = True
        elif self._entry_count >= 0:
            if self._remark_at > 0:
                self._remark = self._text_at(
                    self._remark_at, self._remark_size, self._remark_is_escaped
                )
            if self._has_ext_fields:
                ext_fields: dict[str, str] = {}
                for i in range(self._entry_count):
                    name = self._text_at(
                        self._entries[i].name_at, self._entries[i].name_size, False
                    )
                    ext_fields[name] = self._text_at(
                        self._entries[i].value_at,
                        self._entries[i].value_size,
                        self._entries[i].is_escaped,
                    )
                self._ext_fields = ext_fields
            self._entry_count = -1

    def _text_at(self, at: int, size: int, is_escaped: bool) -> str:
        """A piece of the frame as text; what is not UTF-8 is replaced, as in Java."""
        if is_escaped:
            # With the quotes around it.
            return json.loads(  # type: ignore[no-any-return]
                memoryview(self._frame)[at - 1 : at + size + 1], json.HEADER_LIMITS
            )
        return memory.text_at(address_of(self._frame), at, size)

    # To the wire

    def encode(self) -> list[Buffer]:
        """The frame as a list of buffers: its head, then the body, which is not copied."""
        out: list[Buffer] = []
        self.encode_into(out)
        return out

    def encode_into(self, out: list[Buffer]) -> int:
        """Append the frame's buffers to a list; how many bytes they hold."""
        body = self._body
        if body is None:
            body = self.body
        body_size = size_of(body)
        head = self._frame if self._is_encoded else self._encode_head(body_size)
        out.append(head)
        if body_size:
            if isinstance(body, (list, tuple)):
                out.extend(body)
            else:
                out.append(body)
        return len(head) + body_size

    def _encode_head(self, body_size: int) -> bytes:
        """Everything but the body, whose size is in it."""
        remark = self.remark
        fields = self._ext_fields if self.has_ext_fields else None
        if self.serialize_type == _BINARY:
            header = encode_binary_header(
                HeaderFields(
                    self.code, self.language, self.version, self.opaque, self.flag, remark, fields
                )
            )
            return _WORDS.pack(4 + len(header) + body_size, _BINARY << 24 | len(header)) + header
        return json_header.json_head(
            self.code,
            None if fields is None else _json(fields),
            self.flag,
            language_name(self.language),
            self.opaque,
            None if remark is None else _json(remark),
            self.version,
            body_size,
        )

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        return (
            f"<{kind} code={self.code} opaque={self.opaque} remark={self.remark!r}"
            f" ext_fields={self.ext_fields!r} body={len(self.body)} bytes>"
        )


# For those who fill a command themselves: the frame splitter, and the makers of hot replies


def new_command() -> Command:
    """A command with nothing in it; whoever asked for it sets what it has."""
    command = Command.__new__(Command)
    command._remark = None
    command._ext_fields = None
    command._has_ext_fields = False
    command._body = None
    command._is_encoded = False
    command._entry_count = -1
    command._remark_at = 0
    return command


def encoded_reply(
    request: Command,
    code: int,
    ext_json: bytes,
    remark_json: bytes | None,
    body: Buffer | Sequence[Buffer],
) -> Command:
    """A reply to a request in JSON, whose head is made already."""
    head = json_header.json_head(
        code, ext_json, 1, b"PYTHON", request.opaque, remark_json, _CURRENT, size_of(body)
    )
    reply = new_command()
    reply.code = code
    reply.flag = 1
    reply.opaque = request.opaque
    reply.language = _PYTHON
    reply.version = _CURRENT
    reply.serialize_type = _JSON
    reply._frame = head
    reply._header_at = 8
    reply._header_end = len(head)
    reply._body_end = len(head)
    reply._body = body
    reply._is_encoded = True
    reply._has_ext_fields = True
    return reply


def size_of(body: Buffer | Sequence[Buffer]) -> int:
    """How many bytes a body has, in one piece or several."""
    if not isinstance(body, (list, tuple)):
        return len(body)
    size = 0
    for part in body:
        size += len(part)
    return size


def address_of(buffer: Buffer) -> Buffer:
    """Where bytes or a bytearray begin in memory."""
    if isinstance(buffer, bytes):
        return memory.address(buffer)
    return memory.room(buffer)  # type: ignore[arg-type]


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, which orjson does not write
        return json.dumps(value)
