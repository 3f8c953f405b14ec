"""Writes the head of a frame whose header is JSON: everything but the body.

    length, word, {"code":0,"extFields":{...},"flag":1,"language":"PYTHON","opaque":7,
    "remark":"...","serializeTypeCurrentRPC":"JSON","version":479}

Java's order of keys, no blanks, and nothing in place of what there is not. Compiled, it is
put together in a buffer that is used again and again; only the result is made anew.
"""

import struct

import cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.libc.string import memcpy

    _scratch = cython.declare(cython.uchar[8192])
    _hex_digits = cython.declare(cython.p_char, b"0123456789ABCDEF")

_WORDS = struct.Struct(">II")


def json_head(code, ext_json, flag, language, opaque, remark_json, version, body_size):
    """The head of a frame; `None` for ext fields or a remark leaves them out."""
    if cython.compiled:
        size = 256 + (len(ext_json) if ext_json is not None else 0)
        size += len(remark_json) if remark_json is not None else 0
        if size <= 8192:
            out = scratch()
            at = put(out, 8, b'{"code":')
            at = put_number(out, at, code)
            if ext_json is not None:
                at = put(out, at, b',"extFields":')
                at = put(out, at, ext_json)
            at = put(out, at, b',"flag":')
            at = put_number(out, at, flag)
            at = put(out, at, b',"language":"')
            at = put(out, at, language)
            at = put(out, at, b'","opaque":')
            at = put_number(out, at, opaque)
            if remark_json is not None:
                at = put(out, at, b',"remark":')
                at = put(out, at, remark_json)
            at = put(out, at, b',"serializeTypeCurrentRPC":"JSON","version":')
            at = put_number(out, at, version)
            at = put(out, at, b"}")
            put_word(out, 0, at - 4 + body_size)
            put_word(out, 4, at - 8)
            return PyBytes_FromStringAndSize(cython.cast("const char *", out), at)
    header = (
        b'{"code":%d%b,"flag":%d,"language":"%b","opaque":%d%b'
        b',"serializeTypeCurrentRPC":"JSON","version":%d}'
    ) % (
        code,
        b',"extFields":%b' % ext_json if ext_json is not None else b"",
        flag,
        language,
        opaque,
        b',"remark":%b' % remark_json if remark_json is not None else b"",
        version,
    )
    return _WORDS.pack(4 + len(header) + body_size, len(header)) + header


# -- the compiled writer: each puts something at a place and says where it ends --------------


def scratch():
    return _scratch


def put(out, at, text):
    size = len(text)
    memcpy(out + at, PyBytes_AS_STRING(text), size)
    return at + size


def put_number(out, at, number):
    rest = number
    if number < 0:
        out[at] = 0x2D
        at += 1
        rest = -rest
    first = at
    while True:
        out[at] = 0x30 + rest % 10
        at += 1
        rest //= 10
        if rest == 0:
            break
    last = at - 1
    while first < last:
        digit = out[first]
        out[first] = out[last]
        out[last] = digit
        first += 1
        last -= 1
    return at


def put_hex(out, at, data, size):
    for i in range(size):
        char = data[i]
        out[at] = _hex_digits[char >> 4]
        out[at + 1] = _hex_digits[char & 15]
        at += 2
    return at


def put_word(out, at, word):
    out[at] = word >> 24
    out[at + 1] = word >> 16 & 0xFF
    out[at + 2] = word >> 8 & 0xFF
    out[at + 3] = word & 0xFF
