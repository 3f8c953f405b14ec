"""The JSON form of a frame's header, read in general; `Command` writes it.

    {"code":105,"extFields":{"topic":"TopicA"},"flag":0,"language":"JAVA","opaque":7,
     "serializeTypeCurrentRPC":"JSON","version":479}

Written like Java does: keys in alphabetical order, no blanks, what is absent left out, and
nothing but strings in `extFields`. Read as leniently as fastjson reads it; numbers and
booleans in `extFields`, which clients other than Java put there, become their text.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rocketq.common import json
from rocketq.common.numbers import parse_int32
from rocketq.remoting.codes import LanguageCode
from rocketq.remoting.errors import BadFrame

_LANGUAGES = {language.name: language.value for language in LanguageCode}
_LANGUAGE_NAMES = {language.value: language.name for language in LanguageCode}
_ENCODED_NAMES = {language.value: language.name.encode() for language in LanguageCode}


# Java's largest header has some thirty.
EXT_FIELD_LIMIT: Final = 1024


class HeaderFields(NamedTuple):
    """What a header says, whichever way it was encoded."""

    code: int
    language: int
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext_fields: dict[str, str] | None


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


_OTHER = LanguageCode.OTHER.value


def language_name(language: int) -> bytes:
    """The name of a language as JSON headers have it."""
    return _ENCODED_NAMES.get(language, b"OTHER")


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
