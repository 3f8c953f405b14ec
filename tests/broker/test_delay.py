"""Delay levels: who waits, who is delivered when, and what survives a stop."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketq.broker.delay import delay_level
from rocketq.common import json
from rocketq.common.clock import SYSTEM_CLOCK, ManualClock
from rocketq.common.loop.service import running
from rocketq.message.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from rocketq.message.properties.codec import decode_properties, encode_properties
from rocketq.store import FlushDiskType
from rocketq.store.queues.consume_queue import FILLER_SIZE, QueueEntry
from tests.broker.services import Services, opened
from tests.store.disks import FaultyDisk
from tests.waiting import eventually

LEVELS_MS = [1_000, 5_000, 10_000, 30_000, 60_000]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def drain(services: Services) -> None:
    while services.scheduled.deliver_due():
        pass


async def test_a_message_with_a_level_waits_in_the_queue_of_that_level(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.put("orders", b"later", 2, DELAY="3", TAGS="paid")

        (waiting,) = services.read(SCHEDULE_TOPIC, 2)
        assert services.read("orders", 2) == []
        assert waiting.properties == {
            "DELAY": "3",
            "TAGS": "paid",
            "REAL_TOPIC": "orders",
            "REAL_QID": "2",
        }
        (entry,) = services.store.entries(SCHEDULE_TOPIC, 2, 0, 10)
        assert entry.tags_code == clock.now_ms() + 10_000


async def test_a_level_past_the_last_is_the_last(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        services.put("orders", DELAY="30")

        (waiting,) = services.read(SCHEDULE_TOPIC, 17)
        assert waiting.properties["DELAY"] == "18"


@pytest.mark.parametrize("level", ["0", "-1", "soon", "9" * 5_000])
async def test_no_level_means_no_delay(tmp_path: Path, clock: ManualClock, level: str) -> None:
    async with opened(tmp_path, clock) as services:
        services.put("orders", DELAY=level)

        assert len(services.read("orders")) == 1


async def test_half_messages_are_not_delayed(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        services.put(TRANSACTION_HALF_TOPIC, DELAY="3")

        assert len(services.read(TRANSACTION_HALF_TOPIC)) == 1


async def test_a_level_wins_over_a_timer(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        services.put("orders", DELAY="1", TIMER_DELAY_SEC="77")
        (waiting,) = services.read(SCHEDULE_TOPIC, 0)
        assert "TIMER_DELAY_SEC" not in waiting.properties


async def test_it_is_delivered_when_its_time_has_come_and_not_before(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.put("orders", b"later", 3, DELAY="1", TAGS="paid", KEYS="42")
        services.scheduled.start()
        assert services.scheduled.next_due_ms == clock.now_ms() + 1_000

        clock.advance(999)
        drain(services)
        assert services.read("orders", 3) == []

        clock.advance(1)
        drain(services)
        (delivered,) = services.read("orders", 3)
        assert delivered.body == b"later"
        assert delivered.store_timestamp == clock.now_ms()
        assert delivered.born_timestamp == clock.now_ms() - 1_000
        # RocketMQ leaves these on the delivered message too.
        assert delivered.get_property("DELAY") == "1"
        assert delivered.get_property("REAL_TOPIC") == "orders"
        (entry,) = services.store.entries("orders", 3, 0, 1)
        assert entry.tags_code != 0
        assert services.scheduled.next_due_ms is None


async def test_levels_do_not_wait_for_one_another(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        for level in (5, 4, 3, 2, 1):
            services.put("orders", b"level %d" % level, DELAY=str(level))
        services.scheduled.start()
        for passed, expected in enumerate(LEVELS_MS):
            clock.advance(expected - (LEVELS_MS[passed - 1] if passed else 0))
            drain(services)
            assert services.bodies("orders")[-1] == b"level %d" % (passed + 1)
        assert len(services.bodies("orders")) == 5


async def test_a_crowd_is_delivered_in_order_and_in_several_turns(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        for number in range(1_000):
            services.put("orders", b"%d" % number, DELAY="1")
        services.scheduled.start()
        clock.advance(1_000)

        turns = 1
        while services.scheduled.deliver_due():
            turns += 1

        assert turns >= 4
        assert services.bodies("orders") == [b"%d" % number for number in range(1_000)]


async def test_every_due_level_gets_its_turn(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        for number in range(400):
            services.put("first", b"%d" % number, DELAY="1")
            services.put("second", b"%d" % number, DELAY="2")
        services.scheduled.start()
        clock.advance(5_000)

        drain(services)

        assert len(services.bodies("first")) == 400
        assert len(services.bodies("second")) == 400


@pytest.mark.parametrize("back_ms", [700, 3_600_000])
async def test_with_another_clock_nothing_comes_early_or_waits_longer_than_its_level(
    tmp_path: Path, clock: ManualClock, back_ms: int
) -> None:
    """It was set back, or is that of the next master."""
    async with opened(tmp_path, clock) as services:
        services.put("orders", b"first", DELAY="3")
        clock.advance(100)
        services.put("orders", b"second", DELAY="3")
        clock.set_wall(clock.now_ms() - back_ms)

        services.scheduled.start()
        clock.advance(9_800)
        drain(services)
        assert services.bodies("orders") == []
        clock.advance(200)
        drain(services)
        assert services.bodies("orders") == [b"first"]
        clock.advance(100)
        drain(services)
        assert services.bodies("orders") == [b"first", b"second"]


async def test_nothing_is_lost_or_doubled_over_a_clean_stop(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.put("orders", b"early", DELAY="1")
        async with running("delayed messages", services.scheduled.run):
            clock.advance(1_000)
            services.put("orders", b"late", DELAY="1")
            drain(services)
        assert services.bodies("orders") == [b"early"]

    table = json.loads((tmp_path / "config" / "delayOffset.json").read_bytes())
    assert table["offsetTable"] == {"1": 1}

    async with opened(tmp_path, clock) as services:
        clock.advance(1_000)
        services.scheduled.start()
        drain(services)
        assert services.bodies("orders") == [b"early", b"late"]


async def test_progress_is_not_noted_of_what_the_disk_did_not_take(
    tmp_path: Path, clock: ManualClock
) -> None:
    """A loss of power would take what was delivered, and the file would call it delivered."""
    disk = FaultyDisk()
    async with opened(tmp_path, clock, disk=disk) as services:
        services.put("orders", b"late", DELAY="1")
        async with running("delayed messages", services.scheduled.run):
            await eventually(lambda: services.scheduled.next_due_ms is not None)
            clock.advance(1_000)
            drain(services)
            assert services.bodies("orders") == [b"late"]
            disk.fail("sync", errno.EIO, only="commitlog")
    saved = tmp_path / "config" / "delayOffset.json"
    assert not saved.exists() or json.loads(saved.read_bytes())["offsetTable"] != {"1": 1}


async def test_without_its_offset_file_everything_waiting_is_delivered_again(
    tmp_path: Path, clock: ManualClock
) -> None:
    """What a crash before the first write of the file looks like."""
    async with opened(tmp_path, clock) as services:
        services.put("orders", b"a", DELAY="1")
        services.scheduled.start()
        clock.advance(1_000)
        drain(services)

    async with opened(tmp_path, clock) as services:
        services.scheduled.start()
        drain(services)
        assert services.bodies("orders") == [b"a", b"a"]


async def test_an_offset_past_the_queue_is_corrected(tmp_path: Path, clock: ManualClock) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "delayOffset.json").write_text('{"offsetTable":{1:77\n}}')
    async with opened(tmp_path, clock) as services:
        services.put("orders", b"a", DELAY="1")
        services.scheduled.start()
        assert services.scheduled.offsets() == {1: 1}

        services.put("orders", b"b", DELAY="1")
        services.scheduled.start()
        clock.advance(1_000)
        drain(services)
        assert services.bodies("orders") == [b"b"]


@pytest.mark.parametrize("flush", [FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH])
async def test_an_arrival_wakes_a_sleeping_level(tmp_path: Path, flush: FlushDiskType) -> None:
    """With the real clock: delivered on time although nothing waited at the start."""
    async with (
        opened(tmp_path, SYSTEM_CLOCK, store_settings={"flush_disk_type": flush}) as services,
        running("delayed messages", services.scheduled.run),
    ):
        await asyncio.sleep(0)
        began_ms = SYSTEM_CLOCK.now_ms()
        services.put("orders", b"a", DELAY="1")
        await eventually(lambda: services.bodies("orders"))
        # Never early; and not only when the sleeping level would have woken by itself.
        assert 1_000 <= SYSTEM_CLOCK.now_ms() - began_ms < 4_000


async def test_one_that_came_while_others_waited_is_not_forgotten(
    tmp_path: Path, clock: ManualClock
) -> None:
    """With SYNC_FLUSH a message has no entry yet when the one before it is delivered."""
    settings: dict[str, object] = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with (
        opened(tmp_path, clock, store_settings=settings) as services,
        running("delayed messages", services.scheduled.run),
    ):
        await asyncio.sleep(0)
        services.put("orders", b"a", DELAY="1")
        await eventually(lambda: services.scheduled.next_due_ms is not None)
        services.put("orders", b"b", DELAY="1")
        clock.advance(1_000)
        drain(services)
        assert services.scheduled.next_due_ms is None
        services.put("orders", b"c", DELAY="1")
        clock.advance(1_000)
        await eventually(lambda: services.bodies("orders") == [b"a", b"b", b"c"])


def test_the_level_is_read_from_the_encoded_properties() -> None:
    assert delay_level(encode_properties({"DELAY": "4", "TAGS": "x"})) == 4
    assert delay_level(b"") == 0
    assert decode_properties(encode_properties({"DELAY": "4"})) == {"DELAY": "4"}


# What others wrote


def replaced_entries(services: Services, monkeypatch: pytest.MonkeyPatch, filler_at: int) -> None:
    """Have the store find a filler in the place of one entry."""
    entries = services.store.entries

    def with_filler(topic: str, queue_id: int, offset: int, count: int) -> Iterator[QueueEntry]:
        for number, entry in enumerate(entries(topic, queue_id, offset, count), start=offset):
            yield QueueEntry(0, FILLER_SIZE, 0) if number == filler_at else entry

    monkeypatch.setattr(services.store, "entries", with_filler)


async def test_a_filler_delivers_nothing(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands for a lost message; its place in the log is that of the very first message."""
    async with opened(tmp_path, clock) as services:
        for body in (b"first", b"lost", b"third"):
            services.put("orders", body, DELAY="1")
        replaced_entries(services, monkeypatch, filler_at=1)
        services.scheduled.start()
        clock.advance(1_000)
        drain(services)

        assert services.bodies("orders") == [b"first", b"third"]
        assert services.scheduled.offsets() == {1: 3}


