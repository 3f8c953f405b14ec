# cython: annotation_typing=False
"""The JSON form of a frame's header: read in general, and written.

    {"code":105,"extFields":{"topic":"TopicA"},"flag":0,"language":"JAVA","opaque":7,
     "remark":"...","serializeTypeCurrentRPC":"JSON","version":479}

Written like Java does: keys in alphabetical order, no blanks, what is absent left out, and
nothing but strings in `extFields`. Read as leniently as fastjson reads it; numbers and
booleans in `extFields`, which clients other than Java put there, become their text.

Compiled where possible (json_header.pxd gives the types). A head is put together in one
buffer that is used again and again; only the result is made anew.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rocketq.common import json, memory
from rocketq.common.numbers import parse_int32
from rocketq.remoting.codes import LanguageCode
from rocketq.remoting.errors import BadFrame

_LANGUAGES: Final = {language.name: language.value for language in LanguageCode}
_LANGUAGE_NAMES: Final = {language.value: language.name for language in LanguageCode}
_ENCODED_NAMES: Final = {language.value: language.name.encode() for language in LanguageCode}
_OTHER: Final = LanguageCode.OTHER.value

# Java's largest header has some thirty.
EXT_FIELD_LIMIT: Final = 1024

_SCRATCH_SIZE = 8192
_SCRATCH = bytearray(_SCRATCH_SIZE)

# What a header holds besides ext fields and remark, with numbers at their longest.
_FIXED_SIZE = 256


class HeaderFields(NamedTuple):
    """What a header says, whichever way it was encoded."""

    code: int
    language: int
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext_fields: dict[str, str] | None


# Writing


def json_head(
    code: int,
    ext_json: bytes | None,
    flag: int,
    language: bytes,
    opaque: int,
    remark_json: bytes | None,
    version: int,
    body_size: int,
) -> bytes:
    """Everything of a frame but its body; `None` for ext fields or a remark leaves them out."""
    size = _FIXED_SIZE
    if ext_json is not None:
        size += len(ext_json)
    if remark_json is not None:
        size += len(remark_json)
    buffer = buffer_for(size)
    out = memory.room(buffer)
    at = memory.put(out, 8, b'{"code":')
    at = memory.put_number(out, at, code)
    if ext_json is not None:
        at = memory.put(out, at, b',"extFields":')
        at = memory.put(out, at, ext_json)
    at = memory.put(out, at, b',"flag":')
    at = memory.put_number(out, at, flag)
    at = memory.put(out, at, b',"language":"')
    at = memory.put(out, at, language)
    at = memory.put(out, at, b'","opaque":')
    at = memory.put_number(out, at, opaque)
    if remark_json is not None:
        at = memory.put(out, at, b',"remark":')
        at = memory.put(out, at, remark_json)
    at = memory.put(out, at, b',"serializeTypeCurrentRPC":"JSON","version":')
    at = memory.put_number(out, at, version)
    at = memory.put(out, at, b"}")
    memory.put32(out, 0, at - 4 + body_size)
    memory.put32(out, 4, at - 8)
    return memory.bytes_at(out, 0, at)


def buffer_for(size: int) -> bytearray:
    """Room for something that is copied from it before anybody else asks for it."""
    return _SCRATCH if size <= _SCRATCH_SIZE else memory.unfilled(size)


def language_name(language: int) -> bytes:
    """The name of a language as JSON headers have it."""
    return _ENCODED_NAMES.get(language, b"OTHER")


# Reading


def decode_json_header(raw: bytes | bytearray | memoryview) -> HeaderFields:
    """Read a header, or raise BadFrame."""
    try:
        header = json.loads(raw, json.HEADER_LIMITS)
    except json.JsonError as error:
        raise BadFrame(f"header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise BadFrame("header is not a JSON object")
    return HeaderFields(
        code=_int32(header, "code"),
        language=_language(header.get("language", "JAVA")),
        version=_int32(header, "version"),
        opaque=_int32(header, "opaque"),
        flag=_int32(header, "flag"),
        remark=_text(header.get("remark")),
        ext_fields=_ext_fields(header.get("extFields")),
    )


def _int32(header: Mapping[str, Any], name: str) -> int:
    value = header.get(name)
    if value is None:
        return 0
    if isinstance(value, str):
        value = parse_int32(value)
    if not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise BadFrame(f"header field {name} is not a 32-bit number")
    return int(value)


def _language(value: Any) -> int:
    if isinstance(value, str):
        return _LANGUAGES.get(value, _OTHER)
    if isinstance(value, int) and value in _LANGUAGE_NAMES:
        return int(value)
    return _OTHER


def _ext_fields(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadFrame("extFields is not a JSON object")
    if len(value) > EXT_FIELD_LIMIT:
        raise BadFrame(f"{len(value)} ext fields, allowed are {EXT_FIELD_LIMIT}")
    return {str(name): text for name, item in value.items() if (text := _text(item)) is not None}


def _text(value: Any) -> str | None:
    """The text form that Java gives a value; `None` when there is none."""
    if value is None or isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(value).decode()
