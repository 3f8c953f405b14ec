"""Values of single ext fields, straight from a frame in which the scan has found them.

Only used by compiled modules, on commands that `header_scan` has scanned; `entry` numbers
the fields in the order of the header, and `base` is the address of the frame.
"""

import cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.libc.string import memcmp
    from cython.cimports.rocketq.remoting.wire.command import Command  # noqa: F401 - for the types
    from cython.cimports.rocketq.remoting.wire.json_head import SCRATCH_SIZE, scratch


def name_is(command, base, entry, word, word_size):
    """Whether a field has this name."""
    return (
        command._entries[entry].name_size == word_size
        and memcmp(base + command._entries[entry].name_at, word, word_size) == 0
    )


def text_value(command, entry):
    """A value as text; empty when there is no such field (-1)."""
    if entry < 0:
        return ""
    return command._text_at(
        command._entries[entry].value_at,
        command._entries[entry].value_size,
        command._entries[entry].is_escaped,
    )


def raw_value(command, base, entry):
    """A value as the bytes of its text: UTF-8, without escapes."""
    at = command._entries[entry].value_at
    size = command._entries[entry].value_size
    if size <= SCRATCH_SIZE:
        # Escapes of ASCII, of which properties are full, are resolved here.
        end = at + size
        out = scratch()
        used = 0
        high = 0
        while at < end:
            char = base[at]
            high |= char
            if char == 0x5C and command._entries[entry].is_escaped:
                char = base[at + 1]
                if char == 0x75:
                    if base[at + 2] != 0x30 or base[at + 3] != 0x30:
                        break
                    char = hex_digit(base[at + 4]) << 4 | hex_digit(base[at + 5])
                    if char >= 0x80:
                        break
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
        if at == end:
            value = PyBytes_FromStringAndSize(cython.cast("const char *", out), used)
            if high < 0x80 or is_utf8(value):
                return value
    return text_value(command, entry).encode("utf-8", "replace")


def is_utf8(value):
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def hex_digit(char):
    if char <= 0x39:
        return char - 0x30
    return (char | 0x20) - 0x57


def number_value(command, base, entry, limit, result):
    """Read a whole number of at most 18 digits, `-limit - 1` to `limit`; whether it is one.

    An empty value is the same as none and leaves the result alone, as in Java.
    """
    at = command._entries[entry].value_at
    end = at + command._entries[entry].value_size
    if at == end:
        return True
    is_negative = base[at] == 0x2D
    if is_negative or base[at] == 0x2B:
        at += 1
    digits = end - at
    if digits == 0 or digits > 18:
        return False
    number = 0
    while at < end:
        if base[at] < 0x30 or base[at] > 0x39:
            return False
        number = number * 10 + (base[at] - 0x30)
        at += 1
    if is_negative:
        number = -number
    if number > limit or number < -limit - 1:
        return False
    result[0] = number
    return True


def bool_value(command, base, entry):
    """Java's rule: `true` in any case is true, all else is false."""
    at = command._entries[entry].value_at
    return (
        command._entries[entry].value_size == 4
        and base[at] | 0x20 == 0x74
        and base[at + 1] | 0x20 == 0x72
        and base[at + 2] | 0x20 == 0x75
        and base[at + 3] | 0x20 == 0x65
    )
