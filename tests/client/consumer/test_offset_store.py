"""Offsets in memory and in the local file, in RocketMQ's own format."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rocketq.client.consumer.offset_store import (
    LocalOffsetStore,
    OffsetTable,
    decode_offsets,
    encode_offsets,
)
from rocketq.message.queue import MessageQueue

THREE = MessageQueue("TopicTest", "broker-a", 3)
ZERO = MessageQueue("TopicTest", "broker-a", 0)

AS_JAVA_WRITES_IT = b"""{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":3,
\t\t\t"topic":"TopicTest"
\t\t}:42,{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"TopicTest"
\t\t}:40
\t}
}"""


def test_the_file_is_written_as_java_writes_it() -> None:
    assert encode_offsets({THREE: 42, ZERO: 40}) == AS_JAVA_WRITES_IT


def test_the_file_is_read_as_java_writes_it() -> None:
    assert decode_offsets(AS_JAVA_WRITES_IT) == {THREE: 42, ZERO: 40}


def test_an_empty_table_is_readable_too() -> None:
    assert decode_offsets(encode_offsets({})) == {}
    assert decode_offsets(b'{"offsetTable":{}}') == {}


@given(
    st.dictionaries(
        st.builds(MessageQueue, st.text(), st.text(), st.integers(0, 1 << 31)),
        st.integers(0, 1 << 62),
    )
)
def test_whatever_is_written_can_be_read(offsets: dict[MessageQueue, int]) -> None:
    clean = {
        queue: offset
        for queue, offset in offsets.items()
        if (queue.topic + queue.broker_name).isprintable()
    }
    assert decode_offsets(encode_offsets(clean)) == clean


async def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    store = LocalOffsetStore.of(tmp_path, "10.0.0.1@DEFAULT", "group")
    await store.load()
    assert await store.read(THREE) is None
    store.update(THREE, 7)
    await store.persist([THREE])

    again = LocalOffsetStore.of(tmp_path, "10.0.0.1@DEFAULT", "group")
    await again.load()

    assert await again.read(THREE) == 7
    assert (tmp_path / "10.0.0.1@DEFAULT" / "group" / "offsets.json").exists()


async def test_a_damaged_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    store = LocalOffsetStore(path)
    await store.load()
    for offset in (7, 8):
        store.update(THREE, offset)
        await store.persist([THREE])
    path.write_bytes(b'{"offsetTable":{{"brokerName"')

    again = LocalOffsetStore(path)
    await again.load()

    assert await again.read(THREE) == 7


async def test_queues_that_were_given_away_stay_in_the_file(tmp_path: Path) -> None:
    store = LocalOffsetStore(tmp_path / "offsets.json")
    await store.load()
    store.update(THREE, 7)
    store.update(ZERO, 9)
    await store.persist([THREE, ZERO])
    store.forget(THREE)
    await store.persist([ZERO])

    again = LocalOffsetStore(tmp_path / "offsets.json")
    await again.load()

    assert await again.read(THREE) == 7


def test_concurrent_progress_only_goes_forward() -> None:
    table = OffsetTable()
    table.update(THREE, 10, only_forward=True)
    table.update(THREE, 9, only_forward=True)
    assert table.get(THREE) == 10
    table.update(THREE, 9)
    assert table.get(THREE) == 9


def test_a_snapshot_can_be_of_one_topic() -> None:
    table = OffsetTable()
    table.update(THREE, 1)
    table.update(MessageQueue("other", "broker-a", 0), 2)
    assert table.snapshot("TopicTest") == {THREE: 1}
    assert len(table.snapshot()) == 2
