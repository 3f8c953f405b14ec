"""`rocketq bench` against a real broker, as users run it."""

import asyncio
import io
import json
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rocketq.cli.bench.sending import PreciseTimer
from rocketq.cli.bench.tally import Budget, Tally
from rocketq.cli.bench.view import LiveView, print_report
from rocketq.testing import LocalBroker
from tests.cli.programs import run


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


def bench(broker: LocalBroker, *arguments: str) -> dict[str, Any]:
    ended = run("bench", *arguments, "--json", "-n", broker.namesrv)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    (line,) = ended.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize(
    "mode", [["async"], ["sync", "--workers", "8"], ["batch", "--workers", "2", "--batch", "10"]]
)
def test_as_many_are_stored_as_were_counted(broker: LocalBroker, mode: list[str]) -> None:
    topic = broker.new_name()
    result = bench(broker, "produce", topic, "--mode", *mode, "--count", "500", "--size", "100")
    assert (result["command"], result["mode"], result["topic"]) == ("produce", mode[0], topic)
    produced = result["produced"]
    assert produced["messages"] == 500
    assert produced["bytes"] == 50_000
    assert produced["errors"] == 0
    latency = produced["latency_ms"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    # The one that made the topic is not counted.
    sizes = [len(message.body) for message in broker.messages(topic)]
    assert sizes == [5] + [100] * 500


def test_messages_without_receipts_arrive_too(broker: LocalBroker) -> None:
    topic = broker.new_name()
    result = bench(broker, "produce", topic, "--mode", "oneway", "--count", "300")
    assert result["produced"]["messages"] == 300
    assert "latency_ms" not in result["produced"]
    assert len(broker.wait_for_messages(topic, 301)) == 301


def test_topics_are_made_as_asked_for_and_used_in_turn(broker: LocalBroker) -> None:
    topic = broker.new_name()
    bench(broker, "produce", topic, "--topics", "3", "--queues", "2", "--count", "90")
    for number in range(3):
        found = broker.messages(f"{topic}-{number}")
        assert len(found) == 31
        assert {message.queue_id for message in found} == {0, 1}


def test_a_load_ends_when_its_time_is_up(broker: LocalBroker) -> None:
    result = bench(broker, "produce", broker.new_name(), "--seconds", "0.3", "--in-flight", "10")
    assert result["produced"]["messages"] > 0
    assert 0.3 <= result["produced"]["seconds"] < 10


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_a_backlog_is_consumed_to_its_end(broker: LocalBroker, mode: str) -> None:
    topic = broker.new_name()
    bench(broker, "produce", topic, "--count", "2000", "--size", "10")
    consumed = bench(broker, "consume", topic, "--mode", mode)["consumed"]
    assert consumed["messages"] == 2001
    assert consumed["bytes"] == 20_005
    assert consumed["messages_per_s"] > 0


def test_an_empty_backlog_is_no_failure(broker: LocalBroker) -> None:
    topic = broker.create_topic()
    assert bench(broker, "consume", topic)["consumed"]["messages"] == 0


def test_a_group_goes_on_where_it_is(broker: LocalBroker) -> None:
    topic, group = broker.new_name(), broker.new_name("group")
    bench(broker, "produce", topic, "--count", "99")
    first = bench(broker, "consume", topic, "--group", group)
    assert first["consumed"]["messages"] == 100
    assert bench(broker, "consume", topic, "--group", group)["consumed"]["messages"] == 0


def test_a_pace_is_kept_and_every_message_arrives(broker: LocalBroker) -> None:
    topic = broker.new_name()
    bench(broker, "produce", topic, "--count", "100")  # none of these is counted
    result = bench(broker, "latency", topic, "--rate", "500", "--count", "250", "--size", "64")
    produced, consumed = result["produced"], result["consumed"]
    assert produced["messages"] == consumed["messages"] == 250
    assert produced["bytes"] == consumed["bytes"] == 16_000
    assert produced["seconds"] > 250 / 500 * 0.9
    assert produced["latency_ms"]["p50"] > 0
    assert consumed["latency_ms"]["p50"] > 0


def test_latency_of_sending_alone(broker: LocalBroker) -> None:
    arguments = ("--rate", "1000", "--count", "50", "--no-e2e")
    result = bench(broker, "latency", broker.new_name(), *arguments)
    assert result["produced"]["messages"] == 50
    assert "consumed" not in result


@pytest.mark.parametrize("pace", [[], ["--rate", "1000"]])
def test_each_group_gets_all_that_is_sent(broker: LocalBroker, pace: list[str]) -> None:
    topic = broker.new_name()
    result = bench(broker, "mixed", topic, "--count", "400", "--groups", "2", *pace)
    assert result["produced"]["messages"] == 400
    assert result["consumed"]["messages"] == 800
    assert result["consumed"]["errors"] == 0


def test_groups_of_a_run_are_gone_afterwards(broker: LocalBroker) -> None:
    topic = broker.new_name()
    bench(broker, "mixed", topic, "--count", "10")
    bench(broker, "consume", topic)
    listed = run("admin", "topicList", "-n", broker.namesrv).stdout
    assert topic in listed
    assert "rocketq-bench" not in listed


def test_the_report_is_for_people_unless_asked_otherwise(broker: LocalBroker) -> None:
    ended = run("bench", "produce", broker.new_name(), "--count", "50", "-n", broker.namesrv)
    assert ended.returncode == 0
    assert ended.stderr == ""
    assert "produced  50 messages in " in ended.stdout
    assert "p99.9" in ended.stdout
    assert "errors  none" in ended.stdout


def test_failures_are_counted_named_and_end_in_1(broker: LocalBroker) -> None:
    topic = broker.new_name()
    too_large = str(5 << 20)
    ended = run(
        *("bench", "produce", topic, "--count", "3", "--size", too_large, "--json"),
        *("-n", broker.namesrv),
    )
    assert ended.returncode == 1
    produced = json.loads(ended.stdout)["produced"]
    assert (produced["messages"], produced["errors"]) == (0, 3)
    assert sum(produced["errors_by_kind"].values()) == 3


def test_nobody_there_is_one_clear_line() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        ended = run("bench", "consume", "-n", address)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("rocketq: ")
    assert ended.stderr.count("\n") == 1


def test_help_teaches() -> None:
    shown = run("bench", "--help").stdout
    for name in ("produce", "consume", "latency", "mixed"):
        assert f"\n  {name} " in shown
        assert "rocketq bench " in run("bench", name, "--help").stdout
    assert run("bench", "produce", "--mode", "loud").returncode == 2


# Parts


async def test_a_terminal_shows_the_figures_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    tally, other = Tally("produced"), Tally("consumed")
    async with LiveView([tally, other], is_shown=True).shown(), asyncio.timeout(10):
        tally.messages = 12_345
        tally.latency.record(1_500)
        tally.failed("SendFailed", "why")
        while "errors 1" not in terminal.getvalue():  # noqa: ASYNC110 (another's output)
            await asyncio.sleep(0.01)
    shown = terminal.getvalue()
    assert "produced" in shown
    assert "12,345" in shown
    assert "p50 1.50 ms  p99 1.50 ms  p99.9 1.50 ms" in shown
    assert shown.endswith("\x1b[2A\x1b[J")


async def test_elsewhere_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with LiveView([Tally("produced")]).shown():
        pass
    assert capsys.readouterr().err == ""


def test_a_report_names_the_first_failure(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally("produced")
    tally.failed("SendFailed", "the first reason", 2)
    tally.failed("Timeout", "another")
    print_report("produce", [tally], facts={}, as_json=False)
    shown = capsys.readouterr().out
    assert "2 SendFailed, 1 Timeout" in shown
    assert "the first reason" in shown


def test_a_budget_ends_with_its_messages_or_its_time() -> None:
    budget = Budget(10, None)
    budget.begin()
    assert [budget.take(4) for _ in range(4)] == [4, 4, 2, 0]
    over = Budget(None, 0)
    assert over.take(4) == 4  # the time has not begun
    over.begin()
    assert over.take(4) == 0


async def test_a_timer_is_never_early() -> None:
    with PreciseTimer() as timer:
        for _ in range(20):
            due_ns = time.monotonic_ns() + 300_000
            await timer.wait_until(due_ns)
            assert time.monotonic_ns() >= due_ns
