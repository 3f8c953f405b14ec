"""Writes JSON as RocketMQ's programs do, with raw keys where Java has them."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import orjson

from rocketq.common.json.dialect import ObjectKey
from rocketq.common.naming import camel_case

# orjson lets no other thread run while it writes: a large table is handed to it in parts.
_PART: Final = 1_000


def dumps(value: Any) -> bytes:
    """Compact, with raw keys.

    Takes plain data and objects with a `to_json` method that turns them into such. Keys of
    maps may be str, int, ObjectKey and NamedTuple.
    """
    if isinstance(value, dict) and any(map(_is_large, value.values())):
        return b"{%b}" % b",".join(
            [b"%b:%b" % (_dump_key(name), _dump_parts(item)) for name, item in value.items()]
        )
    return _dump(value)


def _is_large(value: Any) -> bool:
    return isinstance(value, dict) and len(value) > _PART


def _dump_parts(value: Any) -> bytes:
    """As below, with pauses for others in a large map."""
    if not _is_large(value):
        return _dump(value)
    items = iter(value.items())
    parts = iter(lambda: dict(islice(items, _PART)), {})
    return b"{%b}" % b",".join([_dump(part)[1:-1] for part in parts])


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value, _plain, orjson.OPT_PASSTHROUGH_DATACLASS)
    except (TypeError, orjson.JSONEncodeError):
        # Raw keys somewhere inside: write this level by hand, and offer orjson its parts.
        pass
    if isinstance(value, Mapping):
        return b"{%b}" % b",".join(
            [b"%b:%b" % (_dump_key(name), _dump(item)) for name, item in value.items()]
        )
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join([_dump(item) for item in value])
    if hasattr(value, "to_json"):
        return _dump(value.to_json())
    return _dump_scalar(value)


def _plain(value: Any) -> Any:
    """What orjson cannot write, as something it can."""
    if hasattr(value, "to_json"):
        return value.to_json()
    raise TypeError(value)


def dumps_pretty(value: Any) -> bytes:
    """One entry a line, indented with tabs, raw keys: the layout of 5.5.0's config files."""
    parts: list[bytes] = []
    _write_pretty(value, b"\n", parts)
    return b"".join(parts)


def pretty_pieces(value: Mapping[str, Any]) -> Iterator[bytes]:
    """The same in pieces, for large tables: one for each entry of the maps in a map."""
    separator = b"{\n\t"
    for name, item in value.items():
        parts = [separator, _dump_key(name), b":"]
        separator = b",\n\t"
        if isinstance(item, Mapping) and item:
            inner = b"{\n\t\t"
            for inner_name, inner_item in item.items():
                parts += (inner, _dump_key(inner_name), b":")
                _write_pretty(inner_item, b"\n\t\t", parts)
                yield b"".join(parts)
                parts, inner = [], b",\n\t\t"
            yield b"\n\t}"
        else:
            _write_pretty(item, b"\n\t", parts)
            yield b"".join(parts)
    yield b"\n}" if value else dumps(value)


def _write_pretty(value: Any, line_end: bytes, parts: list[bytes]) -> None:
    if hasattr(value, "to_json"):
        value = value.to_json()
    if isinstance(value, Mapping) and value:
        inner = line_end + b"\t"
        separator = b"{" + inner
        for name, item in value.items():
            parts.append(separator)
            parts.append(_dump_key(name) + b":")
            _write_pretty(item, inner, parts)
            separator = b"," + inner
        parts.append(line_end + b"}")
    elif isinstance(value, list | tuple) and value:
        inner = line_end + b"\t"
        separator = b"[" + inner
        for item in value:
            parts.append(separator)
            _write_pretty(item, inner, parts)
            separator = b"," + inner
        parts.append(line_end + b"]")
    else:
        parts.append(dumps(value))


def standard_dumps(value: Any) -> bytes:
    """Compact strict JSON: keys quoted and sorted, ASCII only, whole numbers beyond 2^53 quoted."""
    text = json.dumps(_standardised(value), separators=(",", ":"), allow_nan=False)
    return text.replace("/", "\\/").encode("ascii")


_BROWSER_SAFE: Final = 2**53 - 1


def _standardised(value: Any) -> Any:
    if hasattr(value, "to_json"):
        value = value.to_json()
    if isinstance(value, Mapping):
        # Numbers sort as numbers, before they become text.
        names = sorted(value, key=lambda name: (isinstance(name, str), name))
        return {_plain_key(name): _standardised(value[name]) for name in names}
    if isinstance(value, list | tuple):
        return [_standardised(item) for item in value]
    if isinstance(value, int) and not -_BROWSER_SAFE <= value <= _BROWSER_SAFE:
        return str(value)
    return value


def _plain_key(name: Any) -> str:
    return name if isinstance(name, str) else _dump_key(name).decode()


def _dump_key(name: Any) -> bytes:
    if isinstance(name, str):
        return _dump_scalar(name)
    if isinstance(name, bool):
        return b"true" if name else b"false"
    if isinstance(name, int):
        return b"%d" % name
    if isinstance(name, ObjectKey):
        return dumps(dict(name))
    if isinstance(name, tuple) and hasattr(name, "_asdict"):
        fields = {camel_case(field): item for field, item in name._asdict().items()}
        return dumps(dict(sorted(fields.items())))
    raise TypeError(f"not a key: {name!r}")


def _dump_scalar(value: Any) -> bytes:
    """What orjson refuses to write: numbers beyond 64 bits, lone surrogates, numpy and such."""
    if isinstance(value, str):
        text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return orjson.dumps(text)
    if isinstance(value, int):
        return b"%d" % value
    raise TypeError(f"cannot be written as JSON: {value!r}")
