"""`mqshutdown`: whom it finds and what it says."""

import io
import os

import pytest

from rocketq.cli.servers.shutdown import Process, processes, role_of, shut_down

RUNNING = [
    Process(1, ["/sbin/init"]),
    Process(10, ["/usr/bin/python3", "/venv/bin/mqbroker", "-c", "broker.conf"]),
    Process(11, ["/venv/bin/python", "/venv/bin/rocketq", "broker"]),
    Process(12, ["python3.12", "-m", "rocketq.cli", "namesrv"]),
    Process(13, ["vi", "broker"]),
    Process(14, [""]),
]


@pytest.mark.parametrize(
    ("role", "pids", "answer"),
    [
        (
            "broker",
            [10, 11],
            "The mqbroker(10 11) is running...\nSend shutdown request to mqbroker(10 11) OK\n",
        ),
        (
            "namesrv",
            [12],
            "The mqnamesrv(12) is running...\nSend shutdown request to mqnamesrv(12) OK\n",
        ),
    ],
)
def test_servers_of_a_role_are_asked_to_stop(role: str, pids: list[int], answer: str) -> None:
    asked: list[int] = []
    out = io.StringIO()
    assert shut_down(role, RUNNING, terminate=asked.append, out=out) == 0
    assert asked == pids
    assert out.getvalue() == answer


@pytest.mark.parametrize(
    ("role", "answer"),
    [
        ("broker", "No mqbroker running.\n"),
        ("namesrv", "No mqnamesrv running.\n"),
        ("controller", "No mqcontroller running.\n"),
    ],
)
def test_nobody_to_stop_is_code_1(role: str, answer: str) -> None:
    out = io.StringIO()
    assert shut_down(role, [], terminate=os.abort, out=out) == 1  # type: ignore[arg-type]
    assert out.getvalue() == answer


def test_another_word_shows_the_usage() -> None:
    out = io.StringIO()
    shut_down("everything", RUNNING, terminate=os.abort, out=out)  # type: ignore[arg-type]
    assert out.getvalue() == "Usage: mqshutdown broker | namesrv | controller | proxy\n"


def test_this_process_is_in_the_table_and_no_server() -> None:
    found = {process.pid: process for process in processes()}
    assert role_of(found[os.getpid()].words) is None
