"""`rocketq namesrv` as a user runs it."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.cli.programs import run, serving, taken_port


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def arguments(folder: Path, *more: str) -> list[str]:
    paths = [f"kvConfigPath={folder / 'kv.json'}", f"configStorePath={folder / 'ns.properties'}"]
    sets = [word for path in paths for word in ("--set", path)]
    return ["namesrv", "--host", "127.0.0.1", *sets, *more]


def test_one_line_says_that_it_is_ready(tmp_path: Path) -> None:
    with serving(*arguments(tmp_path, "--port", "0")) as server:
        assert server.ready.startswith("ready namesrv=127.0.0.1:")
        assert server.facts["pid"] == str(server.process.pid)
        host, port = server.facts["namesrv"].split(":")
        socket.create_connection((host, int(port))).close()
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""


def test_ctrl_c_stops_it_cleanly(tmp_path: Path) -> None:
    with serving(*arguments(tmp_path, "--port", "0")) as server:
        assert server.stop(signal.SIGINT) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with taken_port() as port:
        ended = run(*arguments(tmp_path, "--port", str(port)))
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == (
        f"rocketq: port {port} is in use on 127.0.0.1; choose another one, or 0 for any free one\n"
    )
    assert files(tmp_path) == []


def test_a_wrong_value_names_key_value_and_what_is_allowed(tmp_path: Path) -> None:
    ended = run(*arguments(tmp_path, "--set", "orderMessageEnable=perhaps"))
    assert ended.returncode == 1
    assert ended.stderr == "rocketq: orderMessageEnable=perhaps: must be true or false\n"


@pytest.mark.parametrize("port", ["70000", "-1"])
def test_a_port_out_of_range_is_refused(tmp_path: Path, port: str) -> None:
    ended = run(*arguments(tmp_path, "--port", port))
    assert ended.returncode == 1
    assert "listenPort" in ended.stderr


def test_an_unknown_key_is_a_warning_with_the_nearest_known_one(tmp_path: Path) -> None:
    ended = run(*arguments(tmp_path, "--set", "orderMesageEnable=true", "-p"))
    assert ended.returncode == 0
    assert ended.stderr.endswith(
        "unknown configuration key orderMesageEnable is ignored; did you mean orderMessageEnable?\n"
    )


def test_options_come_from_a_file_and_the_file_is_where_updates_go(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("# comment\nlistenPort = 12345\norderMessageEnable=true\n")
    ended = run("namesrv", "-c", str(file), "-p", "--port", "23456")
    options = dict(line.split("=", 1) for line in ended.stdout.splitlines())
    assert options["orderMessageEnable"] == "true"
    assert options["listenPort"] == "23456"
    assert options["configStorePath"] == str(file)
    assert list(options) == sorted(options)


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    ended = run("namesrv", "-c", str(tmp_path / "none.conf"))
    assert ended.returncode == 1
    assert ended.stderr == f"rocketq: cannot read {tmp_path / 'none.conf'}: {os.strerror(2)}\n"


def test_set_wants_a_key_and_a_value() -> None:
    ended = run("namesrv", "--set", "orderMessageEnable")
    assert ended.returncode == 1
    assert ended.stderr == "rocketq: --set orderMessageEnable: write it as KEY=VALUE\n"
