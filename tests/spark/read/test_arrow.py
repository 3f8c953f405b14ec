"""Pulled bytes to Arrow columns and back, against the message classes."""

import tracemalloc
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketq.message.flags import SysFlag
from rocketq.message.hashing import java_hash
from rocketq.message.hosts import encode_host
from rocketq.message.message import Message
from rocketq.message.properties.codec import decode_properties, encode_properties
from rocketq.message.queue import MessageQueue
from rocketq.message.record.batch import encode_batch, split_batch
from rocketq.message.record.reader import decode_records
from rocketq.message.record.writer import new_record
from rocketq.spark.read.arrow import ArrowBatches
from rocketq.spark.read.columns import BrokenRecords, RecordTable
from rocketq.spark.read.damage import DamagedMessage
from rocketq.spark.schema import COLUMNS
from rocketq.spark.write.columns import (
    map_parts,
    numbers,
    optional_texts,
    queue_numbers,
    texts,
)
from rocketq.spark.write.encoder import BatchRows, Numbers, UnfitRow
from rocketq.spark.write.rows import RESERVED

QUEUE = MessageQueue("orders", "broker-a", 3)
text = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
properties = st.dictionaries(
    st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "price", "ключ", "UNIQ_KEY2", "K"]),
    text,
    max_size=5,
)
hosts = st.sampled_from([("127.0.0.1", 9), ("10.1.2.3", 50000), ("::1", 10911)])


@st.composite
def records(draw: st.DrawFn) -> bytes:
    body = draw(st.binary(max_size=200))
    is_compressed = draw(st.booleans())
    return new_record(
        b"orders",
        zlib.compress(body) if is_compressed else body,
        encode_properties(draw(properties)),
        queue_id=3,
        flag=draw(st.integers(-(2**31), 2**31 - 1)),
        queue_offset=draw(st.integers(0, 2**40)),
        physical_offset=draw(st.integers(0, 2**50)),
        sys_flag=1 if is_compressed else 0,
        born_timestamp=draw(st.integers(0, 2**41)),
        born_host=encode_host(*draw(hosts)),
        store_timestamp=draw(st.integers(0, 2**41)),
        store_host=encode_host(*draw(hosts)),
        reconsume_times=draw(st.integers(0, 99)),
    )


