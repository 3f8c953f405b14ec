"""`rocketq up --brokers N`: several brokers as one system."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketq.cli.servers.up.ports import free_ports, ports_from
from tests.cli.programs import Server, run, serving, taken_port

WITHIN_S = 20.0


def up(folder: Path, *more: str) -> list[str]:
    small = ["--set", "mappedFileSizeCommitLog=1048576"]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    return ["up", "--dir", str(folder), "--brokers", "2", *ports, *small, *more]


def children(server: Server) -> list[int]:
    pid = server.process.pid
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in words]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.01)


def errors(server: Server) -> str:
    assert server.process.stderr is not None
    return server.process.stderr.read()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(*up(tmp_path)) as running:
        yield running


def test_a_topic_is_spread_over_all_brokers_and_found_again(tmp_path: Path) -> None:
    with serving(*up(tmp_path)) as server:
        assert len(server.facts["broker"].split(",")) == 2
        assert len(children(server)) == 2
        namesrv = server.facts["namesrv"]
        # Each command is a client of its own: none knows what the others did.
        places = {run("send", "orders", "x", "-n", namesrv).stdout.split()[1] for _ in range(2)}
        sent = run("send", "orders", "hello", "--count", "40", "--json", "-n", namesrv)
        assert sent.stdout.count('"brokerName":"broker-0"') == 20
        assert sent.stdout.count('"brokerName":"broker-1"') == 20
        assert all(place.startswith(("broker-0:", "broker-1:")) for place in places)
        assert server.stop() == 0
        assert errors(server) == ""
    with serving(*up(tmp_path)) as server:
        read = run(
            *("tail", "orders", "--from", "earliest", "--no-follow"),
            *("-n", server.facts["namesrv"]),
        )
        assert read.stdout.count("hello\n") == 40
        assert server.stop(signal.SIGINT) == 0


def test_stopping_leaves_nothing_behind(server: Server) -> None:
    brokers = children(server)
    assert server.stop() == 0
    assert not any(map(is_alive, brokers))
    assert errors(server) == ""


def test_brokers_do_not_outlive_a_killed_parent(server: Server) -> None:
    brokers = children(server)
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until_gone(brokers)


def test_a_broker_that_dies_takes_all_with_it(server: Server) -> None:
    brokers = children(server)
    os.kill(brokers[1], signal.SIGKILL)
    assert server.process.wait(WITHIN_S) == 1
    name = "broker-1"
    assert errors(server) == (
        f"rocketq: {name} (pid {brokers[1]}) was ended by SIGKILL, so everything stops\n"
    )
    assert not any(map(is_alive, brokers))


def test_a_signal_to_every_process_is_an_ordinary_stop(server: Server) -> None:
    """As service managers do it: to the brokers first, and then to the parent."""
    for pid in children(server):
        os.kill(pid, signal.SIGTERM)
    assert server.stop() == 0
    assert errors(server) == ""


def test_a_broker_that_cannot_start_says_why_once(tmp_path: Path, server: Server) -> None:
    ended = run(*up(tmp_path))
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("rocketq: ")
    assert str(tmp_path / "broker-") in ended.stderr
    assert children(server)  # the first ones are untouched


@pytest.mark.parametrize("taken", [0, 1])
def test_the_ports_of_all_brokers_are_checked_first(tmp_path: Path, taken: int) -> None:
    with taken_port() as port:
        first = port - 10 * taken
        ended = run(*up(tmp_path / "data", "--broker-port", str(first)))
    assert ended.returncode == 1
    assert f"port {port} is in use" in ended.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("brokerName", "--set brokerName: each of several brokers has its own"),
        ("storePathCommitLog", "--set storePathCommitLog: each of several brokers has its own"),
    ],
)
def test_what_brokers_cannot_share_is_refused(tmp_path: Path, key: str, complaint: str) -> None:
    ended = run(*up(tmp_path / "data", "--set", f"{key}=x"))
    assert ended.returncode == 1
    assert complaint in ended.stderr
    assert not (tmp_path / "data").exists()


def test_messages_of_another_number_of_brokers_are_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "one" / "store").mkdir(parents=True)
    ended = run(*up(tmp_path / "one"))
    assert ended.returncode == 1
    assert "is a single broker's: start without --brokers" in ended.stderr

    for name in ("broker-0", "broker-1", "broker-2"):
        (tmp_path / "three" / name).mkdir(parents=True)
    ended = run(*up(tmp_path / "three"))
    assert ended.returncode == 1
    assert "holds 3 brokers' data: start as many with --brokers 3" in ended.stderr


def test_ports_of_brokers_do_not_meet() -> None:
    for ports in (ports_from(10911, 8), free_ports("127.0.0.1", 8)):
        used = [port + distance for port in ports for distance in (-2, 0, 1)]
        assert len(set(used)) == len(used) == 24
