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

Compiled where possible (command.pxd gives the types), the same code runs uncompiled.
"""

import struct

import cython
import orjson

from rocketq.common import json
from rocketq.remoting.codes import LanguageCode, SerializeType, Version
from rocketq.remoting.wire.binary_header import encode_binary_header
from rocketq.remoting.wire.json_header import HeaderFields, decode_json_header, language_name

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
    from cython.cimports.rocketq.remoting.wire.json_head import json_head
else:
    from rocketq.remoting.wire.json_head import json_head

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2

_WORDS = struct.Struct(">II")

_JSON = int(SerializeType.JSON)
_BINARY = int(SerializeType.ROCKETMQ)
_PYTHON = int(LanguageCode.PYTHON)
_CURRENT = int(Version.CURRENT)

_last_opaque = 0


def next_opaque():
    """A number for a new request, unique in this process; never 0, which ali-ons misreads."""
    global _last_opaque
    _last_opaque = 1 if _last_opaque == 0x7FFFFFFF else _last_opaque + 1
    return _last_opaque


@cython.freelist(64)
@cython.cclass
class Command:
    """A request or a response."""

    def __init__(
        self,
        code,
        *,
        ext_fields=None,
        body=b"",
        remark=None,
        flag=0,
        opaque=0,
        language=_PYTHON,
        version=_CURRENT,
        serialize_type=_JSON,
    ):
        self.code = code
        self.language = language
        self.version = version
        self.opaque = opaque
        self.flag = flag
        self.serialize_type = serialize_type
        self._remark = remark
        self._ext_fields = ext_fields
        self._has_ext_fields = ext_fields is not None
        self._body = body
        self._frame = None
        self._header_at = 0
        self._header_end = 0
        self._body_end = 0
        self._is_encoded = False
        self._entry_count = -1

    # -- made here ------------------------------------------------------------------------

    @staticmethod
    def request(header, body=b"", *, code=None, ext=None, oneway=False):
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

    def reply(self, header=None, body=b"", *, code=0, remark=None, ext=None):
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

    # -- what it says ---------------------------------------------------------------------

    @property
    def is_response(self):
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self):
        """Whether nobody waits for an answer. Go and ali-ons never say so: see 1.5."""
        return self.flag & 3 == ONEWAY_FLAG

    @property
    def remark(self):
        self._unpack()
        return self._remark

    @remark.setter
    def remark(self, remark):
        self._unpack()
        self._remark = remark

    @property
    def ext_fields(self):
        """The ext fields; changes made to them are sent."""
        self._unpack()
        if self._ext_fields is None:
            self._ext_fields = {}
        return self._ext_fields

    @property
    def has_ext_fields(self):
        """Whether there is a header at all, be it an empty one."""
        return self._has_ext_fields or bool(self._ext_fields)

    @property
    def body(self):
        """The body in one piece; `b""` when there is none. Up to 4096 bytes are copied."""
        body = self._body
        if body is None:
            start: cython.Py_ssize_t = self._header_end
            size: cython.Py_ssize_t = self._body_end - start
            if cython.compiled and size <= 4096:
                body = PyBytes_FromStringAndSize(
                    cython.cast("const char *", address_of(self._frame)) + start, size
                )
            else:
                body = memoryview(self._frame)[start : self._body_end]
                if size <= 4096:
                    body = bytes(body)
            self._body = body
        elif isinstance(body, (list, tuple)):
            body = b"".join(body)
        return body

    @body.setter
    def body(self, body):
        self._unpack()
        self._body = body

    @property
    def raw_header(self):
        """The header's bytes as they came; empty for a command made here."""
        if self._frame is None:
            return memoryview(b"")
        return memoryview(self._frame)[self._header_at : self._header_end]

    def header(self, cls):
        """The typed header."""
        return cls.from_ext_fields(self.ext_fields)

    def _unpack(self):
        """Take remark and ext fields out of the frame, if that has not been done."""
        if self._is_encoded:
            # Made as a whole frame (`fast_headers`); from now on its parts count.
            self._is_encoded = False
            fields = decode_json_header(self.raw_header)
            self._remark = fields.remark
            self._ext_fields = fields.ext_fields
            self._has_ext_fields = True
        elif cython.compiled and self._entry_count >= 0:
            i: cython.int
            if self._remark_at > 0:
                self._remark = self._text_at(
                    self._remark_at, self._remark_size, self._remark_is_escaped
                )
            if self._has_ext_fields:
                ext_fields: dict = {}
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

    def _text_at(self, at, size, is_escaped):
        """A piece of the frame as text; what is not UTF-8 is replaced, as in Java."""
        if is_escaped:
            # With the quotes around it.
            return json.loads(memoryview(self._frame)[at - 1 : at + size + 1], json.HEADER_LIMITS)
        if cython.compiled:
            return PyUnicode_DecodeUTF8(
                cython.cast("const char *", address_of(self._frame)) + at, size, b"replace"
            )
        else:
            return bytes(self._frame[at : at + size]).decode("utf-8", "replace")

    # -- to the wire ----------------------------------------------------------------------

    def encode(self):
        """The frame as a list of buffers: its head, then the body, which is not copied."""
        out = []
        self.encode_into(out)
        return out

    def encode_into(self, out):
        """Append the frame's buffers to a list; how many bytes they hold."""
        body = self._body
        if body is None:
            body = self.body
        if isinstance(body, (list, tuple)):
            body_size = 0
            for part in body:
                body_size += len(part)
        else:
            body_size = len(body)
        head = self._frame if self._is_encoded else self._encode_head(body_size)
        out.append(head)
        if body_size:
            if isinstance(body, (list, tuple)):
                out.extend(body)
            else:
                out.append(body)
        return len(head) + body_size

    def _encode_head(self, body_size):
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
        return json_head(
            self.code,
            None if fields is None else _json(fields),
            self.flag,
            language_name(self.language),
            self.opaque,
            None if remark is None else _json(remark),
            self.version,
            body_size,
        )

    def __repr__(self):
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        return (
            f"<{kind} code={self.code} opaque={self.opaque} remark={self.remark!r}"
            f" ext_fields={self.ext_fields!r} body={len(self.body)} bytes>"
        )


def _json(value):
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, which orjson does not write
        return json.dumps(value)


def address_of(buffer):
    """Where a buffer begins in memory; uncompiled the buffer itself, which is indexed alike."""
    if cython.compiled:
        if isinstance(buffer, bytes):
            return cython.cast("const unsigned char *", PyBytes_AS_STRING(buffer))
        return cython.cast("const unsigned char *", PyByteArray_AS_STRING(buffer))
    else:
        return buffer
