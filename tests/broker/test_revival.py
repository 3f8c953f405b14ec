"""Bringing back many messages at once."""

from pathlib import Path

from rocketq.broker.config import BrokerConfig
from rocketq.common.clock import ManualClock
from rocketq.message.pop_topics import retry_topic_v1
from tests.broker.pops import Pops
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
