"""The stored record: byte for byte, there and back, and damaged in every way."""

import mmap
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message import hosts, record
from rocketq.message.record import (
    InvalidRecord,
    RecordStatus,
    check_record,
    crc_tail_size,
    decode_record,
    decode_records,
    encode_record,
    new_record,
    read_record,
    record_size,
    scan_records,
    write_blank,
)

SPECIFIED_FIELDS: dict[str, Any] = {
    "topic": b"TopicTest",
    "body": b"Hello RocketMQ",
    "properties": b"KEYS\x01KEY1\x02TAGS\x01TagA\x02",
    "queue_id": 3,
    "queue_offset": 7,
    "physical_offset": 1000,
    "born_timestamp": 1700000000000,
    "born_host": hosts.encode_host("127.0.0.1", 50000),
    "store_timestamp": 1700000000123,
    "store_host": hosts.encode_host("192.168.1.10", 10911),
}
SPECIFIED_RECORD = bytes.fromhex(
    "00000086daa320a769c865ed0000000300000000000000000000000700000000"
    "000003e8000000000000018bcfe568007f0000010000c3500000018bcfe5687b"
    "c0a8010a00002a9f0000000000000000000000000000000e48656c6c6f20526f"
    "636b65744d5109546f7069635465737400144b455953014b4559310254414753"
    "015461674102"
)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
encoded_hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
# Around 16 the checksum changes its stride, at 1024 its method.
bodies = st.binary(max_size=70) | st.integers(1000, 1100).map(lambda size: bytes(range(250)) * 5)
fields = st.fixed_dictionaries(
    {
        "topic": st.binary(max_size=20) | st.sampled_from([b"t" * 127, b"t" * 128, b"t" * 255]),
        "body": bodies,
        "properties": st.binary(max_size=60),
        "queue_id": int32s,
        "flag": int32s,
        "queue_offset": int64s,
        "physical_offset": int64s,
        "sys_flag": int32s,
        "born_timestamp": int64s,
        "born_host": encoded_hosts,
        "store_timestamp": int64s,
        "store_host": encoded_hosts,
        "reconsume_times": int32s,
        "prepared_transaction_offset": int64s,
    }
)


def with_host_bits(values: dict[str, Any]) -> int:
    """The flag as it is stored: its IPv6 bits tell the sizes of the hosts."""
    sys_flag: int = values["sys_flag"] & ~0x30
    sys_flag |= 0x10 if len(values["born_host"]) == 20 else 0
    return sys_flag | (0x20 if len(values["store_host"]) == 20 else 0)


# --- Bytes that are known


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


def encode_into(out: Any, at: int, values: dict[str, Any], **options: bool) -> int:
    return encode_record(
        out,
        at,
        values["topic"],
        values["queue_id"],
        values.get("flag", 0),
        values["queue_offset"],
        values["physical_offset"],
        values.get("sys_flag", 0),
        values["born_timestamp"],
        values["born_host"],
        values["store_timestamp"],
        values["store_host"],
        values.get("reconsume_times", 0),
        values.get("prepared_transaction_offset", 0),
        values["body"],
        values["properties"],
        **options,
    )


# --- There and back


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


@given(st.lists(fields, max_size=5))
def test_records_one_after_the_other(several: list[dict[str, Any]]) -> None:
    records = [new_record(**values) for values in several]
    buffer = memoryview(b"".join(records))

    found = scan_records(buffer)
    messages = decode_records(buffer, "broker-a", {"MIN_OFFSET": "0"})

    assert [bytes(buffer[start : start + size]) for start, size in found] == records
    assert [message.record for message in messages] == records
    assert all(message.broker_name == "broker-a" for message in messages)
    assert all(message.get_property("MIN_OFFSET") == "0" for message in messages)
    assert all(message.properties["MIN_OFFSET"] == "0" for message in messages)


def test_messages_outlive_the_buffer_they_came_in() -> None:
    buffer = bytearray(SPECIFIED_RECORD)
    (message,) = decode_records(buffer)
    buffer[:] = bytes(len(buffer))
    buffer.clear()  # not exported any more
    assert message.body == b"Hello RocketMQ"


# --- The checksum in the properties


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


# --- Damage


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
            scan_records(made[:cut])


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


def test_checks_print_what_they_found() -> None:
    assert repr(check_record(SPECIFIED_RECORD)) == "RecordCheck(VALID, size=134)"
    assert record_size(0, 0, 0) == record.FIXED_SIZE
