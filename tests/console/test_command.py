"""The command: beside a broker, on its own, and where it cannot start."""

import http.client
import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.programs import run, serving, taken_port
from tests.waiting import wait_until


def status(url: str, path: str = "/healthz", **headers: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture
def up(tmp_path: Path) -> list[str]:
    where = ["--namesrv-port", "0", "--broker-port", "0", "--console-port", "0"]
    return ["up", "--console", "--dir", str(tmp_path / "data"), *where]


def test_up_serves_a_console_in_a_process_of_its_own(up: list[str]) -> None:
    with serving(*up) as server:
        url = server.facts["console"]
        assert status(url) == 200
        assert status(url, "/") == 200
        assert server.stop() == 0
        with pytest.raises(ConnectionRefusedError):
            status(url)


def test_a_console_that_is_killed_leaves_the_broker_alone(up: list[str]) -> None:
    with serving(*up, "--brokers", "2") as server:
        assert status(server.facts["console"]) == 200
        child = console_below(server.process.pid)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{child}").exists(), "its end")
        sent = run("send", "orders", "hello", "-n", server.facts["namesrv"])
        assert sent.returncode == 0, sent.stderr
        assert server.stop() == 0


def test_a_console_stops_with_a_parent_that_is_killed(up: list[str]) -> None:
    with serving(*up) as server:
        child = console_below(server.process.pid)
        server.process.kill()
        wait_until(lambda: not Path(f"/proc/{child}").exists(), "its end")


def console_below(parent: int) -> int:
    """The pid of the console that a process has started."""
    for each in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if b"console" in Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0"):
            return int(each)
    raise AssertionError("no console")


def test_a_port_in_use_is_said_in_one_line() -> None:
    with taken_port() as port:
        done = run("console", "-n", "127.0.0.1:1", "--port", str(port))
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_console_runs_where_no_name_server_answers() -> None:
    with serving("console", "-n", "127.0.0.1:1", "--port", "0") as server:
        assert status(server.facts["console"], "/") == 200
        assert server.stop() == 0
