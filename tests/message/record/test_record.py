"""The stored record: byte for byte, and what does not make one."""

import mmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message.record.layout import FIXED_SIZE
from rocketq.message.record.reader import RecordStatus, check_record, decode_record, read_record
from rocketq.message.record.writer import (
    InvalidRecord,
    crc_tail_size,
    new_record,
    record_size,
    write_blank,
)
from tests.message.record.records import SPECIFIED_FIELDS, SPECIFIED_RECORD, encode_into, fields

# Bytes that are known


def test_the_record_of_the_specification() -> None:
    assert new_record(**SPECIFIED_FIELDS) == SPECIFIED_RECORD


def test_the_record_of_the_specification_with_its_checksum() -> None:
    made = new_record(**SPECIFIED_FIELDS, property_crc=True)
    assert len(made) == 154
    assert made[-20:] == bytes.fromhex("5f5f435243333223 01 39373531353132373530 02")
    assert check_record(made, require_property_crc=True).is_valid


def test_the_blank_record_of_the_specification() -> None:
    out = bytearray(16)
    write_blank(out, 4, 4096)
    assert out.hex() == "00000000" + "00001000cbd43194" + "00000000"
    assert check_record(bytes(4096 - 8) + bytes(8), 0).status == RecordStatus.BAD_MAGIC


def test_a_record_goes_into_a_mapping_at_its_place() -> None:
    with mmap.mmap(-1, 4096) as mapping:
        size = encode_into(mapping, 100, SPECIFIED_FIELDS)
        assert mapping[100 : 100 + size] == SPECIFIED_RECORD
        assert mapping[:100] == bytes(100)
        assert mapping[100 + size :] == bytes(4096 - 100 - size)


# Sizes and versions


@given(fields)
def test_the_size_is_known_beforehand(values: dict[str, Any]) -> None:
    size = record_size(
        len(values["body"]),
        len(values["topic"]),
        len(values["properties"]),
        len(values["born_host"]) == 20,
        len(values["store_host"]) == 20,
    )
    assert len(new_record(**values)) == size


def test_a_record_of_nothing_has_the_fixed_size() -> None:
    assert record_size(0, 0, 0) == FIXED_SIZE


def test_a_long_topic_makes_version_2() -> None:
    short = new_record(b"t" * 127)
    long = new_record(b"t" * 128)
    assert short[4:8].hex() == "daa320a7"
    assert long[4:8].hex() == "daa320ab"
    assert len(long) - len(short) == 2
    assert decode_record(long).topic == "t" * 128


@given(fields, st.sampled_from([bytes, bytearray, memoryview]))
def test_bodies_and_properties_may_be_any_bytes(values: dict[str, Any], kind: Any) -> None:
    converted = {**values, "body": kind(values["body"]), "properties": kind(values["properties"])}
    assert new_record(**converted) == new_record(**values)


@pytest.mark.parametrize(
    ("properties", "in_batch", "tail"),
    [(b"", False, 20), (b"a\x01b\x02", False, 20), (b"a\x01b", False, 21), (b"a\x01b", True, 20)],
)
def test_a_separator_before_the_checksum_only_where_it_is_missing(
    properties: bytes, in_batch: bool, tail: int
) -> None:
    assert crc_tail_size(properties, in_batch) == tail
    values = {**SPECIFIED_FIELDS, "properties": properties}
    out = bytearray(300)
    size = encode_into(out, 7, values, property_crc=True, in_batch=in_batch)
    checked = check_record(memoryview(out)[: 7 + size], 7, require_property_crc=True)
    assert checked.is_valid
    assert checked.size == size
    expected = properties + (b"\x02" if tail == 21 else b"") + b"__CRC32#\x01"
    assert read_record(out, 7).properties.startswith(expected)
    assert len(read_record(out, 7).properties) == len(properties) + tail


# What makes no record


def test_what_does_not_fit_is_not_written() -> None:
    for out, at in ((bytearray(133), 0), (bytearray(134), 1), (bytearray(200), -1)):
        before = bytes(out)
        with pytest.raises(InvalidRecord, match="do not fit"):
            encode_into(out, at, SPECIFIED_FIELDS)
        assert out == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": bytes(32_768)},
        {"topic": bytes(32_768)},
        {"born_host": b"1234"},
        {"store_host": bytes(9)},
    ],
)
def test_fields_that_make_no_record_are_refused(wrong: dict[str, bytes]) -> None:
    with pytest.raises(InvalidRecord):
        encode_into(bytearray(100_000), 0, {**SPECIFIED_FIELDS, **wrong})


def test_a_checksum_must_fit_into_the_properties_too() -> None:
    values = {**SPECIFIED_FIELDS, "properties": bytes(32_750)}
    encode_into(bytearray(40_000), 0, values)
    with pytest.raises(InvalidRecord):
        encode_into(bytearray(40_000), 0, values, property_crc=True)


def test_a_read_only_buffer_cannot_be_written() -> None:
    with pytest.raises((BufferError, TypeError)):
        encode_into(bytes(200), 0, SPECIFIED_FIELDS)
