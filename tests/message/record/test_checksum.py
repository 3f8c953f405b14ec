"""The checksum of records, seen through them, since compiled it takes addresses only."""

import random
import zlib

import pytest

from rocketq.common.language.uncompiled import is_compiled
from rocketq.message.record import checksum
from rocketq.message.record.reader import decode_record
from rocketq.message.record.writer import new_record


def test_bodies_of_every_size_have_the_checksum_of_zlib() -> None:
    """Every 16 bytes the checksum changes its stride, at 1024 its method."""
    whole = random.Random(1).randbytes(1100)
    for size in range(len(whole) + 1):
        body = whole[:size]
        assert decode_record(new_record(b"t", body)).body_crc == zlib.crc32(body) & 0x7FFFFFFF


def test_the_checksum_goes_over_the_whole_record_before_it() -> None:
    for size in (0, 1, 15, 16, 900, 930, 1100):
        made = new_record(b"t", bytes(size), property_crc=True)
        stated = int(made[-11:-1][::-1])
        assert stated == zlib.crc32(made[:-20]) & 0x7FFFFFFF


@pytest.mark.skipif(is_compiled(checksum), reason="the table is for addresses when compiled")
def test_the_table_agrees_with_zlib() -> None:
    data = random.Random(2).randbytes(100)
    for size in range(90):
        assert checksum.crc32_by_table(data, 5, size) == checksum.crc32(data, 5, size)
