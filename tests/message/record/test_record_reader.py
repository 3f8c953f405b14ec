"""Reading stored records: there and back, and damaged in every way."""

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message.record.reader import (
    RecordStatus,
    are_records,
    check_record,
    decode_record,
    decode_records,
    read_record,
)
from rocketq.message.record.writer import InvalidRecord, new_record, write_blank
from tests.message.record.records import SPECIFIED_RECORD, fields

# There and back


def with_host_bits(values: dict[str, Any]) -> int:
    """The flag as it is stored: its IPv6 bits tell the sizes of the hosts."""
    sys_flag: int = values["sys_flag"] & ~0x30
    sys_flag |= 0x10 if len(values["born_host"]) == 20 else 0
    return sys_flag | (0x20 if len(values["store_host"]) == 20 else 0)


@given(fields, st.booleans())
def test_every_field_comes_back(values: dict[str, Any], property_crc: bool) -> None:
    made = new_record(**values, property_crc=property_crc)

    assert check_record(made, require_property_crc=property_crc).is_valid
    message = decode_record(made)
    read = read_record(made)

    for name in (
        "queue_id",
        "flag",
        "queue_offset",
        "physical_offset",
        "born_timestamp",
        "store_timestamp",
        "reconsume_times",
        "prepared_transaction_offset",
    ):
        assert getattr(message, name) == getattr(read, name) == values[name], name
    assert message.sys_flag == read.sys_flag == with_host_bits(values)
    assert message.raw_topic == read.topic == values["topic"]
    assert message.raw_born_host == values["born_host"]
    assert message.raw_store_host == values["store_host"]
    assert message.raw_body == values["body"]
    assert made[read.body_at : read.body_at + read.body_size] == values["body"]
    assert message.body_crc == zlib.crc32(values["body"]) & 0x7FFFFFFF
    assert message.is_body_intact
    assert message.raw_properties == read.properties
    assert message.raw_properties.startswith(values["properties"])
    assert message.store_size == read.size == len(made)


@given(st.lists(fields, max_size=5))
def test_records_one_after_the_other(several: list[dict[str, Any]]) -> None:
    records = [new_record(**values) for values in several]
    buffer = memoryview(b"".join(records))

    messages = decode_records(buffer, "broker-a", {"MIN_OFFSET": "0"})

    assert [message.record for message in messages] == records
    assert all(message.broker_name == "broker-a" for message in messages)
    assert all(message.get_property("MIN_OFFSET") == "0" for message in messages)
    assert all(message.properties["MIN_OFFSET"] == "0" for message in messages)


@given(st.lists(fields, min_size=1, max_size=5), st.data())
def test_many_records_are_checked_at_once(
    several: list[dict[str, Any]], data: st.DataObject
) -> None:
    buffer = bytearray(b"".join(new_record(**values) for values in several))
    assert are_records(buffer, len(several))
    assert not are_records(buffer, len(several) + 1)
    assert not are_records(buffer[:-1], len(several))
    at = data.draw(st.integers(0, len(buffer) - 1))
    buffer[at] ^= 0x41
    one_by_one, place = 0, 0
    while place < len(buffer) and (check := check_record(buffer, place)).is_valid:
        place += check.size
        one_by_one += 1
    assert are_records(buffer, len(several)) == (
        place == len(buffer) and one_by_one == len(several)
    )


def test_messages_outlive_the_buffer_they_came_in() -> None:
    buffer = bytearray(SPECIFIED_RECORD)
    (message,) = decode_records(buffer)
    buffer[:] = bytes(len(buffer))
    buffer.clear()  # not exported any more
    assert message.body == b"Hello RocketMQ"


# The checksum in the properties


