# cython: annotation_typing=False
"""The checksum of records: CRC-32 without its highest bit, as RocketMQ keeps it.

Compiled where possible (checksum.pxd gives the types).
"""

import zlib
from typing import Final

import cython

from rocketq.common import memory
from rocketq.common.memory import Buffer


def crc32(data: Buffer, at: int, size: int) -> int:
    """The checksum of so many bytes from `at` on."""
    if size >= _ZLIB_FROM:
        return zlib.crc32(memory.view(data, at, size)) & 0x7FFFFFFF
    return crc32_by_table(data, at, size)


# Short bodies are done before a call of zlib would have begun. Uncompiled nothing beats zlib.
_ZLIB_FROM: Final = 1024 if cython.compiled else 0


def crc32_by_table(data: Buffer, at: int, size: int) -> int:
    """The same, sixteen bytes at a time."""
    crc = 0xFFFFFFFF
    while size >= 16:
        crc ^= memory.get32u_little(data, at)
        crc = (
            _TABLES[0xF00 + (crc & 0xFF)]
            ^ _TABLES[0xE00 + (crc >> 8 & 0xFF)]
            ^ _TABLES[0xD00 + (crc >> 16 & 0xFF)]
            ^ _TABLES[0xC00 + (crc >> 24)]
            ^ _TABLES[0xB00 + data[at + 4]]
            ^ _TABLES[0xA00 + data[at + 5]]
            ^ _TABLES[0x900 + data[at + 6]]
            ^ _TABLES[0x800 + data[at + 7]]
            ^ _TABLES[0x700 + data[at + 8]]
            ^ _TABLES[0x600 + data[at + 9]]
            ^ _TABLES[0x500 + data[at + 10]]
            ^ _TABLES[0x400 + data[at + 11]]
            ^ _TABLES[0x300 + data[at + 12]]
            ^ _TABLES[0x200 + data[at + 13]]
            ^ _TABLES[0x100 + data[at + 14]]
            ^ _TABLES[data[at + 15]]
        )
        at += 16
        size -= 16
    while size > 0:
        crc = _TABLES[(crc ^ data[at]) & 0xFF] ^ (crc >> 8)
        at += 1
        size -= 1
    return ~crc & 0x7FFFFFFF


def _tables() -> list[int]:
    """Sixteen tables in one. Table k holds what a byte does to the checksum k bytes further on."""
    tables = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
        tables.append(crc)
    for place in range(256, 4096):
        crc = tables[place - 256]
        tables.append((crc >> 8) ^ tables[crc & 0xFF])
    return tables


_TABLES: Final = _tables()
