# cython: annotation_typing=False
"""All that the wire knows of a signed request: who signed it, and what exactly was signed.

Every request of a cluster with users is looked at so. The fields are read where they lie, and
stay there for whoever reads them next; the general way is `remoting/access/signature.py`, and
tests hold both against each other.

Compiled where possible (signed.pxd gives the types).
"""

from binascii import b2a_base64
from hmac import compare_digest
from typing import Any

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.remoting.wire import command as commands
from rocketq.remoting.wire import scan
from rocketq.remoting.wire.command import Command


class SignedFields:
    """Who says to have signed, the signature, and the bytes that it is about."""

    access_key: str
    signature: bytes
    content: bytes


def read_signed(command: Command) -> SignedFields | None:
    """The parts of a signed request; None if it takes the general way."""
    if command._entry_count < 0:
        return None
    base = commands.address_of(command._frame)
    _sort(command, base)
    fields = SignedFields.__new__(SignedFields)
    fields.access_key = ""
    fields.signature = b""
    room = 0
    for i in range(command._entry_count):
        room += command._entries[i].value_size
    # Not the one buffer for everybody: a value may be read by way of it.
    values = memory.unfilled(room)
    out = memory.room(values)
    used = 0
    for i in range(command._entry_count):
        if scan.name_is(command, base, i, b"Signature", 9):
            fields.signature = scan.raw_value(command, base, i)
            continue
        if scan.name_is(command, base, i, b"AccessKey", 9):
            fields.access_key = scan.text_value(command, i)
        end = scan.put_value(command, base, i, out, used)
        if end < 0:
            value = scan.raw_value(command, base, i)
            if len(value) > command._entries[i].value_size:
                return None  # not UTF-8, and longer once that is replaced
            end = memory.put(out, used, value)
        used = end
    body = command.body
    if len(body):
        fields.content = b"".join((memory.view(out, 0, used), body))
    else:
        fields.content = memory.bytes_at(out, 0, used)
    return fields


def is_match(fields: SignedFields, inner: Any, outer: Any) -> bool:
    """Whether a secret has signed, of which HMAC's inside and outside have been begun."""
    first = inner.copy()
    first.update(fields.content)
    second = outer.copy()
    second.update(first.digest())
    return compare_digest(fields.signature, b2a_base64(second.digest(), newline=False))


def is_allowed(
    command: Command,
    code: int,
    names: tuple[bytes, ...],
    host: str,
    allowed: set[tuple[int, str, str, tuple[str, ...]]],
    secrets: dict[str, tuple[Any, Any]],
) -> bool:
    """Whether a request is like one that was let in before, and signed by the same user.

    `names`: the fields that decide, with code, user and host, what is allowed. `secrets`: what
    `is_match` wants, by user.
    """
    fields = read_signed(command)
    if fields is None:
        return False
    if (code, fields.access_key, host, fields_of(command, names)) not in allowed:
        return False
    secret = secrets.get(fields.access_key)
    return secret is not None and is_match(fields, secret[0], secret[1])


def field_of(command: Command, name: str) -> str:
    """The value of one field, whatever has been read of a command; empty if there is none."""
    if command._entry_count < 0:
        return command.ext_fields.get(name, "")
    base = commands.address_of(command._frame)
    word = name.encode()
    for i in range(command._entry_count - 1, -1, -1):  # of two of a name the last counts
        if scan.name_is(command, base, i, word, len(word)):
            return scan.text_value(command, i)
    return ""


def fields_of(command: Command, names: tuple[bytes, ...]) -> tuple[str, ...]:
    """The values of some fields, as `field_of` finds them."""
    if command._entry_count < 0:
        fields = command.ext_fields
        return tuple([fields.get(name.decode(), "") for name in names])
    values: list[str] = []
    base = commands.address_of(command._frame)
    for name in names:
        value = ""
        for i in range(command._entry_count - 1, -1, -1):
            if scan.name_is(command, base, i, name, len(name)):
                value = scan.text_value(command, i)
                break
        values.append(value)
    return tuple(values)


def _sort(command: Command, base: Buffer) -> None:
    """Bring the fields into the order of their names, those of one name in that of the header.

    They are few, and often nearly in order.
    """
    for i in range(1, command._entry_count):
        held = command._entries[i]
        at = i
        while at > 0 and _is_before(
            base,
            held.name_at,
            held.name_size,
            command._entries[at - 1].name_at,
            command._entries[at - 1].name_size,
        ):
            command._entries[at] = command._entries[at - 1]
            at -= 1
        command._entries[at] = held


def _is_before(base: Buffer, at: int, size: int, other_at: int, other_size: int) -> bool:
    """Whether a name comes before another, byte by byte."""
    shorter = size if size < other_size else other_size
    for i in range(shorter):
        if base[at + i] != base[other_at + i]:
            return base[at + i] < base[other_at + i]
    return size < other_size
