"""Servers that do not answer, as the log tells of them."""

import logging

import pytest

from rocketq.client.cluster.outages import Outages, is_outage
from rocketq.client.errors import BrokerRejected, NameServersUnavailable
from rocketq.common.clock import ManualClock
from rocketq.remoting.errors import ConnectFailed

ERROR = ConnectFailed("refused")


def test_an_outage_is_told_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    outages = Outages(clock)
    for _ in range(41):
        outages.failed("NameServer a:1", ERROR)
    outages.failed("NameServer b:2", ERROR)
    clock.advance(12_000)
    outages.answered("NameServer a:1")
    outages.answered("NameServer a:1")
    outages.failed("NameServer a:1", ERROR)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "NameServer a:1 does not answer: refused"),
        ("WARNING", "NameServer b:2 does not answer: refused"),
        ("INFO", "NameServer a:1 answers again, after 12 s; it did not 40 times more"),
        ("WARNING", "NameServer a:1 does not answer: refused"),
    ]


def test_a_long_outage_is_told_again_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    outages = Outages(clock)
    for _ in range(1000):
        outages.failed("broker a:1", ERROR)
        clock.advance(1000)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 4
    assert texts[1] == "broker a:1 still does not answer, after 300 s and 301 attempts: refused"


def test_a_refusal_is_no_outage() -> None:
    assert is_outage(ERROR)
    assert is_outage(NameServersUnavailable({"a:1": ERROR}))
    assert not is_outage(BrokerRejected(1, "no", address="a:1", request="PULL_MESSAGE"))
