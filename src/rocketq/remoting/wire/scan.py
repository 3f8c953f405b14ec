# cython: annotation_typing=False
"""Finds the fields of a header where they lie, without making an object for any of them.

A scan goes once over a raw header, sets the command's numbers and notes where each ext
field begins and how long it is. It knows the headers that are written by programs in a
hurry: JSON without blanks, text and whole numbers as values. Whatever else there may be,
correct or not, it refuses, and the general decoders (`json_header`, `binary_header`) have
the last word. What it accepts it reads exactly as they do.

The values of a scanned command are read by the functions at the end; there `entry` numbers
the fields in the order of the header, and `base` is where the frame begins.

Compiled where possible (scan.pxd gives the types). Uncompiled the general decoders are
faster, so `frame` only scans when compiled, and tests scan both ways.
"""

from typing import Final

import cython

from rocketq.common import memory
from rocketq.common.memory import Buffer, WritableBuffer
from rocketq.common.numbers import parse_int64
from rocketq.remoting.wire import json_header
from rocketq.remoting.wire.command import Command, Entry

# More fields than any hot request has.
_ENTRY_LIMIT = 20

NOT_A_NUMBER: Final = -(2**63)
_NOT_A_NUMBER = NOT_A_NUMBER

# Codes from here to there came out of 16 bits, which do not hold them (`binary_header`).
_CUT_CODES_FROM = 3442
_CUT_CODES_TO = 3600


def make_room(command: Command) -> None:
    """Entries to note the fields in; compiled, a command has them from the start."""
    if not cython.compiled:
        command._entries = [Entry() for _ in range(_ENTRY_LIMIT)]


# JSON


def scan_json(command: Command, text: Buffer, at: int, end: int) -> bool:
    """Scan the JSON header at `text[at:end]`; False if it takes the general decoder."""
    if end - at < 2 or text[at] != 0x7B:
        return False
    at += 1
    if text[at] == 0x7D:
        return False
    while True:
        if at >= end or text[at] != 0x22:
            return False
        name_at = at + 1
        at = _name_end(text, name_at, end)
        if at < 0:
            return False
        name_size = at - name_at
        at += 2  # the quote and the colon, which have been seen
        first = text[at]

        if first == 0x22:  # a string
            quoted_at = at + 1
            next_at = _string_end(text, quoted_at, end)
            if next_at == 0:
                return False
            at = next_at if next_at > 0 else -next_at
            if name_size == 6 and memory.same(text, name_at, b"remark", 6):
                command._remark_at = quoted_at
                command._remark_size = at - quoted_at
                command._remark_is_escaped = next_at < 0
            elif name_size == 8 and memory.same(text, name_at, b"language", 8):
                command.language = _language_at(text, quoted_at, at - quoted_at)
                if command.language < 0:
                    return False
            elif name_size != 23 or not memory.same(text, name_at, b"serializeTypeCurrentRPC", 23):
                return False
            at += 1
        elif first == 0x7B:
            if name_size != 9 or not memory.same(text, name_at, b"extFields", 9):
                return False
            at = _scan_ext_fields(command, text, at + 1, end)
            if at < 0:
                return False
        else:  # a whole number
            next_at = _number_end(text, at, end)
            if next_at < 0 or next_at - at > 11:
                return False
            number = _number_at(text, at, next_at)
            if number > 0x7FFFFFFF or number < -0x80000000:
                return False
            at = next_at
            if name_size == 4 and memory.same(text, name_at, b"code", 4):
                command.code = number
            elif name_size == 4 and memory.same(text, name_at, b"flag", 4):
                command.flag = number
            elif name_size == 6 and memory.same(text, name_at, b"opaque", 6):
                command.opaque = number
            elif name_size == 7 and memory.same(text, name_at, b"version", 7):
                command.version = number
            else:
                return False

        if at >= end:
            return False
        if text[at] == 0x2C:
            at += 1
        elif text[at] == 0x7D:
            break
        else:
            return False

    at += 1
    while at < end:  # C++ ends its headers with a line feed
        if text[at] != 0x0A and text[at] != 0x20:
            return False
        at += 1
    if command._entry_count < 0:
        command._entry_count = 0
    return True