async def test_what_was_deleted_meanwhile_shifts_nothing(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files go while messages are due: the entries that are left are delivered once each."""
    async with opened(tmp_path, clock) as services:
        for number in range(6):
            services.put("orders", b"%d" % number, DELAY="1")
        services.scheduled.start()
        clock.advance(1_000)
        min_offset, entries = services.store.min_offset, services.store.entries

        def shortened_min(topic: str, queue_id: int) -> int:
            return 4 if (topic, queue_id) == (SCHEDULE_TOPIC, 0) else min_offset(topic, queue_id)

        def shortened(topic: str, queue_id: int, offset: int, count: int) -> Iterator[QueueEntry]:
            end = offset + count
            offset = max(offset, shortened_min(topic, queue_id))
            return entries(topic, queue_id, offset, end - offset)

        monkeypatch.setattr(services.store, "min_offset", shortened_min)
        monkeypatch.setattr(services.store, "entries", shortened)
        drain(services)

        assert services.bodies("orders") == [b"4", b"5"]
        assert services.scheduled.offsets() == {1: 6}


@pytest.mark.parametrize(
    "properties",
    [
        b"REAL_TOPIC\x01\xff\xfe\x02REAL_QID\x010\x02",
        b"REAL_TOPIC\x01orders\x02REAL_QID\x01" + b"9" * 5_000 + b"\x02",
        b"REAL_TOPIC\x01orders\x02REAL_QID\x019999999999\x02",
        b"REAL_TOPIC\x01orders\x02REAL_QID\x012147483647\x02",
        b"REAL_TOPIC\x01" + b"long" * 1_000 + b"\x02REAL_QID\x010\x02",
        b"",
    ],
)
async def test_a_message_that_cannot_be_delivered_holds_up_nobody(
    tmp_path: Path, clock: ManualClock, properties: bytes
) -> None:
    async with opened(tmp_path, clock) as services:
        hopeless = services.message(SCHEDULE_TOPIC)
        hopeless.properties = properties + b"DELAY\x011\x02"
        assert services.store.append(hopeless).is_stored
        services.put("orders", b"honest", DELAY="1")
        services.scheduled.start()
        clock.advance(1_000)
        drain(services)

        assert services.bodies("orders")[-1:] == [b"honest"]
        assert services.scheduled.offsets() == {1: 2}