@given(st.lists(records(), min_size=1))
@settings(deadline=None)
def test_every_column_says_what_the_message_says(given_records: list[bytes]) -> None:
    pulled = b"".join(given_records)
    (batch,) = ArrowBatches(QUEUE, list(COLUMNS)).batches(pulled, 0, 2**62)
    batch.validate(full=True)
    for message, row in zip(decode_records(pulled), batch.to_pylist(), strict=True):
        host, port = message.born_host
        assert row["topic"] == "orders"
        assert row["broker_name"] == "broker-a"
        assert row["queue_id"] == message.queue_id
        assert row["queue_offset"] == message.queue_offset
        assert row["msg_id"] == message.msg_id
        assert row["keys"] == message.get_property("KEYS")
        assert row["tags"] == message.tags
        assert row["body"] == message.body
        assert dict(row["properties"]) == message.properties
        assert row["born_timestamp"].timestamp() == message.born_timestamp / 1000
        assert row["store_timestamp"].timestamp() == message.store_timestamp / 1000
        assert row["born_host"] == (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        assert row["reconsume_times"] == message.reconsume_times
        assert row["sys_flag"] == message.sys_flag
        assert row["flag"] == message.flag
        assert row["body_error"] is None


def numbered(count: int) -> bytes:
    host = encode_host("127.0.0.1", 1)
    return b"".join(
        new_record(
            b"t",
            b"%d" % number,
            encode_properties({"TAGS": "even" if number % 2 == 0 else "odd"}),
            queue_offset=number,
            born_host=host,
            store_host=host,
        )
        for number in range(count)
    )


def test_only_the_offsets_asked_for_become_rows() -> None:
    (batch,) = ArrowBatches(QUEUE, ["queue_offset"]).batches(numbered(10), 3, 7)
    assert batch.column(0).to_pylist() == [3, 4, 5, 6]
    assert not list(ArrowBatches(QUEUE, ["queue_offset"]).batches(numbered(10), 10, 20))


def test_tags_are_compared_by_their_text() -> None:
    (batch,) = ArrowBatches(QUEUE, ["queue_offset"], {b"odd"}).batches(numbered(6), 0, 6)
    assert batch.column(0).to_pylist() == [1, 3, 5]


def test_records_that_hold_several_messages_become_a_row_each() -> None:
    """Topics of 5.x may keep a batch in one record; the offsets inside it follow each other."""
    host = encode_host("127.0.0.1", 1)
    batch = [
        Message("t", b"%d" % number, tags="even" if number % 2 == 0 else "odd")
        for number in range(6)
    ]
    inner = new_record(
        b"t",
        zlib.compress(encode_batch(batch)),
        encode_properties({"INNER_NUM": "6", "INNER_BASE": "10"}),
        queue_offset=10,
        sys_flag=SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP | SysFlag.COMPRESSED,
        born_host=host,
        store_host=host,
    )
    alone = new_record(
        b"t",
        b"6",
        encode_properties({"TAGS": "even"}),
        queue_offset=16,
        born_host=host,
        store_host=host,
    )
    for tags, wanted in ((None, [12, 13, 14, 15, 16]), ({b"even"}, [12, 14, 16])):
        columns = ["queue_offset", "body", "sys_flag"]
        found = ArrowBatches(QUEUE, columns, tags).batches(inner + alone, 12, 20)
        assert [row for batch in found for row in batch.to_pylist()] == [
            {"queue_offset": offset, "body": b"%d" % (offset - 10), "sys_flag": 0}
            for offset in wanted
        ]


# What anybody may send


def record(body: bytes, offset: int = 0, *, properties: bytes = b"", **parts: Any) -> bytes:
    host = encode_host("127.0.0.1", 1)
    parts = {"born_host": host, "store_host": host, **parts}
    return new_record(b"t", body, properties, queue_offset=offset, **parts)


def rows_of(pulled: bytes, columns: list[str], **settings: Any) -> list[dict[str, Any]]:
    batches = list(ArrowBatches(QUEUE, columns, **settings).batches(pulled, 0, 100))
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


FALSE_BATCH = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (record(b"not compressed", 1, sys_flag=1), "the body is damaged"),
        (record(b"x", 1, sys_flag=1 | 7 << 8), "compression type 7 is not known"),
        (record(zlib.compress(bytes(5000)), 1, sys_flag=1), "more than 4096 bytes"),
        (record(b"no batch", 1, sys_flag=FALSE_BATCH), "it holds no batch of messages"),
        (
            record(b"", 1, properties=b"INNER_BASE\x01" + b"9" * 5000, sys_flag=FALSE_BATCH),
            "it holds no batch of messages",
        ),
        (record(b"no batch", 1, sys_flag=FALSE_BATCH | 1), "it holds no batch of messages"),
    ],
)
def test_a_message_that_is_not_what_it_says_does_not_stop_the_others(
    damaged: bytes, why: str
) -> None:
    pulled = record(b"a", 0) + damaged + record(zlib.compress(b"c"), 2, sys_flag=1)
    columns = ["queue_offset", "body", "body_error"]
    # Who does not ask for bodies never learns of it, unless it is not even a message.
    first = "queue_offset"
    assert [row[first] for row in rows_of(pulled, [first], max_body_bytes=4096)] == [0, 1, 2]
    with pytest.raises(DamagedMessage, match=f"message 1 of topic 'orders'.*{why}.*failOnDamage"):
        rows_of(pulled, columns, max_body_bytes=4096)
    found = rows_of(pulled, columns, fail_on_damage=False, max_body_bytes=4096)
    assert [row["queue_offset"] for row in found] == [0, 1, 2]
    assert [row["body"] for row in found] == [b"a", None, b"c"]
    assert why in found[1]["body_error"]
    assert found[0]["body_error"] is found[2]["body_error"] is None