def _scan_ext_fields(command: Command, text: Buffer, at: int, end: int) -> int:
    """Scan the object that begins before `at`; where it ends, or -1."""
    count = 0
    command._has_ext_fields = True
    if at < end and text[at] == 0x7D:
        command._entry_count = 0
        return at + 1
    while True:
        if at >= end or text[at] != 0x22 or count == _ENTRY_LIMIT:
            return -1
        name_at = at + 1
        name_end = _name_end(text, name_at, end)
        if name_end < 0 or name_end - name_at > 255:
            return -1
        at = name_end + 2
        first = text[at]
        command._entries[count].is_escaped = False
        if first == 0x22:
            value_at = at + 1
            at = _string_end(text, value_at, end)
            if at == 0:
                return -1
            if at < 0:
                command._entries[count].is_escaped = True
                at = -at
            command._entries[count].value_size = at - value_at
            at += 1
        else:
            value_at = at
            if first == 0x74 and end - at > 4 and memory.same(text, at, b"true", 4):
                at += 4
            elif first == 0x66 and end - at > 5 and memory.same(text, at, b"false", 5):
                at += 5
            else:
                at = _number_end(text, at, end)
                if at < 0:
                    return -1
            command._entries[count].value_size = at - value_at
        command._entries[count].name_at = name_at
        command._entries[count].name_size = name_end - name_at
        command._entries[count].value_at = value_at
        count += 1
        if at >= end:
            return -1
        if text[at] == 0x2C:
            at += 1
        elif text[at] == 0x7D:
            command._entry_count = count
            return at + 1
        else:
            return -1


def _name_end(text: Buffer, at: int, end: int) -> int:
    """Where a plain name ends that is followed by `":` and something more; -1 if it is not."""
    while at < end and text[at] != 0x22:
        if text[at] == 0x5C or text[at] < 0x20 or text[at] >= 0x80:
            return -1
        at += 1
    if at + 2 >= end or text[at + 1] != 0x3A:
        return -1
    return at


def _string_end(text: Buffer, at: int, end: int) -> int:
    """Where the closing quote is, negative if there are escapes before it; 0 if there is none."""
    is_escaped = False
    while at < end:
        char = text[at]
        if char == 0x22:
            return -at if is_escaped else at
        if char < 0x20:
            return 0
        at += 1
        if char == 0x5C:
            is_escaped = True
            if at >= end:
                return 0
            char = text[at]
            at += 1
            if char == 0x75:  # \uXXXX
                if end - at < 4:
                    return 0
                for i in range(4):
                    char = text[at + i]
                    if not (0x30 <= char <= 0x39 or 0x41 <= char <= 0x46 or 0x61 <= char <= 0x66):
                        return 0
                at += 4
            elif not (
                char == 0x22
                or char == 0x5C
                or char == 0x2F
                or char == 0x62
                or char == 0x66
                or char == 0x6E
                or char == 0x72
                or char == 0x74
            ):
                return 0
    return 0


def _number_end(text: Buffer, at: int, end: int) -> int:
    """Where a whole number as JSON has it ends; -1 if it is not one, or has many digits."""
    if at < end and text[at] == 0x2D:
        at += 1
    digits = at
    while at < end and 0x30 <= text[at] <= 0x39:
        at += 1
    if at == digits or at - digits > 18 or (text[digits] == 0x30 and at - digits > 1):
        return -1
    if text[digits] == 0x30 and text[digits - 1] == 0x2D:
        return -1  # -0
    return at


def _number_at(text: Buffer, at: int, end: int) -> int:
    """The whole number at `text[at:end]`, at most 18 digits."""
    is_negative = text[at] == 0x2D
    if is_negative:
        at += 1
    number = 0
    while at < end:
        number = number * 10 + (text[at] - 0x30)
        at += 1
    return -number if is_negative else number


def _language_at(text: Buffer, at: int, size: int) -> int:
    """The languages there are clients in; -1 for others."""
    if size == 4 and memory.same(text, at, b"JAVA", 4):
        return 0
    if size == 6 and memory.same(text, at, b"PYTHON", 6):
        return 3
    if size == 2 and memory.same(text, at, b"GO", 2):
        return 9
    if size == 3 and memory.same(text, at, b"CPP", 3):
        return 1
    return -1


# Binary


def scan_binary(command: Command, header: Buffer, at: int, end: int) -> bool:
    """Scan the binary header at `header[at:end]`; False if it takes the general decoder."""
    if end - at < 21:
        return False
    command.code = memory.get16(header, at)
    command.language = header[at + 2]
    command.version = memory.get16(header, at + 3)
    command.opaque = memory.get32(header, at + 5)
    command.flag = memory.get32(header, at + 9)
    remark_size = memory.get32(header, at + 13)
    at += 17
    if remark_size < 0 or remark_size > end - at - 4:
        return False
    if remark_size > 0:
        command._remark_at = at
        command._remark_size = remark_size
        command._remark_is_escaped = False
        at += remark_size
    ext_size = memory.get32(header, at)
    at += 4
    if ext_size < 0 or ext_size > end - at:
        return False
    if not command.flag & 1 and _CUT_CODES_FROM <= command.code <= _CUT_CODES_TO:
        return False
    ext_end = at + ext_size
    count = 0
    while at < ext_end:
        if count == _ENTRY_LIMIT or ext_end - at < 6:
            return False
        name_size = memory.get16(header, at)
        if name_size < 0 or name_size > 255 or name_size > ext_end - at - 6:
            return False
        value_size = memory.get32(header, at + 2 + name_size)
        if value_size < 0 or value_size > ext_end - at - 6 - name_size:
            return False
        command._entries[count].name_at = at + 2
        command._entries[count].name_size = name_size
        command._entries[count].value_at = at + 6 + name_size
        command._entries[count].value_size = value_size
        command._entries[count].is_escaped = False
        count += 1
        at += 6 + name_size + value_size
    command._has_ext_fields = ext_size > 0
    command._entry_count = count
    return True


