"""What a slave asks its master: each request with a number of its own."""

from pathlib import Path
from typing import Any

import pytest

from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.replication.comparison import LogComparison
from rocketq.broker.replication.master_location import MasterLocation
from rocketq.remoting import Command
from rocketq.remoting.errors import RequestTimeout
from rocketq.store import StoreConfig


class SilentMaster:
    """Answers nothing in time; what it answers late must not be taken for another answer."""

    def __init__(self) -> None:
        self.opaques: list[int] = []

    async def call(self, address: str, request: Command, timeout_s: float) -> Command:
        self.opaques.append(request.opaque)
        raise RequestTimeout(f"no answer from {address}")


def location(**options: Any) -> MasterLocation:
    return MasterLocation(LiveConfig(BrokerConfig(), StoreConfig(**options)))


async def test_requests_that_were_given_up_are_not_mistaken_for_later_ones(tmp_path: Path) -> None:
    master: Any = SilentMaster()
    where = location()
    where.tell("127.0.0.1:10911", "127.0.0.1:10912")
    comparison = LogComparison(master, where)
    for _ in range(2):
        with pytest.raises(RequestTimeout):
            await comparison.master_range()
    assert len(set(master.opaques)) == 2


def test_a_configured_place_of_the_log_wins_and_tells_where_requests_go() -> None:
    where = location(ha_master_address="10.0.0.1:10912")
    assert (where.log_address, where.address) == ("10.0.0.1:10912", "10.0.0.1:10911")
    where.tell("10.0.0.2:10911", "10.0.0.2:10912")
    assert (where.log_address, where.address) == ("10.0.0.1:10912", "10.0.0.2:10911")


def test_a_name_server_that_knows_no_master_changes_nothing() -> None:
    where = location()
    heard: list[str | None] = []
    where.on_change(lambda: heard.append(where.log_address))
    where.tell("10.0.0.2:10911", "10.0.0.2:10912")
    where.tell(None, None)
    assert where.address == "10.0.0.2:10911"
    assert heard == ["10.0.0.2:10912"]
