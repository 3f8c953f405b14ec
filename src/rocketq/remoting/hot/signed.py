# cython: annotation_typing=False
"""All that the wire knows of a signed request: who signed it, and what exactly was signed.

Every request of a cluster with users is looked at so. The fields are read where they lie, and
stay there for whoever reads them next; the general way is `remoting/access/signature.py`, and
tests hold both against each other.

Compiled where possible (signed.pxd gives the types).
"""

from binascii import b2a_base64
from hmac import digest as hashlib_digest

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.remoting.hot import hmac_sha1
from rocketq.remoting.wire import command as commands
from rocketq.remoting.wire import scan
from rocketq.remoting.wire.command import Command

# Up to here the sum done in place is the faster one.
_SHORT = 4096

_BASE64 = memory.address(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


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


def ready_key(block: bytes) -> bytes:
    """A key, as `sign` and `is_match` want it."""
    return hmac_sha1.ready(block)


def sign(content: bytes, key: bytes) -> bytes:
    """HMAC-SHA1 in base64."""
    return b2a_base64(_digest(content, key), newline=False)


def is_match(fields: SignedFields, key: bytes) -> bool:
    """Whether a secret has signed, of which this is the key; takes as long if not."""
    return _is_base64_of(fields.signature, _digest(fields.content, key))


def _digest(content: bytes, key: bytes) -> bytes:
    if len(content) > _SHORT:
        return hashlib_digest(key[-64:], content, "sha1")
    return hmac_sha1.digest(key, content)


def _is_base64_of(text: bytes, digest: bytes) -> bool:
    """Whether a text of 28 is the base64 of 20 bytes: every character is looked at."""
    if len(text) != 28:
        return False
    written = memory.address(text)
    raw = memory.address(digest)
    different = 0
    for group in range(6):
        bits = raw[3 * group] << 16 | raw[3 * group + 1] << 8 | raw[3 * group + 2]
        different |= written[4 * group] ^ _BASE64[bits >> 18]
        different |= written[4 * group + 1] ^ _BASE64[bits >> 12 & 63]
        different |= written[4 * group + 2] ^ _BASE64[bits >> 6 & 63]
        different |= written[4 * group + 3] ^ _BASE64[bits & 63]
    bits = raw[18] << 16 | raw[19] << 8
    different |= written[24] ^ _BASE64[bits >> 18]
    different |= written[25] ^ _BASE64[bits >> 12 & 63]
    different |= written[26] ^ _BASE64[bits >> 6 & 63]
    different |= written[27] ^ 0x3D
    return different == 0


def is_allowed(
    command: Command,
    code: int,
    names: tuple[bytes, ...],
    host: str,
    allowed: set[tuple[int, str, str, tuple[str, ...]]],
    keys: dict[str, bytes],
) -> bool:
    """Whether a request is like one that was let in before, and signed by the same user.

    `names`: the fields that decide, with code, user and host, what is allowed. `keys`: what
    `is_match` wants, by user.
    """
    fields = read_signed(command)
    if fields is None:
        return False
    if (code, fields.access_key, host, fields_of(command, names)) not in allowed:
        return False
    key = keys.get(fields.access_key)
    return key is not None and is_match(fields, key)


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
