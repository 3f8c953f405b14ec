"""The binary (ROCKETMQ) form of a frame's header, read and written in general.

    code        int16
    language    int8
    version     int16
    opaque      int32
    flag        int32
    remark      int32 length, text          length 0: no remark
    ext length  int32                       bytes that follow; 0: no fields
    ext fields  int16 length, name, int32 length, value, ...

All big-endian, all text UTF-8. A code above 32767 does not fit: the codes of pop travel as
their low 16 bits, and are mapped back here because nothing else uses those numbers.
"""

import struct

from rocketq.remoting.codes import RequestCode
from rocketq.remoting.errors import BadFrame
from rocketq.remoting.wire.json_header import EXT_FIELD_LIMIT, HeaderFields

_FIXED = struct.Struct(">hbhiii")  # up to and with the remark's length
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
assert _FIXED.size + _INT32.size == 21

_CUT_CODES = {code.value & 0xFFFF: code.value for code in RequestCode if code > 0x7FFF}


def decode_binary_header(raw: bytes | bytearray | memoryview) -> HeaderFields:
    """Read a header, or raise BadFrame."""
    header = bytes(raw)
    if len(header) < 21:
        raise BadFrame(f"binary header of {len(header)} bytes")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    at = _FIXED.size
    remark_end = at + remark_size
    if remark_size < 0 or remark_end + 4 > len(header):
        raise BadFrame(f"remark of {remark_size} bytes in a header of {len(header)}")
    remark = header[at:remark_end].decode("utf-8", "replace") if remark_size else None
    (ext_size,) = _INT32.unpack_from(header, remark_end)
    at = remark_end + 4
    if ext_size < 0 or at + ext_size > len(header):
        raise BadFrame(f"ext fields of {ext_size} bytes in a header of {len(header)}")
    ext_fields = _decode_ext_fields(header, at, at + ext_size) if ext_size else None
    if not flag & 1:
        code = _CUT_CODES.get(code, code)
    return HeaderFields(code, language & 0xFF, version, opaque, flag, remark, ext_fields)


def _decode_ext_fields(header: bytes, at: int, end: int) -> dict[str, str]:
    ext_fields: dict[str, str] = {}
    while at < end:
        if at + 2 > end:
            raise BadFrame("ext field cut off")
        if len(ext_fields) == EXT_FIELD_LIMIT:
            raise BadFrame(f"more than {EXT_FIELD_LIMIT} ext fields")
        (name_size,) = _INT16.unpack_from(header, at)
        value_at = at + 2 + name_size + 4
        if name_size < 0 or value_at > end:
            raise BadFrame(f"ext field name of {name_size} bytes")
        (value_size,) = _INT32.unpack_from(header, value_at - 4)
        if value_size < 0 or value_at + value_size > end:
            raise BadFrame(f"ext field value of {value_size} bytes")
        name = header[at + 2 : value_at - 4].decode("utf-8", "replace")
        at = value_at + value_size
        ext_fields[name] = header[value_at:at].decode("utf-8", "replace")
    return ext_fields


def encode_binary_header(fields: HeaderFields) -> bytes:
    """Write a header."""
    remark = fields.remark.encode("utf-8", "replace") if fields.remark else b""
    parts = []
    for name, value in (fields.ext_fields or {}).items():
        name_bytes = name.encode("utf-8", "replace")
        value_bytes = value.encode("utf-8", "replace")
        parts += [
            _INT16.pack(len(name_bytes)),
            name_bytes,
            _INT32.pack(len(value_bytes)),
            value_bytes,
        ]
    ext = b"".join(parts)
    fixed = _FIXED.pack(
        _int16(fields.code),
        fields.language - 256 if fields.language > 127 else fields.language,
        _int16(fields.version),
        fields.opaque,
        fields.flag,
        len(remark),
    )
    return b"".join((fixed, remark, _INT32.pack(len(ext)), ext))


def _int16(number: int) -> int:
    """The low 16 bits as a signed number, which is what Java sends of a larger one."""
    return ((number & 0xFFFF) ^ 0x8000) - 0x8000