def test_messages_that_grow_a_thousandfold_come_a_few_at_a_time() -> None:
    bomb = zlib.compress(bytes(8 << 20))
    pulled = b"".join(record(bomb, number, sys_flag=1) for number in range(20))
    assert len(pulled) < 1 << 20
    batches = ArrowBatches(QUEUE, ["queue_offset", "body"]).batches(pulled, 0, 100)
    offsets = []
    tracemalloc.start()
    try:
        for batch in batches:
            assert batch.num_rows == 1
            offsets += batch.column(0).to_pylist()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert offsets == list(range(20))
    assert peak < 40 << 20, "of 160 MB"


@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=5))
def test_properties_that_are_not_text_become_valid_text(pairs: list[tuple[bytes, bytes]]) -> None:
    pairs = [*pairs, (b"TAGS", b"\xff"), (b"KEYS", b"\xc3"), (b"UNIQ_KEY", b"\xa9")]
    raw = b"".join(name + b"\x01" + value + b"\x02" for name, value in pairs)
    pulled = record(b"a", 0, properties=raw) + record(b"b", 1, properties=b"\xe4\x01\xf6\x02")
    names = ["tags", "keys", "msg_id", "properties"]
    first, second = rows_of(pulled, names)
    message, _ = decode_records(pulled)
    assert second["properties"] == [("\ufffd", "\ufffd")]
    assert (first["tags"], first["keys"], first["msg_id"]) == ("\ufffd", "\ufffd", "\ufffd")
    assert set(dict(first["properties"])) == set(message.properties)


@pytest.mark.parametrize("moment", [2**63 - 1, -(2**63), 2**62, 253_402_300_800_000])
def test_times_that_nobody_can_show_are_the_nearest_that_can_be_shown(moment: int) -> None:
    pulled = record(b"a", born_timestamp=moment, store_timestamp=moment)
    (row,) = rows_of(pulled, ["born_timestamp", "store_timestamp"])
    year = 9999 if moment > 0 else 1
    assert (row["born_timestamp"].year, row["store_timestamp"].year) == (year, year)


@given(st.binary(max_size=400), st.integers(0, 400))
def test_bytes_that_are_no_records_are_refused(noise: bytes, cut: int) -> None:
    pulled = numbered(2)
    for broken in (pulled[: min(cut, len(pulled) - 1)], pulled + noise[:-1] + b"\x00"):
        try:
            table = RecordTable(broken, 0, 100)
        except BrokenRecords:
            continue
        assert len(broken) in (0, len(numbered(1)))
        assert table.count <= 1


rows = st.lists(
    st.fixed_dictionaries(
        {
            "body": st.binary(min_size=1, max_size=80),
            "tags": st.none() | text,
            "keys": st.none() | text,
            "sharding_key": st.none() | text,
            "flag": st.none() | st.integers(-(2**31), 2**31 - 1),
            "properties": st.none()
            | st.dictionaries(
                text | st.sampled_from(["TAGS", "WAIT"]), st.none() | text, max_size=3
            ),
        }
    ),
    min_size=1,
    max_size=20,
)


def table_of(given_rows: list[dict[str, Any]]) -> pa.RecordBatch:
    types = {
        "body": pa.binary(),
        "tags": pa.string(),
        "keys": pa.string(),
        "sharding_key": pa.string(),
        "flag": pa.int32(),
        "properties": pa.map_(pa.string(), pa.string()),
    }
    columns = []
    for name, kind in types.items():
        values = [row.get(name) for row in given_rows]
        if name == "properties":
            values = [None if value is None else list(value.items()) for value in values]
        columns.append(pa.array(values, kind))
    return pa.RecordBatch.from_arrays(columns, names=list(types))


