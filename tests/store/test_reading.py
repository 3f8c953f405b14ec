"""Reading queues, single messages, keys and times."""

from pathlib import Path

import pytest

from rocketq.common.clock import ManualClock
from rocketq.filter import compile_sql, filter_for
from rocketq.message.record.reader import decode_records
from rocketq.store import Boundary, GetStatus, MessageStore, StoreConfig
from rocketq.store.index import index
from tests.store.support import bodies, message, read_queue, small_config


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    # Room for a thousand entries in a queue file: limits show without its edge.
    return small_config(tmp_path, mapped_file_size_consume_queue=20_000)


async def test_neighbours_become_one_slice(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        for number in range(10):
            store.append(message(b"%d" % number))
        result = store.get("orders", 0, 2, 5)
        assert result.status is GetStatus.FOUND
        assert len(result.buffers) == 1
        assert result.message_count == 5
        assert result.size == len(result.buffers[0])
        assert (result.next_offset, result.min_offset, result.max_offset) == (7, 0, 10)
        assert [m.queue_offset for m in decode_records(result.buffers[0])] == [2, 3, 4, 5, 6]


async def test_what_lies_apart_becomes_several_slices(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        for number in range(12):
            store.append(message(b"%d" % number, queue_id=number % 2))
        result = store.get("orders", 0, 0, 32)
        assert len(result.buffers) == 6
        found = [m.body for buffer in result.buffers for m in decode_records(buffer)]
        assert found == [b"0", b"2", b"4", b"6", b"8", b"10"]


async def test_slices_never_lie_across_two_files(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=1024)
    async with MessageStore(config) as store:
        for number in range(40):
            store.append(message(b"%d" % number))
        assert bodies(store) == [b"%d" % number for number in range(40)]
        assert len(store.get("orders", 0, 0, 20).buffers) > 1


async def test_the_first_message_is_always_returned(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        store.append(message(bytes(5000)))
        store.append(message(bytes(5000)))
        result = store.get("orders", 0, 0, 32, 100)
        assert (result.message_count, result.next_offset) == (1, 1)


async def test_bytes_are_limited_as_asked_or_as_configured(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        size = store.append(message(bytes(1000))).size
        for _ in range(399):
            store.append(message(bytes(1000)))
        assert store.get("orders", 0, 0, 400, 10 * size).message_count == 10
        by_default = 262_144 // size
        assert store.get("orders", 0, 0, 400).message_count == by_default
        assert store.get("orders", 0, 0, 400, 1 << 31).message_count == by_default
        assert store.get("orders", 0, 0, 400, 1 << 20).message_count == 400


async def test_what_is_far_behind_is_read_in_smaller_pieces(tmp_path: Path) -> None:
    config = small_config(
        tmp_path, mapped_file_size_consume_queue=20_000, access_message_in_memory_max_ratio=0
    )
    async with MessageStore(config) as store:
        for _ in range(100):
            store.append(message(bytes(1000)))
        result = store.get("orders", 0, 0, 100)
        assert result.size <= 65_536
        assert result.suggest_slave
        store.apply(config)
        assert store.get("orders", 0, 99, 100).message_count == 1


@pytest.mark.parametrize(
    ("offset", "status", "following"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
async def test_outside_the_queue_the_status_says_where_it_is(
    config: StoreConfig, offset: int, status: GetStatus, following: int
) -> None:
    async with MessageStore(config) as store:
        for _ in range(3):
            store.append(message())
        result = store.get("orders", 0, offset, 32)
        assert (result.status, result.next_offset) == (status, following)
        assert result.buffers == []


async def test_a_queue_that_does_not_exist_is_not_made_by_reading(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        result = store.get("orders", 7, 0, 32)
        assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0)
        assert store.topics() == []
        assert store.min_offset("orders", 7) == -1
        assert store.max_offset("orders", 7) == 0
        assert store.offset_by_time("orders", 7, 0) == 0
        assert store.earliest_time("orders", 7) == -1
        assert store.message_by_queue_offset("orders", 7, 0) is None
        assert list(store.entries("orders", 7, 0, 9)) == []


async def test_a_queue_without_messages_says_so(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        store.append(message(sys_flag=4))
        result = store.get("orders", 0, 5, 32)
        assert (result.status, result.next_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)


# Filters


async def test_a_tag_filter_passes_by_code(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        for number in range(20):
            store.append(message(b"%d" % number, tags="AB"[number % 2]))
        found = read_queue(store, message_filter=filter_for("TAG", "B"))
        assert [m.body for m in found] == [b"%d" % number for number in range(1, 20, 2)]


async def test_when_nothing_passes_reading_goes_on_behind_what_was_looked_at(
    config: StoreConfig,
) -> None:
    async with MessageStore(config) as store:
        for _ in range(900):
            store.append(message(tags="A"))
        result = store.get("orders", 0, 0, 32, 0, filter_for("TAG", "B"))
        assert result.status is GetStatus.NO_MATCHED_MESSAGE
        assert result.next_offset == 800  # 16000 bytes of entries


async def test_an_sql_filter_sees_the_properties(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        for number in range(10):
            store.append(message(b"%d" % number, properties=f"n\x01{number}\x02".encode()))
        found = read_queue(store, message_filter=compile_sql("n BETWEEN 3 AND 5"))
        assert [m.body for m in found] == [b"3", b"4", b"5"]


# Single messages


async def test_a_message_is_found_by_its_place_and_by_its_number(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        results = [store.append(message(b"%d" % number)) for number in range(5)]
        for number, result in enumerate(results):
            at = store.message_at(result.physical_offset)
            by_number = store.message_by_queue_offset("orders", 0, number)
            assert at is not None
            assert by_number is not None
            assert at.body == by_number.body == b"%d" % number
            record = store.look_up(result.physical_offset, result.size)
            assert record is not None
            assert len(record) == result.size
        assert store.message_at(results[-1].end) is None
        assert store.message_at(1) is None
        assert store.message_at(-5) is None
        assert store.message_at(1 << 40) is None
        assert store.message_by_queue_offset("orders", 0, 5) is None
        assert store.look_up(results[0].physical_offset, results[0].size - 1) is None


# By key


async def test_a_message_is_found_by_each_of_its_keys(config: StoreConfig) -> None:
    async with MessageStore(config) as store:
        store.append(message(b"both", keys="k1 k2", unique_key="u1"))
        store.append(message(b"one", keys="k2"))
        store.append(message(b"other topic", topic="other", keys="k2"))

        def found(key: str, topic: str = "orders") -> list[bytes]:
            buffers = store.query_keys(topic, key, 9, 0, 1 << 60).buffers
            return [m.body for buffer in buffers for m in decode_records(buffer)]

        assert found("k1") == [b"both"]
        assert found("u1") == [b"both"]
        assert found("k2") == [b"both", b"one"]
        assert found("k2", "other") == [b"other topic"]
        assert found("k3") == []


async def test_keys_are_found_over_many_index_files(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        for number in range(500):
            store.append(message(b"%d" % number, keys=f"key{number} shared"))
        assert len(list((tmp_path / "index").iterdir())) > 10
    async with MessageStore(config) as store:
        for number in range(0, 500, 17):
            buffers = store.query_keys("orders", f"key{number}", 64, 0, 1 << 60).buffers
            found = [m.body for b in buffers for m in decode_records(b) if f"key{number}" in m.keys]
            assert found == [b"%d" % number]
        shared = store.query_keys("orders", "shared", 1000, 0, 1 << 60)
        assert len(shared.buffers) == 64  # as many as one query returns
        newest = [m.queue_offset for b in shared.buffers for m in decode_records(b)]
        assert newest == list(range(436, 500))


async def test_keys_are_found_within_a_range_of_time(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    async with MessageStore(small_config(tmp_path), clock=clock) as store:
        times = []
        for number in range(60):
            times.append(clock.now_ms())
            store.append(message(b"%d" % number, keys="k"))
            clock.advance(10_000)
        result = store.query_keys("orders", "k", 64, times[10], times[20])
        found = [m.body for buffer in result.buffers for m in decode_records(buffer)]
        assert found == [b"%d" % number for number in range(10, 21)]
        assert result.last_update_timestamp == times[-1]


# By time


async def test_an_offset_is_found_by_time(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    async with MessageStore(small_config(tmp_path), clock=clock) as store:
        times = []
        for number in range(100):
            times.append(clock.now_ms())
            store.append(message(b"%d" % number))
            if number % 3 == 2:
                clock.advance(10)

        def lower(time: int) -> int:
            return store.offset_by_time("orders", 0, time)

        def upper(time: int) -> int:
            return store.offset_by_time("orders", 0, time, Boundary.UPPER)

        assert (lower(0), upper(0)) == (0, 0)
        assert (lower(times[0]), upper(times[0])) == (0, 2)
        assert (lower(times[50]), upper(times[50])) == (48, 50)
        assert (lower(times[50] + 1), upper(times[50] + 1)) == (51, 50)
        assert (lower(times[-1]), upper(times[-1])) == (99, 99)
        assert (lower(times[-1] + 1), upper(times[-1] + 1)) == (100, 99)
        assert store.earliest_time() == store.earliest_time("orders", 0) == times[0]
        assert store.store_time("orders", 0, 50) == times[50]
        assert store.store_time("orders", 0, 100) == -1


@pytest.mark.parametrize(("most", "count"), [(1_000, 10), (100, 0)])
async def test_a_question_looks_at_a_bounded_part_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, count: int
) -> None:
    """A key that everybody uses, asked for in a time in which hardly anybody did."""
    monkeypatch.setattr(index, "_MOST_LOOKED_AT", most)
    clock = ManualClock()
    async with MessageStore(small_config(tmp_path, max_index_num=2_000), clock=clock) as store:
        for number in range(310):
            if number == 10:
                clock.advance(60_000)
                begin_ms = clock.now_ms()
            store.append(message(b"%d" % number, keys="everybody's"))
        found = store.query_keys("orders", "everybody's", 64, 0, begin_ms - 30_000)
        assert len(found.buffers) == count
