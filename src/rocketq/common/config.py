"""RocketMQ's `.conf` and `.properties` files as frozen dataclasses.

A field's key is its name in camelCase (`flush_interval_ms` -> `flushIntervalMs`); where
RocketMQ's own spelling cannot be derived, the field says it: `field(metadata=key("brokerIP1"))`.
Values are int, float, bool, str, Path, an Enum (by name) or one of these or None.

    config = load(StoreConfig, parse_properties(path.read_text()))

A key nobody knows is a warning that names the nearest known one, a value that does not
fit is an error that names key, value and what is allowed. No value has control characters:
a line feed in one would become a line of its own, and a key of its own, in the file that a
server writes its settings to.
"""

import dataclasses
import difflib
import enum
import logging
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from rocketq.common.buffers import Buffer
from rocketq.common.errors import RocketqError
from rocketq.common.naming import camel_case
from rocketq.common.numbers import parse_float, parse_int64

logger = logging.getLogger(__name__)

C = TypeVar("C")


class ConfigError(RocketqError):
    """A configuration that cannot be used as it is."""


def key(name: str) -> dict[str, str]:
    """Field metadata for a key that cannot be derived from the field's name."""
    return {"key": name}


# Text <-> properties

_BACKSLASH: Final = "\\"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_HIDDEN: Final = "******"
_CHANGES_LIMIT: Final = 64 * 1024
_PAIR = re.compile(r"((?:[^\\:=\s]|\\.)*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties syntax: `key=value` or `key: value`, comments after `#` or `!`.

    A backslash at a line's end continues it. Blanks after a value are dropped, as nobody
    means them.
    """
    properties = {}
    for line in _logical_lines(text):
        match = _PAIR.match(line)
        assert match is not None, line  # matches anything
        properties[_unescape(match[1])] = _unescape(match[2].rstrip())
    return properties


def parse_changes(body: Buffer) -> dict[str, str]:
    """Settings that somebody wants changed over the wire, in properties syntax."""
    if len(body) > _CHANGES_LIMIT:
        raise ConfigError(f"{len(body)} bytes of settings, allowed are {_CHANGES_LIMIT}")
    try:
        return parse_properties(bytes(body).decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"the settings are not a text: {error}") from None


def _logical_lines(text: str) -> list[str]:
    """Lines without comments and blank ones, continued lines joined."""
    lines = []
    parts: list[str] = []
    for physical in re.split(r"\r\n|\r|\n", text):
        line = physical.lstrip(" \t\f")
        if not parts and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2 == 1:
            parts.append(line[:-1])
        else:
            lines.append("".join([*parts, line]))
            parts = []
    if parts:
        lines.append("".join(parts))
    return lines


def _unescape(text: str) -> str:
    def resolve(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(resolve, text)


def format_properties(config: object) -> str:
    """All settings as `key=value` lines."""
    return format_lines(to_properties(config))


def format_lines(properties: Mapping[str, str]) -> str:
    """The form in which servers report their settings and write them to files.

    A backslash is doubled: one at the end of a value would continue its line.
    """
    return "".join(
        f"{name}={value.replace(_BACKSLASH, _BACKSLASH * 2)}\n"
        for name, value in properties.items()
    )


def to_properties(config: object) -> dict[str, str]:
    """Key -> value text of every setting that has one."""
    return {
        name: _format_value(getattr(config, setting.field))
        for name, setting in settings(type(config)).items()
        if getattr(config, setting.field) is not None
    }


def to_shown(config: object) -> dict[str, str]:
    """The same for people, with secrets hidden."""
    secret = secret_keys(type(config))
    return {
        name: _HIDDEN if value and name in secret else value
        for name, value in to_properties(config).items()
    }


def secret_keys(cls: type) -> frozenset[str]:
    """The keys that nobody is shown: fields that are left out of `repr`."""
    assert dataclasses.is_dataclass(cls), cls
    hidden = {field.name for field in dataclasses.fields(cls) if not field.repr}
    return frozenset(key for key, setting in settings(cls).items() if setting.field in hidden)


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return value.name
    return str(value)


# Properties <-> dataclass


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One key of a configuration class."""

    key: str
    field: str
    kind: type
    optional: bool


def settings(cls: type) -> Mapping[str, Setting]:
    """The keys that a configuration class knows."""
    assert dataclasses.is_dataclass(cls), cls
    hints = typing.get_type_hints(cls)
    found = {}
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        name = field.metadata.get("key") or camel_case(field.name)
        kind, optional = _kind(hints[field.name])
        found[name] = Setting(name, field.name, kind, optional)
    return types.MappingProxyType(found)


def _kind(hint: Any) -> tuple[type, bool]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        assert len(kinds) == 1, hint
        return kinds[0], True
    return hint, False


def load(cls: type[C], properties: Mapping[str, str]) -> C:
    """Build a configuration; unknown keys are warned about."""
    return load_all(properties, cls)[0]  # type: ignore[no-any-return]


def load_all(properties: Mapping[str, str], *classes: type) -> tuple[Any, ...]:
    """Build several configurations out of one file, as `broker.conf` holds broker and store."""
    warn_about_unknown(properties, *classes)
    return tuple(build(cls, properties) for cls in classes)


def build(cls: type[C], properties: Mapping[str, str]) -> C:
    """Build a configuration; keys that it does not have are left to others."""
    return cls(**_values(cls, properties))


def update(config: C, properties: Mapping[str, str]) -> C:
    """The same configuration with some settings changed; keys of others are left to them."""
    values = _values(type(config), properties)
    return dataclasses.replace(config, **values) if values else config  # type: ignore[type-var]


def warn_about_unknown(properties: Mapping[str, str], *classes: type) -> None:
    """One line for each key that none of the classes has."""
    known = [name for cls in classes for name in settings(cls)]
    for name in properties:
        if name in known:
            continue
        nearest = nearest_key(name, known)
        hint = f"; did you mean {nearest}?" if nearest else ""
        logger.warning("unknown configuration key %s is ignored%s", name, hint)


def nearest_key(name: str, known: Iterable[str]) -> str | None:
    """The known key that somebody most likely meant; none where nothing is alike."""
    by_lower = {each.lower(): each for each in known}
    nearest = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[nearest[0]] if nearest else None


def _values(cls: type, properties: Mapping[str, str]) -> dict[str, Any]:
    known = settings(cls)
    return {
        known[name].field: parse_value(known[name], text)
        for name, text in properties.items()
        if name in known
    }


def parse_value(setting: Setting, text: str) -> Any:
    """Convert one value, or say what would have been allowed."""
    if _CONTROL.search(text):
        raise _refused(setting, repr(text), "a text without line feeds and the like")
    text = text.strip()
    if setting.optional and not text:
        return None
    kind = setting.kind
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise _refused(setting, text, "true or false")
    if kind is int:
        number = parse_int64(text)
        if number is None:
            raise _refused(setting, text, "a whole number")
        return number
    if kind is float:
        decimal = parse_float(text)
        if decimal is None:
            raise _refused(setting, text, "a number")
        return decimal
    if issubclass(kind, enum.Enum):
        names = {member.name.upper(): member for member in kind}
        if text.upper() in names:
            return names[text.upper()]
        raise _refused(setting, text, "one of " + ", ".join(member.name for member in kind))
    if kind is Path:
        return Path(text)
    assert kind is str, setting
    return text


def check_ranges(config: object, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Refuse numbers that lie outside: field -> the least and the greatest allowed value."""
    for setting in settings(type(config)).values():
        value = getattr(config, setting.field)
        if setting.field not in ranges or value is None:
            continue
        least, greatest = ranges[setting.field]
        if not least <= value <= greatest:
            allowed = f"{least} to {greatest}" if greatest < math.inf else f"at least {least}"
            raise _refused(setting, str(value), allowed)


def _refused(setting: Setting, text: str, allowed: str) -> ConfigError:
    return ConfigError(f"{setting.key}={text}: must be {allowed}")
