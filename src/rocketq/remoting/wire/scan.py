"""Finds the fields of a header where they lie, without making an object for any of them.

A scan goes once over a raw header, sets the command's numbers and notes where each ext
field begins and how long it is. It knows the headers that are written by programs in a
hurry: JSON without blanks, text and whole numbers as values. Whatever else there may be,
correct or not, it refuses, and the general decoders (`json_header`, `binary_header`) have
the last word. What it accepts it reads exactly as they do.

Only used where this package is compiled: uncompiled, the general decoders are faster.
"""

import cython

if cython.compiled:
    from cython.cimports.rocketq.remoting.wire.command import ENTRY_LIMIT


def scan_json(command, text, at, end):
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
        at = name_end_of(text, name_at, end)
        if at < 0:
            return False
        name_size = at - name_at
        at += 2  # the quote and the colon, which have been seen
        first = text[at]

        if first == 0x22:  # a string
            quoted_at = at + 1
            next_at = string_end(text, quoted_at, end)
            if next_at == 0:
                return False
            at = next_at if next_at > 0 else -next_at
            if name_size == 6 and matches(text, name_at, 6, b"remark"):
                command._remark_at = quoted_at
                command._remark_size = at - quoted_at
                command._remark_is_escaped = next_at < 0
            elif name_size == 8 and matches(text, name_at, 8, b"language"):
                command.language = language_at(text, quoted_at, at - quoted_at)
                if command.language < 0:
                    return False
            elif name_size != 23 or not matches(text, name_at, 23, b"serializeTypeCurrentRPC"):
                return False
            at += 1
        elif first == 0x7B:
            if name_size != 9 or not matches(text, name_at, 9, b"extFields"):
                return False
            at = scan_ext_fields(command, text, at + 1, end)
            if at < 0:
                return False
        else:  # a whole number
            next_at = number_end(text, at, end)
            if next_at < 0 or next_at - at > 11:
                return False
            number = number_at(text, at, next_at)
            if number > 0x7FFFFFFF or number < -0x80000000:
                return False
            at = next_at
            if name_size == 4 and matches(text, name_at, 4, b"code"):
                command.code = number
            elif name_size == 4 and matches(text, name_at, 4, b"flag"):
                command.flag = number
            elif name_size == 6 and matches(text, name_at, 6, b"opaque"):
                command.opaque = number
            elif name_size == 7 and matches(text, name_at, 7, b"version"):
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


def scan_ext_fields(command, text, at, end):
    """Scan the object that begins before `at`; where it ends, or -1."""
    count = 0
    command._has_ext_fields = True
    if at < end and text[at] == 0x7D:
        command._entry_count = 0
        return at + 1
    while True:
        if at >= end or text[at] != 0x22 or count == ENTRY_LIMIT:
            return -1
        name_at = at + 1
        name_end = name_end_of(text, name_at, end)
        if name_end < 0:
            return -1
        at = name_end + 2
        first = text[at]
        command._entries[count].is_escaped = False
        if first == 0x22:
            value_at = at + 1
            at = string_end(text, value_at, end)
            if at == 0:
                return -1
            if at < 0:
                command._entries[count].is_escaped = True
                at = -at
            command._entries[count].value_size = at - value_at
            at += 1
        else:
            value_at = at
            if first == 0x74 and end - at > 4 and matches(text, at, 4, b"true"):
                at += 4
            elif first == 0x66 and end - at > 5 and matches(text, at, 5, b"false"):
                at += 5
            else:
                at = number_end(text, at, end)
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


def name_end_of(text, at, end):
    """Where a plain name ends that is followed by `":` and something more; -1 if it is not."""
    while at < end and text[at] != 0x22:
        if text[at] == 0x5C or text[at] < 0x20 or text[at] >= 0x80:
            return -1
        at += 1
    if at + 2 >= end or text[at + 1] != 0x3A:
        return -1
    return at


def string_end(text, at, end):
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


def number_end(text, at, end):
    """Where a whole number as JSON has it ends; -1 if it is none, or one of many digits."""
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


def number_at(text, at, end):
    """The whole number at `text[at:end]`, at most 18 digits."""
    is_negative = text[at] == 0x2D
    if is_negative:
        at += 1
    number = 0
    while at < end:
        number = number * 10 + (text[at] - 0x30)
        at += 1
    return -number if is_negative else number


def matches(text, at, size, word):
    """Whether a word stands there; the caller has seen to it that there is room for it."""
    for i in range(size):  # noqa: SIM110 - all() would make objects
        if text[at + i] != word[i]:
            return False
    return True


def language_at(text, at, size):
    """The languages there are clients in; -1 for others."""
    if size == 4 and matches(text, at, 4, b"JAVA"):
        return 0
    if size == 6 and matches(text, at, 6, b"PYTHON"):
        return 3
    if size == 2 and matches(text, at, 2, b"GO"):
        return 9
    if size == 3 and matches(text, at, 3, b"CPP"):
        return 1
    return -1


def scan_binary(command, header, at, end):
    """Scan the binary header at `header[at:end]`; False if it takes the general decoder."""
    if end - at < 21:
        return False
    command.code = int16_at(header, at)
    command.language = header[at + 2]
    command.version = int16_at(header, at + 3)
    command.opaque = int32_at(header, at + 5)
    command.flag = int32_at(header, at + 9)
    remark_size = int32_at(header, at + 13)
    at += 17
    if remark_size < 0 or remark_size > end - at - 4:
        return False
    if remark_size > 0:
        command._remark_at = at
        command._remark_size = remark_size
        at += remark_size
    ext_size = int32_at(header, at)
    at += 4
    if ext_size < 0 or ext_size > end - at:
        return False
    if not command.flag & 1 and 3442 <= command.code <= 3600:
        return False  # one of the codes that were cut to 16 bits
    ext_end = at + ext_size
    count = 0
    while at < ext_end:
        if count == ENTRY_LIMIT or ext_end - at < 6:
            return False
        name_size = int16_at(header, at)
        if name_size < 0 or name_size > 255 or name_size > ext_end - at - 6:
            return False
        value_size = int32_at(header, at + 2 + name_size)
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


def int16_at(header, at):
    number = header[at] << 8 | header[at + 1]
    return number - 0x10000 if number >= 0x8000 else number


def int32_at(header, at):
    number = header[at] << 24 | header[at + 1] << 16 | header[at + 2] << 8 | header[at + 3]
    return number - 0x100000000 if number >= 0x80000000 else number
