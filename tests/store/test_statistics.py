"""What a store counts and reports."""

from pathlib import Path

from rocketq.common.clock import ManualClock
from rocketq.store import MessageStore
from tests.store.disks import FaultyDisk
from tests.store.support import message, small_config


async def test_runtime_info_has_the_keys_that_brokers_report(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path), disk=FaultyDisk()) as store:
        info = store.runtime_info()
        for name in (
            "putTps",
            "getTransferredTps",
            "getTransferedTps",
            "getFoundTps",
            "getMissTps",
            "getTotalTps",
        ):
            assert len([float(rate) for rate in info[name].split()]) == 3
        assert info["commitLogDiskRatio"] == "0.1"
        assert info[f"commitLogDiskRatio_{tmp_path / 'commitlog'}"] == "0.1"
        assert info["earliestMessageTimeStamp"] == "-1"
        for name in (
            "putMessageEntireTimeMax",
            "putMessageTimesTotal",
            "putMessageFailedTimes",
            "putMessageSizeTotal",
            "getMessageEntireTimeMax",
            "dispatchMaxBuffer",
            "dispatchBehindBytes",
            "commitLogMinOffset",
            "commitLogMaxOffset",
            "pageCacheLockTimeMills",
            "remainTransientStoreBufferNumbs",
        ):
            assert int(info[name]) == 0, name
        for name in ("putLatency99", "putLatency999", "putMessageAverageSize"):
            assert float(info[name]) == 0.0
        assert info["putMessageDistributeTime"].startswith("[<=0ms]:0 ")
        assert "Total" in info["commitLogDirCapacity"]


async def test_messages_in_and_out_are_counted(tmp_path: Path) -> None:
    clock = ManualClock()
    async with MessageStore(small_config(tmp_path), clock=clock, disk=FaultyDisk()) as store:
        store.statistics.sample(clock.monotonic())
        total = sum(store.append(message(b"%d" % n)).size for n in range(20))
        store.append(message(bytes(100_000)))
        store.get("orders", 0, 0, 15)
        store.get("orders", 0, 20, 15)
        clock.advance(10_000)
        store.statistics.sample(clock.monotonic())
        info = store.runtime_info()
        assert info["putMessageTimesTotal"] == "20"
        assert info["putMessageFailedTimes"] == "1"
        assert info["putMessageSizeTotal"] == str(total)
        assert info["putMessageAverageSize"] == str(total / 20)
        assert info["putTps"] == "2.0 2.0 2.0"
        assert info["getTransferredTps"] == "1.5 1.5 1.5"
        assert info["getFoundTps"] == "0.1 0.1 0.1"
        assert info["getMissTps"] == "0.1 0.1 0.1"
        assert info["getTotalTps"] == "0.2 0.2 0.2"
        assert info["commitLogMaxOffset"] == str(total)
        counts = [int(part.rpartition(":")[2]) for part in info["putMessageDistributeTime"].split()]
        assert sum(counts) == 20
        assert store.statistics.transferred_count == 15
