"""SDK, Spark and the broker's filters read the same properties out of the same bytes."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketq.filter import filter_for
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import decode_records
from rocketq.message.record.writer import new_record
from rocketq.spark.read.arrow import ArrowBatches
from rocketq.store import MessageInner, MessageStore, StoreConfig

NAMES = ["TAGS", "KEYS", "UNIQ_KEY", "TAG", "TAGSX", "shop", ""]
VALUES = ["a", "b", "ab", "a\x01b", ""]

entry_texts = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(["\x01", "\x01", "\x01", ""]),
    st.sampled_from(VALUES),
).map("".join)
encoded_properties = st.lists(entry_texts, max_size=8).map(
    lambda parts: "\x02".join(parts).encode()
)

queue_ids = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    root: Path = tmp_path_factory.mktemp("store")
    store = MessageStore(
        StoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=1 << 24)
    )
    with asyncio.Runner() as runner:
        runner.run(store.open())
        try:
            yield store
        finally:
            runner.run(store.close())


def pulled(store: MessageStore, queue_id: int, kind: str, expression: str) -> list[int]:
    """The queue offsets that a consumer with such a subscription gets."""
    wanted = filter_for(kind, expression)
    result = store.get("orders", queue_id, 0, 100, 1 << 20, wanted)
    return [message.queue_offset for message in decode_records(b"".join(result.buffers))]


@settings(max_examples=60)
@given(st.lists(encoded_properties, min_size=1, max_size=6))
def test_everybody_finds_the_same_properties(store: MessageStore, written: list[bytes]) -> None:
    queue_id = next(queue_ids)
    for encoded in written:
        inner = MessageInner(topic="orders", queue_id=queue_id, body=b"x", properties=encoded)
        assert store.append(inner).is_stored
    raw = b"".join(store.get("orders", queue_id, 0, 100, 1 << 20, None).buffers)

    messages = decode_records(raw)
    queue = MessageQueue("orders", "broker-a", queue_id)
    columns = ["tags", "keys", "msg_id", "properties"]
    (batch,) = ArrowBatches(queue, columns).batches(raw, 0, 100)
    rows = batch.to_pylist()

    assert [dict(row["properties"]) for row in rows] == [
        dict(message.properties) for message in messages
    ]
    assert all(len(dict(row["properties"])) == len(row["properties"]) for row in rows)
    assert [row["tags"] for row in rows] == [message.tags for message in messages]
    assert [row["keys"] for row in rows] == [message.properties.get("KEYS") for message in messages]
    assert [row["msg_id"] for row in rows] == [message.msg_id for message in messages]
    for tag in ("a", "b", "ab"):
        expected = [message.queue_offset for message in messages if message.tags == tag]
        assert pulled(store, queue_id, "TAG", tag) == expected
        assert pulled(store, queue_id, "SQL92", f"TAGS = '{tag}'") == expected
        kept = list(ArrowBatches(queue, ["queue_offset"], [tag.encode()]).batches(raw, 0, 100))
        assert [row["queue_offset"] for part in kept for row in part.to_pylist()] == expected


def test_the_last_of_equal_names_counts_in_every_column() -> None:
    record = new_record(b"t", b"x", b"TAGS\x01first\x02a\x011\x02TAGS\x01last\x02a\x012\x02")
    queue = MessageQueue("t", "broker-a", 0)
    (batch,) = ArrowBatches(queue, ["tags", "properties"], [b"last"]).batches(record, 0, 1)
    assert batch.to_pylist() == [{"tags": "last", "properties": [("TAGS", "last"), ("a", "2")]}]
    assert not list(ArrowBatches(queue, ["tags"], [b"first"]).batches(record, 0, 1))
