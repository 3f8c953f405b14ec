"""Bringing back many messages at once."""

from pathlib import Path

from rocketq.broker.config import BrokerConfig
from rocketq.broker.pop.revive_log import CheckPoint
from rocketq.common.clock import ManualClock
from rocketq.message.pop_topics import retry_topic_v1
from rocketq.store import FlushDiskType
from tests.broker.pop.pops import Pops
from tests.broker.services import opened

CONFIG = BrokerConfig(
    broker_name="broker-a", broker_ip1="127.0.0.1", revive_queue_num=1, broker_cluster_name="c"
)


async def test_a_long_revive_queue_is_not_kept_in_memory_as_a_whole(tmp_path: Path) -> None:
    """After a long stop everything in it is due; it is read and brought back a piece at a time."""
    clock = ManualClock()
    async with opened(tmp_path, clock, CONFIG) as services:
        services.timers.load()
        services.topics.ensure("orders", 1)
        pops = Pops(services, tmp_path)
        for number in range(600):
            services.put("orders", b"%d" % number)
            assert pops.pop("orders", "group", max_msg_nums=1, invisible_time=10_000)
            clock.advance(100)
            while services.timers.place():
                pass
        clock.advance(60_000)
        while services.timers.place() or services.timers.deliver_due():
            pass
        most_open = 0
        while pops.revival.turn():
            most_open = max(most_open, pops.revival.open_count)
        assert len(services.bodies(retry_topic_v1("group", "orders"))) == 600
        assert pops.is_all_revived
        assert 0 < most_open < 350, "two turns read no more than that"


async def test_an_ack_that_is_not_on_the_disk_yet_counts(tmp_path: Path) -> None:
    """With SYNC_FLUSH it cannot be read before; until then nothing is brought back."""
    clock = ManualClock()
    sync: dict[str, object] = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with opened(tmp_path, clock, CONFIG, store_settings=sync) as services:
        services.timers.load()
        services.topics.ensure("orders", 1)
        pops = Pops(services, tmp_path)
        services.put("orders", b"done")
        await services.store.flush()
        check_point = CheckPoint("orders", "group", 0, 0, clock.now_ms(), 10_000, "broker-a", [0])
        services.groups.get_or_make("group", None)
        pops.revive_log.put_check_point(check_point, 0)
        await services.store.flush()
        pops.work()
        clock.advance(9_900)
        pops.work()
        await services.store.flush()
        pops.work()
        assert pops.revival.open_count == 1

        pops.revive_log.put_ack(check_point.key, [0], 0, check_point.revive_time)
        clock.advance(5_000)
        pops.work()
        assert pops.revival.open_count == 1, "the ack is in the log, and not on the disk"
        for _ in range(2):
            await services.store.flush()
            pops.work()
        assert pops.revival.open_count == 0
        assert services.bodies(retry_topic_v1("group", "orders")) == []
