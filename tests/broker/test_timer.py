"""Messages of any delay: who waits, who is delivered when, and what survives a stop."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketq.broker.timer.recall import RecallHandle
from rocketq.common.clock import SYSTEM_CLOCK, ManualClock
from rocketq.common.loop.service import running
from rocketq.message.names import TIMER_TOPIC, TRANSACTION_HALF_TOPIC
from rocketq.remoting import RequestRejected
from rocketq.store import FlushDiskType
from rocketq.store.durability.running_flags import Flag
from tests.broker.services import Services, opened
from tests.store.support import Golden
from tests.waiting import eventually

NOW = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def drain(services: Services) -> None:
    """Place and deliver until nothing is left to do now."""
    while True:
        placed = services.timers.place()
        if not services.timers.deliver_due() and not placed:
            return


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)  # leaves holes in files holes


async def test_it_comes_when_its_time_has_come_and_not_before(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        services.put("orders", b"later", 3, TIMER_DELAY_MS="2500", TAGS="paid", KEYS="42")
        (waiting,) = services.read(TIMER_TOPIC)
        assert waiting.properties == {
            "TIMER_DELAY_MS": "2500",
            "TAGS": "paid",
            "KEYS": "42",
            "TIMER_OUT_MS": str(NOW + 2_000),
            "REAL_TOPIC": "orders",
            "REAL_QID": "3",
        }

        clock.advance(2_999)
        drain(services)
        assert services.read("orders", 3) == []
        clock.advance(1)
        drain(services)

        (delivered,) = services.read("orders", 3)
        assert delivered.body == b"later"
        assert delivered.get_property("TIMER_OUT_MS") == str(NOW + 2_000)
        assert delivered.get_property("TIMER_DEQUEUE_MS") == str(NOW + 3_000)
        (entry,) = services.store.entries("orders", 3, 0, 1)
        assert entry.tags_code != 0


@pytest.mark.parametrize(
    ("properties", "due_after_ms"),
    [
        ({"TIMER_DELAY_SEC": "5"}, 5_000),
        ({"TIMER_DELAY_MS": "5000"}, 5_000),
        ({"TIMER_DELIVER_MS": str(NOW + 5_000)}, 5_000),
        ({"TIMER_DELIVER_MS": str(NOW + 5_001)}, 6_000),
        ({"TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": "9000"}, 3_000),
    ],
)
async def test_a_time_on_a_tick_is_kept_and_others_end_with_their_tick(
    tmp_path: Path, clock: ManualClock, properties: dict[str, str], due_after_ms: int
) -> None:
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        services.writer.put(services.message("orders", b"body", 0, **properties))
        clock.advance(due_after_ms - 1)
        drain(services)
        assert services.read("orders") == []
        clock.advance(1)
        drain(services)
        assert len(services.read("orders")) == 1


async def test_a_finer_precision_is_finer(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock, store_settings={"timer_precision_ms": 100}) as services:
        services.timers.load()
        services.put("orders", TIMER_DELAY_MS="130")
        clock.advance(199)
        drain(services)
        assert services.read("orders") == []
        clock.advance(1)
        drain(services)
        assert len(services.read("orders")) == 1


async def test_what_is_past_is_an_ordinary_message(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        services.put("orders", TIMER_DELIVER_MS=str(NOW - 1))
        services.put("orders", TIMER_DELAY_SEC="-5")
        assert len(services.read("orders")) == 2


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELIVER_MS": "9223372036854775807"},
        {"TIMER_DELAY_SEC": "soon"},
        {"TIMER_DELAY_SEC": "9" * 5_000},
        {"TIMER_DEL_UNIQKEY": "A", "TIMER_DELIVER_MS": str(NOW)},
    ],
)
async def test_an_impossible_time_is_refused(
    tmp_path: Path, clock: ManualClock, properties: dict[str, str]
) -> None:
    async with opened(tmp_path, clock) as services:
        with pytest.raises(RequestRejected, match="MESSAGE_ILLEGAL"):
            services.writer.put(services.message("orders", b"body", 0, **properties))


async def test_without_a_wheel_timers_are_refused(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock, store_settings={"timer_wheel_enable": False}) as services:
        with pytest.raises(RequestRejected, match="timerWheelEnable"):
            services.put("orders", TIMER_DELAY_SEC="5")


async def test_half_messages_wait_for_their_commit_first(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.put(TRANSACTION_HALF_TOPIC, TIMER_DELAY_SEC="5")
        assert len(services.read(TRANSACTION_HALF_TOPIC)) == 1


async def test_messages_of_a_slot_come_in_the_order_they_were_sent(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        for number in range(700):
            services.put("orders", b"%d" % number, TIMER_DELAY_SEC="5")
        drain(services)
        assert services.timers.metrics.counts == {"orders": 700}
        clock.advance(5_000)
        drain(services)
        assert services.bodies("orders") == [b"%d" % number for number in range(700)]
        assert services.timers.metrics.counts == {"orders": 0}


async def test_a_slot_is_read_before_it_is_due_and_keeps_its_order(
    tmp_path: Path, clock: ManualClock
) -> None:
    """What is placed in it after that comes behind the rest, and markers count all the same."""
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        deliver_at = str(NOW + 1_900)
        for number in range(5_000):
            services.put(
                "orders", b"%d" % number, UNIQ_KEY=str(number), TIMER_DELIVER_MS=deliver_at
            )
        services.put("others", b"between", TIMER_DELIVER_MS=str(NOW + 5_000))
        while services.timers.place():
            pass
        clock.advance(1_000)
        while services.timers.deliver_due():
            pass
        assert services.timers.read_ahead()
        while services.timers.read_ahead():
            pass
        for number in range(5_000, 5_010):
            services.put(
                "orders", b"%d" % number, UNIQ_KEY=str(number), TIMER_DELIVER_MS=deliver_at
            )
        services.put(
            *("orders", b"delete"),
            TIMER_DELIVER_MS=deliver_at,
            TIMER_DEL_UNIQKEY="orders+17",
        )
        drain(services)
        while services.timers.read_ahead():
            pass
        assert services.bodies("orders") == []
        clock.advance(1_000)
        drain(services)
        wanted = [b"%d" % number for number in range(5_010) if number != 17]
        assert services.bodies("orders") == wanted


async def test_a_crowded_slot_refuses_more(tmp_path: Path, clock: ManualClock) -> None:
    limit: dict[str, object] = {"timer_congest_num_each_slot": 10}
    async with opened(tmp_path, clock, store_settings=limit) as services:
        services.timers.load()
        taken = 0
        for _ in range(100):
            try:
                services.put("orders", TIMER_DELAY_SEC="5")
                taken += 1
            except RequestRejected as refusal:
                assert "flow control" in refusal.remark  # noqa: PT017
            drain(services)
        assert 10 < taken <= 20


async def test_far_messages_are_rolled_and_come_once(tmp_path: Path, clock: ManualClock) -> None:
    window: dict[str, object] = {"timer_roll_window_slot": 10}
    async with opened(tmp_path, clock, store_settings=window) as services:
        services.timers.load()
        services.put("orders", b"far", TIMER_DELAY_SEC="57", UNIQ_KEY="A")
        services.put("orders", b"gone", TIMER_DELAY_SEC="57", UNIQ_KEY="B")
        services.put("orders", b"0", TIMER_DELAY_SEC="57", TIMER_DEL_UNIQKEY="B", UNIQ_KEY="B")
        for _ in range(57):
            drain(services)
            assert services.read("orders") == []
            clock.advance(1_000)
        drain(services)
        (delivered,) = services.read("orders")
        assert delivered.body == b"far"
        assert int(delivered.get_property("TIMER_ROLL_TIMES") or 0) > 2


@pytest.mark.parametrize("key", ["A", "orders+A"])
async def test_a_marker_deletes_the_message_of_its_key(
    tmp_path: Path, clock: ManualClock, key: str
) -> None:
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        for name in "ABC":
            services.put("orders", name.encode(), TIMER_DELAY_SEC="9", UNIQ_KEY=name)
        services.put("others", b"A of others", TIMER_DELAY_SEC="9", UNIQ_KEY="A")
        services.put("orders", b"0", TIMER_DELAY_SEC="9", TIMER_DEL_UNIQKEY=key)
        drain(services)
        clock.advance(9_000)
        drain(services)
        assert services.bodies("orders") == [b"B", b"C"]
        assert services.bodies("others") == [b"A of others"]


async def test_what_waits_is_counted_by_topic(tmp_path: Path, clock: ManualClock) -> None:
    """In the metrics that are kept and given to slaves, and in the broker's runtime table."""
    async with opened(tmp_path, clock) as services:
        timers = services.timers
        timers.load()
        for number in range(3):
            services.put("orders", b"%d" % number, UNIQ_KEY=str(number), TIMER_DELAY_SEC="5")
        services.put("others", b"later", TIMER_DELAY_SEC="60")
        assert timers.runtime_info()["timerOffsetBehind"] == "4"
        drain(services)
        assert timers.metrics.counts == {"orders": 3, "others": 1}
        info = timers.runtime_info()
        assert (info["timerOffsetBehind"], info["timerCongestNum"]) == ("0", "4")

        services.put(
            *("orders", b"delete"), TIMER_DELIVER_MS=str(NOW + 5_000), TIMER_DEL_UNIQKEY="1"
        )
        drain(services)
        clock.advance(6_000)
        drain(services)
        assert timers.metrics.counts == {"orders": 0, "others": 1}
        assert services.bodies("orders") == [b"0", b"2"]
        put = services.stats.view("TOPIC_PUT_NUMS", "orders")
        assert put is not None
        assert services.stats.put_total == 2
        stored = json.loads(timers.metrics.encode())
        assert stored["timingCount"]["others"]["count"] == 1


