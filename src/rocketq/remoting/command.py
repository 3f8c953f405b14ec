"""One message of the protocol, request or response: header and body.

A command that came off the wire keeps the frame it came in. Code, opaque, flag, language
and version are known at once; the remark, the ext fields and the body are taken out of the
frame when somebody asks for them, because most are never asked for.

    request = Command.request(QueryConsumerOffset(consumer_group=..., topic=..., queue_id=0))
    header = request.header(QueryConsumerOffset)
    reply = request.reply(QueryConsumerOffsetResponse(offset=12))
    transport.writelines(reply.encode())

How long a body lives: it is valid as long as it is held. A large one is a view of what was
read from the socket and keeps that alive, up to a quarter of a megabyte beside itself, so
whoever keeps a body beyond the request copies it (`bytes(command.body)`).
"""

from rocketq.remoting.binary_header import decode_binary_header, encode_binary_header
from rocketq.remoting.codes import LanguageCode, SerializeType, Version
from rocketq.remoting.errors import BadFrame
from rocketq.remoting.json_header import HeaderFields, decode_json_header, encode_json_header

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2

_JSON = int(SerializeType.JSON)
_BINARY = int(SerializeType.ROCKETMQ)
_LANGUAGE = int(LanguageCode.PYTHON)
_VERSION = int(Version.CURRENT)

# Up to this size a copy is cheaper than a view.
_SMALL_BODY = 4096

_last_opaque = 0


def next_opaque():
    """A number for a new request, unique in this process; never 0, which ali-ons misreads."""
    global _last_opaque
    _last_opaque = 1 if _last_opaque == 0x7FFFFFFF else _last_opaque + 1
    return _last_opaque


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
        language=_LANGUAGE,
        version=_VERSION,
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
        self._body = body
        self._frame = None
        self._header_at = 0
        self._header_end = 0
        self._body_end = 0

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

    # -- off the wire ---------------------------------------------------------------------

    @staticmethod
    def decode(frame):
        """The command in one whole frame, length word included."""
        if len(frame) < 8:
            raise BadFrame(f"frame of {len(frame)} bytes")
        length = int.from_bytes(frame[:4], "big", signed=True)
        if length != len(frame) - 4:
            raise BadFrame(f"frame says {length} bytes, has {len(frame) - 4}")
        return decode_at(bytes(frame), 0, len(frame))

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
        return self._remark

    @remark.setter
    def remark(self, remark):
        self._remark = remark

    @property
    def ext_fields(self):
        """The ext fields; changes made to them are sent."""
        if self._ext_fields is None:
            self._ext_fields = {}
        return self._ext_fields

    @property
    def has_ext_fields(self):
        """Whether there is a header at all, be it an empty one."""
        return self._ext_fields is not None

    @property
    def body(self):
        """The body in one piece; `b""` when there is none."""
        body = self._body
        if body is None:
            start = self._header_end
            size = self._body_end - start
            if size <= _SMALL_BODY:
                body = bytes(self._frame[start : self._body_end])
            else:
                body = memoryview(self._frame)[start : self._body_end]
            self._body = body
        elif isinstance(body, list):
            body = b"".join(body)
        return body

    @body.setter
    def body(self, body):
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

    # -- to the wire ----------------------------------------------------------------------

    def encode(self):
        """The frame as a list of buffers: its head, then the body, which is not copied."""
        out = []
        self.encode_into(out)
        return out

    def encode_into(self, out):
        """Append the frame's buffers to a list; how many bytes they hold."""
        fields = HeaderFields(
            self.code,
            self.language,
            self.version,
            self.opaque,
            self.flag,
            self._remark,
            self._ext_fields,
        )
        if self.serialize_type == _BINARY:
            header = encode_binary_header(fields)
        else:
            header = encode_json_header(fields)
        body = self._body
        parts = body if isinstance(body, list) else (self.body,)
        body_size = 0
        for part in parts:
            body_size += len(part)
        head = b"".join(
            (
                (4 + len(header) + body_size).to_bytes(4, "big"),
                (self.serialize_type << 24 | len(header)).to_bytes(4, "big"),
                header,
            )
        )
        out.append(head)
        if body_size:
            out.extend(parts)
        return len(head) + body_size

    def __repr__(self):
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        return (
            f"<{kind} code={self.code} opaque={self.opaque} remark={self.remark!r}"
            f" ext_fields={self.ext_fields!r} body={len(self.body)} bytes>"
        )


def decode_at(frame, start, end):
    """The command whose frame, length word included, lies at `frame[start:end]`."""
    word = int.from_bytes(frame[start + 4 : start + 8], "big")
    serialize_type = word >> 24
    header_at = start + 8
    header_end = header_at + (word & 0xFFFFFF)
    if header_end > end:
        raise BadFrame(f"header of {word & 0xFFFFFF} bytes in a frame of {end - start}")
    raw = memoryview(frame)[header_at:header_end]
    if serialize_type == _JSON:
        fields = decode_json_header(raw)
    elif serialize_type == _BINARY:
        fields = decode_binary_header(raw)
    else:
        raise BadFrame(f"unknown header encoding {serialize_type}")
    command = Command.__new__(Command)
    command.code = fields.code
    command.language = fields.language
    command.version = fields.version
    command.opaque = fields.opaque
    command.flag = fields.flag
    command.serialize_type = serialize_type
    command._remark = fields.remark
    command._ext_fields = fields.ext_fields
    command._body = None
    command._frame = frame
    command._header_at = header_at
    command._header_end = header_end
    command._body_end = end
    return command
