"""Java's `String.hashCode`, by which tags and index keys are compared in the store.

    h = 31 * h + unit      over the UTF-16 code units, wrapping at 32 bits, signed

Consume queues hold the hash of each message's tag, index files the hash of each key, so
rocketq has to compute the very same numbers.
"""

# mypy reads hashing.pyi: this module is compiled where that is possible.
from operator import mul

import cython

# Without a compiler: the sum of all units, each by its power of 31, is made in one go.
_AT_ONCE = 64
_POWERS = [31**power & 0xFFFFFFFF for power in range(_AT_ONCE - 1, -1, -1)]


def java_hash(text: str) -> cython.int:
    """The hash code of a string.

    >>> java_hash("TagA")
    2598919
    """
    if text.isascii():
        return _ascii_hash(text, 0)
    return _unicode_hash(text, 0)


def java_hash_bytes(data, seed: cython.int = 0) -> cython.int:
    """The hash code of UTF-8 text. A `seed` continues from the hash of what comes before.

    >>> java_hash_bytes(b"KEY1", java_hash("TopicTest#"))
    -1656969516
    """
    encoded: bytes = data if type(data) is bytes else bytes(data)
    if encoded.isascii():
        return _bytes_hash(encoded, seed)
    return _unicode_hash(encoded.decode("utf-8", "replace"), seed)


def tags_code(tags) -> cython.int:
    """What the consume queue holds for a message with this tag; 0 without one."""
    if not tags:
        return 0
    return java_hash(tags)


@cython.cfunc
def _ascii_hash(text: str, seed: cython.int) -> cython.int:
    return _bytes_hash(text.encode("ascii"), seed)


@cython.cfunc
def _bytes_hash(encoded: bytes, seed: cython.int) -> cython.int:
    if cython.compiled:
        h: cython.uint = cython.cast(cython.uint, seed)
        unit: cython.p_const_uchar = encoded
        i: cython.Py_ssize_t
        for i in range(len(encoded)):
            h = 31 * h + unit[i]
        return cython.cast(cython.int, h)
    else:
        code = seed
        for start in range(0, len(encoded), _AT_ONCE):
            piece = encoded[start : start + _AT_ONCE]
            code = code * 31 ** len(piece) + sum(map(mul, piece, _POWERS[-len(piece) :]))
        return _signed(code & 0xFFFFFFFF)


@cython.cfunc
def _unicode_hash(text: str, seed: cython.int) -> cython.int:
    units: bytes = text.encode("utf-16-be", "surrogatepass")
    if cython.compiled:
        h: cython.uint = cython.cast(cython.uint, seed)
        half: cython.p_const_uchar = units
        i: cython.Py_ssize_t
        for i in range(0, len(units), 2):
            h = 31 * h + ((cython.cast(cython.uint, half[i]) << 8) | half[i + 1])
        return cython.cast(cython.int, h)
    else:
        h = seed & 0xFFFFFFFF
        for i in range(0, len(units), 2):
            h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
        return _signed(h)


@cython.cfunc
def _signed(h: cython.uint) -> cython.int:
    return h - 0x100000000 if h & 0x80000000 else h