# The values of a scanned command


def name_is(command: Command, base: Buffer, entry: int, word: bytes, word_size: int) -> bool:
    """Whether a field has this name."""
    return command._entries[entry].name_size == word_size and memory.same(
        base, command._entries[entry].name_at, word, word_size
    )


def text_value(command: Command, entry: int) -> str:
    """A value as text; empty when there is no such field (-1)."""
    if entry < 0:
        return ""
    return command._text_at(
        command._entries[entry].value_at,
        command._entries[entry].value_size,
        command._entries[entry].is_escaped,
    )


def raw_value(command: Command, base: Buffer, entry: int) -> bytes:
    """A value as the bytes of its text: UTF-8, without escapes."""
    buffer = json_header.buffer_for(command._entries[entry].value_size)
    used = put_value(command, base, entry, memory.room(buffer), 0)
    if used >= 0:
        return memory.bytes_at(memory.room(buffer), 0, used)
    if not command._entries[entry].is_escaped:
        value = memory.bytes_at(
            base, command._entries[entry].value_at, command._entries[entry].value_size
        )
        if _is_utf8(value):
            return value
    return text_value(command, entry).encode("utf-8", "replace")


def put_value(command: Command, base: Buffer, entry: int, out: WritableBuffer, used: int) -> int:
    """Write a value of ASCII, without escapes; where it ends, or -1 if it is another one.

    It never takes more room than it has in the frame.
    """
    at = command._entries[entry].value_at
    end = at + command._entries[entry].value_size
    is_escaped = command._entries[entry].is_escaped
    high = 0
    while at < end:
        char = base[at]
        high |= char
        if char == 0x5C and is_escaped:
            # Escapes of ASCII, of which properties are full, are resolved here.
            char = base[at + 1]
            if char == 0x75:
                if base[at + 2] != 0x30 or base[at + 3] != 0x30:
                    return -1
                char = _hex_digit(base[at + 4]) << 4 | _hex_digit(base[at + 5])
                if char >= 0x80:
                    return -1
                at += 4
            elif char == 0x6E:
                char = 0x0A
            elif char == 0x74:
                char = 0x09
            elif char == 0x72:
                char = 0x0D
            elif char == 0x62:
                char = 0x08
            elif char == 0x66:
                char = 0x0C
            at += 1
        out[used] = char
        used += 1
        at += 1
    return used if high < 0x80 else -1


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _hex_digit(char: int) -> int:
    if char <= 0x39:
        return char - 0x30
    return (char | 0x20) - 0x57


def number_value(command: Command, base: Buffer, entry: int, limit: int, absent: int) -> int:
    """A whole number of at most 18 digits, `-limit - 1` to `limit`, or NOT_A_NUMBER.

    An empty value is the same as none and gives `absent`, as in Java.
    """
    at = command._entries[entry].value_at
    end = at + command._entries[entry].value_size
    if at == end:
        return absent
    is_negative = base[at] == 0x2D
    if is_negative or base[at] == 0x2B:
        at += 1
    digits = end - at
    if digits == 0 or digits > 18:
        return _NOT_A_NUMBER
    number = 0
    while at < end:
        if base[at] < 0x30 or base[at] > 0x39:
            return _NOT_A_NUMBER
        number = number * 10 + (base[at] - 0x30)
        at += 1
    if is_negative:
        number = -number
    if number > limit or number < -limit - 1:
        return _NOT_A_NUMBER
    return number


def number_in(text: str | None, absent: int, limit: int) -> int:
    """The same of a value that the general decoders have read."""
    if not text:
        return absent
    number = parse_int64(text) if len(text) <= 19 else None
    if number is None or not -limit - 1 <= number <= limit:
        return NOT_A_NUMBER
    return number


def bool_value(command: Command, base: Buffer, entry: int) -> bool:
    """Java's rule: `true` in any case is true, all else is false."""
    at = command._entries[entry].value_at
    return (
        command._entries[entry].value_size == 4
        and base[at] | 0x20 == 0x74
        and base[at + 1] | 0x20 == 0x72
        and base[at + 2] | 0x20 == 0x75
        and base[at + 3] | 0x20 == 0x65
    )