async def test_a_clock_set_back_loses_nothing_and_doubles_nothing(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        services.put("orders", b"first", TIMER_DELAY_SEC="5")
        drain(services)
        clock.advance(60_000)
        drain(services)
        clock.set_wall(NOW)
        services.put("orders", b"second", TIMER_DELAY_SEC="5")
        drain(services)
        assert services.bodies("orders") == [b"first"]
        clock.advance(5_000)
        drain(services)
        assert services.bodies("orders") == [b"first", b"second"]
        clock.advance(120_000)
        drain(services)
        assert services.bodies("orders") == [b"first", b"second"]


async def test_a_clock_set_forward_delivers_what_it_jumped_over(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        for seconds in (5, 500, 5_000):
            services.put("orders", b"%d" % seconds, TIMER_DELAY_SEC=str(seconds))
        drain(services)
        clock.set_wall(NOW + 10_000_000)
        drain(services)
        assert services.bodies("orders") == [b"5", b"500", b"5000"]


async def test_a_store_that_takes_nothing_gets_the_message_later(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        services.put("orders", b"later", TIMER_DELAY_SEC="1")
        drain(services)
        clock.advance(1_000)
        services.store.flags.set(Flag.NOT_WRITEABLE, "for a test")
        services.timers.deliver_due()
        assert services.read("orders") == []
        services.store.flags.clear(Flag.NOT_WRITEABLE, "over")
        drain(services)
        assert services.bodies("orders") == [b"later"]


async def test_timers_survive_a_stop(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        opened(tmp_path, clock) as services,
        running("timers", services.timers.run),
    ):
        services.put("orders", b"early", TIMER_DELAY_SEC="5")
        services.put("orders", b"late", TIMER_DELAY_SEC="50")
        await eventually(lambda: services.timers.progress.queue_offset == 2)
    clock.advance(10_000)
    async with opened(tmp_path, clock) as services:
        services.timers.load()
        drain(services)
        assert services.bodies("orders") == [b"early"]
        clock.advance(40_000)
        drain(services)
        assert services.bodies("orders") == [b"early", b"late"]


@settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    delays=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    crash_after=st.integers(0, 39),
    saves=st.booleans(),
    tears=st.integers(0, 400),
)
async def test_a_crash_loses_no_timer(
    tmp_path: Path, delays: list[int], crash_after: int, saves: bool, tears: int
) -> None:
    """The files as a crash leaves them: the log's end torn, the wheel as old as the last save."""
    root = tmp_path / "root"
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(tmp_path / "crashed", ignore_errors=True)
    clock = ManualClock(NOW)
    small: dict[str, object] = {"mapped_file_size_timer_log": 700}
    async with opened(root, clock, store_settings=small) as services:
        services.timers.load()
        for number, seconds in enumerate(delays):
            services.put("orders", b"%d" % number, TIMER_DELAY_SEC=str(seconds))
            drain(services)
            if saves and number == crash_after // 2:
                await services.store.flush()
                await services.timers._save()
            if number % 7 == 6:
                clock.advance(1_000)
                drain(services)
        await services.store.flush()
        await asyncio.to_thread(_copy, root, tmp_path / "crashed")
    for file in sorted((tmp_path / "crashed" / "timerlog").glob("*"))[-1:]:
        flushed = services.timers._saved.log_flushed
        data = bytearray(file.read_bytes())
        end = len(bytes(data).rstrip(b"\0"))
        start = int(file.name)
        cut = min(max(end - tears, flushed - start, 0), len(data))
        data[cut:] = bytes(len(data) - cut)
        file.write_bytes(data)
    async with opened(tmp_path / "crashed", clock, store_settings=small) as services:
        services.timers.load()
        for _ in range(40):
            clock.advance(1_000)
            drain(services)
        assert {int(body) for body in services.bodies("orders")} == set(range(len(delays)))


async def test_timers_survive_a_crash_after_the_clock_was_set_back(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path / "store", clock) as services:
        services.timers.load()
        clock.advance(600_000)
        drain(services)
        clock.set_wall(NOW)
        services.put("orders", b"later", TIMER_DELAY_SEC="12")
        drain(services)
        await services.store.flush()
        await services.timers._save()
        services.put("orders", b"sooner", TIMER_DELAY_SEC="5")
        drain(services)
        _copy(tmp_path / "store", tmp_path / "copy")
    async with opened(tmp_path / "copy", clock) as services:
        services.timers.load()
        for _ in range(15):
            clock.advance(1_000)
            drain(services)
        assert services.bodies("orders") == [b"sooner", b"later"]


async def test_the_first_timers_survive_a_crash_before_anything_was_saved(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path / "store", clock) as services:
        services.timers.load()
        services.put("orders", b"first", TIMER_DELAY_MS="2000")
        services.timers.place()
        _copy(tmp_path / "store", tmp_path / "copy")
    clock.advance(10_000)
    async with opened(tmp_path / "copy", clock) as services:
        services.timers.load()
        drain(services)
        assert services.bodies("orders") == [b"first"]


async def test_with_sync_flush_timers_run_by_themselves(tmp_path: Path) -> None:
    sync: dict[str, object] = {
        "flush_disk_type": FlushDiskType.SYNC_FLUSH,
        "timer_precision_ms": 100,
    }
    async with (
        opened(tmp_path, SYSTEM_CLOCK, store_settings=sync) as services,
        running("timers", services.timers.run),
    ):
        await asyncio.sleep(0)
        services.put("orders", b"later", TIMER_DELAY_MS="300")
        await eventually(lambda: services.bodies("orders") == [b"later"])


async def test_a_java_store_goes_on(tmp_path: Path) -> None:
    """Four check points and acks wait in Java's wheel; they come out where Java would put them."""
    golden = Golden("store-5.5.0-timer-pop", tmp_path)
    clock = ManualClock(1_794_772_470_000)
    sizes: dict[str, object] = {
        name: getattr(golden.config, name)
        for name in (
            "mapped_file_size_commit_log",
            "mapped_file_size_consume_queue",
            "max_hash_slot_num",
            "max_index_num",
        )
    } | {"mapped_file_size_timer_log": 102_400}
    async with opened(tmp_path, clock, store_settings=sizes) as services:
        before = services.store.max_offset("rmq_sys_REVIVE_LOG_WireCluster", 2)
        services.timers.load()
        assert services.timers.metrics.counts["rmq_sys_REVIVE_LOG_WireCluster"] == 4
        clock.advance(60_000)
        drain(services)
        assert services.store.max_offset("rmq_sys_REVIVE_LOG_WireCluster", 2) == before + 4


def test_a_recall_handle_is_java_s() -> None:
    handle = RecallHandle("TopicA", "broker-a", 1700000000001, "7F00000100002A9F4B7B8B3F4C5D0000")
    text = (
        "djEgVG9waWNBIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgN0YwMDAwMDEwMDAwMkE5RjRCN0I4QjNGNEM1RDAwMDA="
    )
    assert handle.encode() == text
    assert RecallHandle.decode(text) == handle


@given(st.text(max_size=3_000))
def test_junk_is_no_recall_handle(text: str) -> None:
    assert RecallHandle.decode(text) is None