def batch_rows(batch: pa.RecordBatch, first_row: int = 0) -> BatchRows:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return BatchRows(
        batch.num_rows,
        texts(columns["body"]),
        optional_texts(columns["tags"]),
        optional_texts(columns["keys"]),
        optional_texts(columns["sharding_key"]),
        map_parts(columns["properties"]),
        numbers(columns["flag"]),
        RESERVED,
        b"A" * 24,
        first_row,
    )


@given(rows, st.integers(0, 5))
@settings(deadline=None)
def test_rows_become_a_batch_as_the_client_would_encode_it(
    given_rows: list[dict[str, Any]], skipped: int
) -> None:
    batch = table_of(given_rows).slice(min(skipped, len(given_rows) - 1))
    wanted = given_rows[min(skipped, len(given_rows) - 1) :]
    encoded, after = batch_rows(batch, 5).encode(None, 0, 1 << 20, 1000)
    assert after == len(wanted)
    for number, ((flag, body, raw), row) in enumerate(
        zip(split_batch(bytes(encoded)), wanted, strict=True)
    ):
        expected = {"UNIQ_KEY": "A" * 24 + f"{number + 5:08X}"}
        expected |= {"TAGS": row["tags"]} if row["tags"] else {}
        expected |= {"KEYS": row["keys"]} if row["keys"] else {}
        expected |= {"__SHARDINGKEY": row["sharding_key"]} if row["sharding_key"] else {}
        for name, value in (row["properties"] or {}).items():
            if value and name.encode() not in RESERVED:
                expected[name] = value
        assert (flag, bytes(body)) == (row["flag"] or 0, row["body"])
        assert decode_properties(raw) == expected
    assert bytes(encoded[: len(encode_batch([Message("t", b"x")]))])[4:12] == bytes(8)


@given(st.lists(st.none() | text), st.integers(1, 9), st.integers(0, 3))
def test_keys_choose_queues_as_javas_clients_do(
    keys: list[str | None], count: int, skipped: int
) -> None:
    chosen = queue_numbers(pa.array(keys, pa.string()).slice(skipped), count)
    assert chosen.to_pylist() == [
        None if key is None else abs(java_hash(key)) % count for key in keys[skipped:]
    ]


def test_rows_may_be_chosen_and_keep_their_numbers() -> None:
    fine = {"tags": None, "keys": None, "properties": None}
    table = table_of([{**fine, "body": b"%d" % number} for number in range(5)])
    encoded, after = batch_rows(table).encode(Numbers(np.array([4, 1], np.int32).data), 0, 1000, 10)
    (_, first, raw), (_, second, _) = split_batch(bytes(encoded))
    assert (after, bytes(first), bytes(second)) == (2, b"4", b"1")
    assert decode_properties(raw)["UNIQ_KEY"].endswith("00000004")


def test_no_reserved_name_begins_with_a_small_letter() -> None:
    """The encoder looks at the first letter before it looks a name up."""
    assert all(name[:1] < b"a" for name in RESERVED)


def test_a_batch_ends_before_its_limit_and_a_large_row_goes_alone() -> None:
    large = {"body": b"x" * 5000, "tags": None, "keys": None, "properties": None}
    small = {**large, "body": b"y" * 400}
    rows_of_table = batch_rows(table_of([small, small, small, large, small]))
    sizes, at = [], 0
    while at < 5:
        encoded, after = rows_of_table.encode(None, at, 1100, 1000)
        sizes.append(after - at)
        assert len(encoded) <= 1100 or after - at == 1
        at = after
    assert sizes == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"body": None}, "body is null"),
        ({"tags": "a\x01b"}, "character 1 or 2"),
        ({"properties": {"a": "b\x02"}}, "property b'a'"),
        ({"keys": "k" * 40_000}, "32767"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named(row: dict[str, Any], complaint: str) -> None:
    fine = {"body": b"x", "tags": None, "keys": None, "properties": None}
    rows_of_table = batch_rows(table_of([fine, {**fine, **row}]))
    with pytest.raises(UnfitRow, match=complaint) as caught:
        rows_of_table.encode(None, 0, 1 << 20, 1000)
    assert caught.value.row == 1
