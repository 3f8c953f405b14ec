"""The checksum of records: CRC-32 without its highest bit, as RocketMQ keeps it.

Only used by compiled modules where this one is compiled, since it takes the address of the
bytes then; uncompiled it takes a buffer.
"""

import zlib

import cython

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_READ
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory


@cython.cfunc
@cython.exceptval(0xFFFFFFFF)
def crc32(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.uint:
    """The checksum of so many bytes from `at` on."""
    if cython.compiled:
        if size >= 1024:
            view = PyMemoryView_FromMemory(cython.cast(cython.p_char, data) + at, size, PyBUF_READ)
            return zlib.crc32(view) & 0x7FFFFFFF
        # Short bodies are done before a call of zlib would have begun.
        p: cython.p_const_uchar = data + at
        crc: cython.uint = 0xFFFFFFFF
        while size >= 16:
            crc = (
                _crc_of_word(crc ^ _little32(p), 12)
                ^ _crc_of_word(_little32(p + 4), 8)
                ^ _crc_of_word(_little32(p + 8), 4)
                ^ _crc_of_word(_little32(p + 12), 0)
            )
            p += 16
            size -= 16
        while size > 0:
            crc = _TABLES[(crc ^ p[0]) & 0xFF] ^ (crc >> 8)
            p += 1
            size -= 1
        return ~crc & 0x7FFFFFFF
    else:
        return zlib.crc32(memoryview(data)[at : at + size]) & 0x7FFFFFFF


if cython.compiled:
    _TABLES = cython.declare(cython.uint[4096])

    @cython.cfunc
    def _make_tables() -> cython.void:
        """Table k holds what a byte does to the checksum from k bytes further on."""
        i: cython.int
        for i in range(256):
            crc: cython.uint = i
            for _ in range(8):
                crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
            _TABLES[i] = crc
        for i in range(256, 4096):
            crc = _TABLES[i - 256]
            _TABLES[i] = (crc >> 8) ^ _TABLES[crc & 0xFF]

    _make_tables()

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _crc_of_word(word: cython.uint, behind: cython.int) -> cython.uint:
        """What four bytes do to the checksum, with so many bytes behind them."""
        return (
            _TABLES[(behind + 3) * 256 + (word & 0xFF)]
            ^ _TABLES[(behind + 2) * 256 + ((word >> 8) & 0xFF)]
            ^ _TABLES[(behind + 1) * 256 + ((word >> 16) & 0xFF)]
            ^ _TABLES[behind * 256 + (word >> 24)]
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _little32(data: cython.p_const_uchar) -> cython.uint:
        return (
            data[0]
            | (cython.cast(cython.uint, data[1]) << 8)
            | (cython.cast(cython.uint, data[2]) << 16)
            | (cython.cast(cython.uint, data[3]) << 24)
        )