@given(fields, st.data())
def test_one_changed_bit_is_noticed_with_the_checksum(
    values: dict[str, Any], data: st.DataObject
) -> None:
    made = bytearray(new_record(**values, property_crc=True))
    bit = data.draw(st.integers(0, len(made) * 8 - 1))
    made[bit // 8] ^= 1 << bit % 8
    assert not check_record(made, require_property_crc=True).is_valid


def test_a_missing_checksum_matters_only_where_it_is_required() -> None:
    assert check_record(SPECIFIED_RECORD).is_valid
    required = check_record(SPECIFIED_RECORD, require_property_crc=True)
    assert required.status == RecordStatus.BAD_PROPERTY_CRC


def test_a_property_that_only_looks_like_a_checksum_is_none() -> None:
    for value in (b"12345", b"12345678901"):
        made = new_record(b"t", b"b", b"__CRC32#\x01" + value + b"\x02")
        assert check_record(made).is_valid


def test_a_checksum_that_is_no_number_was_damaged() -> None:
    for tail in (b"123456789x\x02", b"1234567890\x03"):
        made = new_record(b"t", b"b", b"__CRC32#\x01" + tail)
        assert check_record(made).status == RecordStatus.BAD_PROPERTY_CRC


# Damage


@given(fields, st.data())
def test_a_changed_body_is_noticed(values: dict[str, Any], data: st.DataObject) -> None:
    if not values["body"]:
        return
    made = bytearray(new_record(**values))
    at = read_record(made).body_at + data.draw(st.integers(0, len(values["body"]) - 1))
    made[at] ^= 1 << data.draw(st.integers(0, 7))

    assert check_record(made).status == RecordStatus.BAD_BODY_CRC
    assert check_record(made, check_crc=False).is_valid
    assert not decode_record(made).is_body_intact


@given(fields, st.data())
def test_a_record_cut_short_is_torn(values: dict[str, Any], data: st.DataObject) -> None:
    made = new_record(**values)
    cut = data.draw(st.integers(0, len(made) - 1))
    assert check_record(made[:cut]).status == RecordStatus.TORN
    with pytest.raises(InvalidRecord):
        decode_record(made[:cut])
    if cut:
        with pytest.raises(InvalidRecord):
            decode_records(made[:cut])


@given(st.integers(0, 300))
def test_zeros_are_no_record(count: int) -> None:
    status = check_record(bytes(count)).status
    assert status == (RecordStatus.TORN if count < 8 else RecordStatus.BAD_MAGIC)


def test_blank_records_are_recognised_and_never_decoded() -> None:
    out = bytearray(200)
    write_blank(out, 50, 150)
    checked = check_record(out, 50)
    assert checked.is_blank
    assert not checked.is_valid
    assert checked.size == 150
    with pytest.raises(InvalidRecord, match="CBD43194"):
        decode_record(out, 50)


@given(st.binary(max_size=300))
def test_garbage_never_passes(garbage: bytes) -> None:
    assert not check_record(garbage).is_valid


@given(fields, st.integers(0, 2**32 - 1), st.sampled_from([0, 36, 84, 96, 108]))
def test_wrong_sizes_inside_a_record_are_noticed(
    values: dict[str, Any], wrong: int, at: int
) -> None:
    """Overwrite a size, or the flag that decides the sizes of hosts, with anything."""
    made = bytearray(new_record(**values))
    size = len(made)
    made[at : at + 4] = wrong.to_bytes(4, "big")
    del made[size:]
    checked = check_record(made, check_crc=False)
    try:
        read = read_record(made)
    except InvalidRecord:
        assert not checked.is_valid
    else:
        assert checked.is_valid
        assert read.size == len(made)
        assert decode_record(made).raw_topic == read.topic
        assert decode_record(made).raw_properties == read.properties


def test_a_check_outside_the_buffer_reads_nothing() -> None:
    for at in (-1, -100, len(SPECIFIED_RECORD), 10**9):
        assert check_record(SPECIFIED_RECORD, at).status == RecordStatus.TORN
        with pytest.raises(InvalidRecord):
            read_record(SPECIFIED_RECORD, at)
        with pytest.raises(InvalidRecord):
            decode_record(SPECIFIED_RECORD, at)


def test_checks_print_what_they_found() -> None:
    assert repr(check_record(SPECIFIED_RECORD)) == "RecordCheck(VALID, size=134)"
