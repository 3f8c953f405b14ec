"""Taking messages: what is written, what is refused, and where things end up."""

import struct
from pathlib import Path

import pytest

from rocketq.common.clock import ManualClock
from rocketq.message.hashing import java_hash
from rocketq.message.message import Message
from rocketq.message.record.batch import encode_batch
from rocketq.message.record.reader import check_record, decode_record
from rocketq.message.record.writer import new_record
from rocketq.store import BrokerRole, MessageStore, PutStatus
from rocketq.store.durability.running_flags import Flag
from tests.store.support import HOST, bodies, message, read_queue, small_config


async def test_a_message_is_stored_and_found(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        result = store.append(message(b"hello", tags="A"))
        assert result.status is PutStatus.PUT_OK
        assert (result.physical_offset, result.queue_offset, result.count) == (0, 0, 1)
        assert store.max_physical_offset == result.end
        assert bodies(store) == [b"hello"]


async def test_the_record_is_the_one_rocketmq_would_write(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_123)
    async with MessageStore(small_config(tmp_path), clock=clock) as store:
        result = store.append(
            message(
                b"Hello RocketMQ",
                topic="TopicTest",
                queue_id=3,
                properties=b"KEYS\x01KEY1\x02TAGS\x01TagA\x02",
                born_timestamp=1_700_000_000_000,
                flag=-2,
                sys_flag=8,
                reconsume_times=5,
                prepared_transaction_offset=77,
            )
        )
        record = store.look_up(result.physical_offset)
        assert record is not None
        assert bytes(record) == new_record(
            b"TopicTest",
            b"Hello RocketMQ",
            b"KEYS\x01KEY1\x02TAGS\x01TagA\x02",
            queue_id=3,
            flag=-2,
            sys_flag=8,
            born_timestamp=1_700_000_000_000,
            born_host=HOST,
            store_timestamp=1_700_000_000_123,
            store_host=HOST,
            reconsume_times=5,
            prepared_transaction_offset=77,
        )


async def test_each_queue_counts_for_itself(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        for number in range(30):
            result = store.append(message(b"%d" % number, queue_id=number % 3))
            assert result.queue_offset == number // 3
        for queue_id in range(3):
            assert bodies(store, queue_id=queue_id) == [b"%d" % n for n in range(queue_id, 30, 3)]
        assert store.queues("orders") == [0, 1, 2]


async def test_half_and_rolled_back_messages_get_no_place_in_a_queue(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        store.append(message(b"one"))
        half = store.append(message(b"half", sys_flag=4, keys="k-half"))
        rolled_back = store.append(message(b"rolled back", sys_flag=12, keys="k-back"))
        committed = store.append(message(b"committed", sys_flag=8))
        assert half.queue_offset == rolled_back.queue_offset == 0
        assert committed.queue_offset == 1
        assert bodies(store) == [b"one", b"committed"]
        assert len(store.query_keys("orders", "k-half", 9, 0, 1 << 60).buffers) == 1
        assert store.query_keys("orders", "k-back", 9, 0, 1 << 60).buffers == []


async def test_ipv6_hosts_set_their_flags(tmp_path: Path) -> None:
    v6 = bytes(range(16)) + struct.pack(">i", 1234)
    async with MessageStore(small_config(tmp_path)) as store:
        inner = message(b"six")
        inner.born_host = inner.store_host = v6
        store.append(inner)
        (found,) = read_queue(store)
        assert found.sys_flag & 0x30 == 0x30
        assert found.born_host == ("1:203:405:607:809:a0b:c0d:e0f", 1234)
        assert store.store_time("orders", 0, 0) == found.store_timestamp


async def test_entries_of_properties_always_end_with_their_separator(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        store.append(message(properties=b"TAGS\x01A"))
        (found,) = read_queue(store)
        assert found.record.endswith(b"TAGS\x01A\x02")
        assert found.tags == "A"


# What is refused


async def refused_with(tmp_path: Path, status: PutStatus, **fields: object) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=1 << 20, max_message_size=1000)
    async with MessageStore(config) as store:
        result = store.append(message(**fields))  # type: ignore[arg-type]
        assert result.status is status
        assert not result.is_stored
        assert store.max_physical_offset == 0
        assert store.statistics.put_failed == 1


async def test_a_body_over_the_limit_is_illegal(tmp_path: Path) -> None:
    await refused_with(tmp_path, PutStatus.MESSAGE_ILLEGAL, body=bytes(1001))


async def test_a_missing_body_is_illegal(tmp_path: Path) -> None:
    await refused_with(tmp_path, PutStatus.MESSAGE_ILLEGAL, body=None)


async def test_properties_over_the_limit_are_refused(tmp_path: Path) -> None:
    await refused_with(
        tmp_path, PutStatus.PROPERTIES_SIZE_EXCEEDED, properties=b"a\x01" + b"b" * 32_766
    )


async def test_a_topic_over_the_limit_is_illegal(tmp_path: Path) -> None:
    await refused_with(tmp_path, PutStatus.MESSAGE_ILLEGAL, topic="t" * 128)
    await refused_with(tmp_path, PutStatus.MESSAGE_ILLEGAL, topic="ä" * 64)
    await refused_with(tmp_path, PutStatus.MESSAGE_ILLEGAL, topic="%RETRY%" + "t" * 249)


async def test_several_messages_in_one_record_are_illegal(tmp_path: Path) -> None:
    await refused_with(tmp_path, PutStatus.MESSAGE_ILLEGAL, sys_flag=0x80)
    await refused_with(tmp_path, PutStatus.MESSAGE_ILLEGAL, properties=b"INNER_NUM\x013\x02")


async def test_hosts_that_are_no_addresses_are_illegal(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        for host in (b"", b"1234567", bytes(19), bytes(4000)):
            born, stored = message(), message()
            born.born_host = host
            stored.store_host = host
            assert store.append(born).status is PutStatus.MESSAGE_ILLEGAL
            assert store.append(stored).status is PutStatus.MESSAGE_ILLEGAL


async def test_the_topic_is_looked_at_before_the_properties(tmp_path: Path) -> None:
    properties = b"a\x01" + b"b" * 40_000
    await refused_with(tmp_path, PutStatus.MESSAGE_ILLEGAL, topic="t" * 128, properties=properties)
    await refused_with(
        tmp_path,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
        body=bytes(1001),
        properties=properties,
    )


async def test_a_record_that_no_file_can_hold_is_illegal(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        assert store.append(message(bytes(16_384))).status is PutStatus.MESSAGE_ILLEGAL
        assert store.append(message(b"fits")).status is PutStatus.PUT_OK


@pytest.mark.parametrize("name_size", [127, 128, 200, 255])
async def test_long_retry_topics_are_stored_as_version_2(tmp_path: Path, name_size: int) -> None:
    topic = "%RETRY%" + "g" * (name_size - 7)
    async with MessageStore(small_config(tmp_path)) as store:
        assert store.append(message(b"again", topic=topic)).status is PutStatus.PUT_OK
        (found,) = read_queue(store, topic)
        assert found.topic == topic
        assert found.record[7] == (0xAB if name_size > 127 else 0xA7)
    async with MessageStore(small_config(tmp_path)) as store:
        assert bodies(store, topic) == [b"again"]


async def test_a_slave_and_a_closed_store_take_nothing(tmp_path: Path) -> None:
    store = MessageStore(small_config(tmp_path / "a"))
    assert store.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    async with store:
        assert store.append(message()).status is PutStatus.PUT_OK
    assert store.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    slave = small_config(tmp_path / "b", broker_role=BrokerRole.SLAVE)
    async with MessageStore(slave) as store:
        assert store.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE


async def test_flags_stop_and_resume_writing(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        for flag in (Flag.NOT_WRITEABLE, Flag.DISK_FULL, Flag.FENCED, Flag.INDEX_FILE_ERROR):
            store.flags.set(flag, "a test")
            assert store.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
            store.flags.clear(flag, "a test")
            assert store.append(message()).status is PutStatus.PUT_OK


# Files


async def test_a_record_leaves_room_for_the_blank_one_that_ends_its_file(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=4096)
    async with MessageStore(config) as store:
        fixed = 91 + len("orders")
        store.append(message(bytes(4096 - 2 * fixed - 8 - 100)))
        last = store.append(message(bytes(100)))
        assert last.end == 4096 - 8  # exactly 8 bytes are left
        following = store.append(message(b"next file"))
        assert following.physical_offset == 4096
        log = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
        assert log[-8:] == struct.pack(">iI", 8, 0xCBD43194)


async def test_a_record_that_would_leave_less_goes_to_the_next_file(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=4096)
    async with MessageStore(config) as store:
        fixed = 91 + len("orders")
        first = store.append(message(bytes(1000)))
        moved = store.append(message(bytes(4096 - first.end - 7 - fixed)))
        assert moved.physical_offset == 4096
        log = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
        blank = struct.pack(">iI", 4096 - first.end, 0xCBD43194)
        assert log[first.end : first.end + 8] == blank
        assert not any(log[first.end + 8 :])
        assert [len(body) for body in bodies(store)] == [1000, 4096 - first.end - 7 - fixed]


async def test_many_files_are_filled_one_after_another(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=1024)
    async with MessageStore(config) as store:
        for number in range(200):
            assert store.append(message(b"%d" % number)).queue_offset == number
        assert bodies(store) == [b"%d" % number for number in range(200)]
        names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
        assert names[:3] == [f"{n * 1024:020d}" for n in range(3)]
    names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    # What was prepared and not used is gone.
    assert int(names[-1]) <= store.max_physical_offset
    sizes = {path.stat().st_size for path in (tmp_path / "commitlog").iterdir()}
    assert sizes == {1024}


async def test_log_files_are_spread_over_several_folders(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("disk1", "disk2", "disk3")]
    config = small_config(
        tmp_path / "root",
        mapped_file_size_commit_log=1024,
        store_path_commit_log=",".join(map(str, folders)),
    )
    async with MessageStore(config) as store:
        for number in range(50):
            store.append(message(b"%d" % number))
    for number, folder in enumerate(folders):
        assert (folder / f"{number * 1024:020d}").exists()
    async with MessageStore(config) as store:
        assert bodies(store) == [b"%d" % number for number in range(50)]


# Batches


def batch(*parts: Message, **fields: object) -> object:
    return message(encode_batch(parts), **fields)  # type: ignore[arg-type]


async def test_the_messages_of_a_batch_lie_next_to_each_other(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        store.append(message(b"before"))
        parts = [Message("orders", b"%d" % n, tags=f"T{n}", keys=f"key{n}") for n in range(5)]
        result = store.append_batch(batch(*parts))  # type: ignore[arg-type]
        assert result.status is PutStatus.PUT_OK
        assert result.count == 5
        assert result.queue_offset == 1
        assert result.physical_offsets[0] == result.physical_offset
        found = read_queue(store)[1:]
        assert [m.body for m in found] == [b"0", b"1", b"2", b"3", b"4"]
        assert [m.tags for m in found] == ["T0", "T1", "T2", "T3", "T4"]
        assert [m.physical_offset for m in found] == result.physical_offsets
        assert len({m.store_timestamp for m in found}) == 1
        ends = [m.physical_offset + m.store_size for m in found]
        assert ends[:-1] == result.physical_offsets[1:]
        assert len(store.query_keys("orders", "key3", 9, 0, 1 << 60).buffers) == 1


async def test_a_batch_never_lies_across_two_files(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=4096)
    async with MessageStore(config) as store:
        store.append(message(bytes(3000)))
        parts = [Message("orders", bytes(300)) for _ in range(4)]
        result = store.append_batch(batch(*parts))  # type: ignore[arg-type]
        assert result.physical_offset == 4096
        assert store.max_offset("orders", 0) == 5


async def test_large_batches_and_single_messages_follow_each_other(tmp_path: Path) -> None:
    """A large batch is written to the file, a message to its mapping."""
    config = small_config(tmp_path, mapped_file_size_commit_log=200_000)
    sent = []
    async with MessageStore(config) as store:
        for number in range(60):
            size = 30_000 + number * 331  # below and above what is worth a call of its own
            parts = [bytes([number, n]) * (size // 16) for n in range(8)]
            result = store.append_batch(batch(*(Message("orders", part) for part in parts)))  # type: ignore[arg-type]
            assert result.is_stored
            sent += parts
            for n in range(number % 3):
                single = b"%d.%d" % (number, n)
                assert store.append(message(single)).physical_offset >= result.end
                sent.append(single)
        assert bodies(store) == sent
        assert [
            m.record
            for m in read_queue(store)
            if not check_record(m.record, 0, True, False).is_valid
        ] == []
    async with MessageStore(config) as store:
        assert bodies(store) == sent


async def test_a_batch_is_refused_whole(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path, max_message_size=2000)) as store:
        parts = [Message("orders", bytes(500)) for _ in range(4)]
        assert store.append_batch(batch(*parts)).status is PutStatus.MESSAGE_ILLEGAL  # type: ignore[arg-type]
        small = Message("orders", b"small")
        for fields in ({"sys_flag": 4}, {"topic": "%RETRY%group"}):
            result = store.append_batch(batch(small, **fields))  # type: ignore[arg-type]
            assert result.status is PutStatus.MESSAGE_ILLEGAL
        assert store.append_batch(message(b"no batch")).status is PutStatus.MESSAGE_ILLEGAL
        assert store.append_batch(message(b"")).status is PutStatus.MESSAGE_ILLEGAL
        assert store.max_physical_offset == 0


# The checksum in the properties


async def test_the_property_checksum_is_written_when_asked_for(tmp_path: Path) -> None:
    config = small_config(tmp_path, enabled_append_prop_crc=True)
    async with MessageStore(config) as store:
        store.append(message(b"one", properties=b"TAGS\x01A\x02"))
        store.append(message(b"two", properties=b"TAGS\x01A"))
        store.append(message(b"three", properties=b"__CRC32#\x010123456789\x02TAGS\x01B\x02"))
        store.append_batch(batch(Message("orders", b"four", tags="C")))  # type: ignore[arg-type]
        found = read_queue(store)
        assert [m.tags for m in found] == ["A", "A", "B", "C"]
        for item in found:
            assert item.record[-20:-11] == b"__CRC32#\x01"
            assert item.record.count(b"__CRC32#") == 1
            assert check_record(item.record, 0, True, True).is_valid


async def test_the_checksum_of_another_record_is_not_kept(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        store.append(message(properties=b"TAGS\x01A\x02__CRC32#\x010123456789\x02"))
        (found,) = read_queue(store)
        assert found.properties == {"TAGS": "A"}


# What is derived


async def test_entries_hold_the_hash_of_the_tag(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        for tag in ("TagA", "Größe", "😀", None):
            store.append(message(tags=tag))
        codes = [entry.tags_code for entry in store.entries("orders", 0, 0, 9)]
        assert codes == [java_hash("TagA"), java_hash("Größe"), java_hash("😀"), 0]


async def test_in_the_schedule_topic_entries_hold_the_time_of_delivery(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    async with MessageStore(small_config(tmp_path), clock=clock) as store:
        for level in (b"3", b"18", b"99", b"0"):
            store.append(
                message(
                    topic="SCHEDULE_TOPIC_XXXX",
                    queue_id=2,
                    properties=b"TAGS\x01T\x02DELAY\x01" + level + b"\x02",
                )
            )
        codes = [entry.tags_code for entry in store.entries("SCHEDULE_TOPIC_XXXX", 2, 0, 9)]
        now = clock.now_ms()
        two_hours = 7_200_000
        assert codes == [now + 10_000, now + two_hours, now + two_hours, java_hash("T")]


async def test_the_listener_hears_of_each_message_that_can_be_read(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    heard: list[tuple[object, ...]] = []
    async with MessageStore(small_config(tmp_path), clock=clock) as store:
        store.arrival_listener = lambda *arrival: heard.append(arrival)
        store.append(message(tags="A", queue_id=1))
        store.append(message(queue_id=1))
        store.append(message(sys_flag=4))
        store.arrival_listener = None
        store.append(message())
    now = clock.now_ms()
    assert heard == [
        ("orders", 1, 1, 65, now, b"TAGS\x01A\x02"),
        ("orders", 1, 2, 0, now, b""),
    ]


async def test_a_body_may_be_any_buffer(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        for body in (b"bytes", bytearray(b"bytearray"), memoryview(b"--memory--")[2:-2]):
            store.append(message(body))  # type: ignore[arg-type]
        assert bodies(store) == [b"bytes", b"bytearray", b"memory"]
        record = store.look_up(0)
        assert record is not None
        assert decode_record(record).body == b"bytes"
