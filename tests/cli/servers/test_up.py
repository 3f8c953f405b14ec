"""`rocketq up` and `rocketq broker` as users run them."""

import signal
import socket
from pathlib import Path

import pytest

from tests.cli.programs import Server, run, serving, taken_port


def up(folder: Path, *more: str) -> list[str]:
    # Small files, so that a test does not reserve gigabytes.
    small = ["--set", "mappedFileSizeCommitLog=1048576"]
    return ["up", "--dir", str(folder), "--namesrv-port", "0", "--broker-port", "0", *small, *more]


def send(server: Server, *arguments: str) -> str:
    ended = run("send", *arguments, "-n", server.facts["namesrv"])
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_when_the_ready_line_is_out_messages_can_be_sent(tmp_path: Path) -> None:
    with serving(*up(tmp_path)) as server:
        assert server.ready.split()[0] == "ready"
        assert list(server.facts) == ["namesrv", "broker", "grpc", "pid"]
        assert server.facts["pid"] == str(server.process.pid)
        assert " SEND_OK" in send(server, "orders", "hello")

        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stderr is not None
        assert server.process.stdout.read() == ""
        assert server.process.stderr.read() == ""


def test_what_was_sent_is_there_the_next_time(tmp_path: Path) -> None:
    with serving(*up(tmp_path)) as server:
        send(server, "orders", "kept")
        assert server.stop(signal.SIGINT) == 0
    with serving(*up(tmp_path)) as server:
        read = run(
            *("tail", "orders", "--from", "earliest", "--no-follow"),
            *("-n", server.facts["namesrv"]),
        )
        assert read.stdout == "kept\n"
        assert server.stop() == 0


@pytest.mark.parametrize("option", ["--namesrv-port", "--broker-port"])
def test_a_taken_port_leaves_everything_untouched(tmp_path: Path, option: str) -> None:
    with taken_port() as port:
        ended = run(*up(tmp_path / "data", option, str(port)))
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == (
        f"rocketq: port {port} is in use on 127.0.0.1; choose another one, or 0 for any free one\n"
    )
    assert not (tmp_path / "data").exists()


def test_a_directory_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with serving(*up(tmp_path)) as server:
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
        ended = run(*up(tmp_path))
        assert ended.returncode == 1
        assert ended.stdout == ""
        assert ended.stderr.startswith("rocketq: ")
        assert ended.stderr.count("\n") == 1
        assert str(tmp_path / "store") in ended.stderr
        after = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
        assert after.keys() == before.keys()
        assert " SEND_OK" in send(server, "orders", "still alive")


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("flushDiskType=SOMETIMES", "flushDiskType=SOMETIMES: must be one of SYNC_FLUSH, ASYNC"),
        ("defaultTopicQueueNums=many", "defaultTopicQueueNums=many: must be a whole number"),
        ("listenPort=1", "--set listenPort: use --namesrv-port and --broker-port instead"),
        ("autoCreateTopicEnable", "--set autoCreateTopicEnable: write it as KEY=VALUE"),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, setting: str, complaint: str) -> None:
    ended = run(*up(tmp_path / "data", "--set", setting))
    assert ended.returncode == 1
    assert complaint in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_an_unknown_key_warns_and_names_the_nearest(tmp_path: Path) -> None:
    with serving(*up(tmp_path, "--set", "flushDiskTypo=SYNC_FLUSH")) as server:
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read().endswith(
            "unknown configuration key flushDiskTypo is ignored; did you mean flushDiskType?\n"
        )


def test_a_broker_of_its_own_registers_where_it_is_told(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"brokerName=broker-x\nstorePathRootDir={tmp_path / 'store'}\n"
        "mappedFileSizeCommitLog=1048576\nsendMessageThreadPoolNums=16\n"
    )
    kv = ("--set", f"kvConfigPath={tmp_path / 'kv.json'}")
    with (
        serving("namesrv", "--host", "127.0.0.1", "--port", "0", *kv) as name_server,
        serving(
            *("broker", "-c", str(conf), "-n", name_server.facts["namesrv"]),
            *("--host", "127.0.0.1", "--port", "0"),
        ) as broker,
    ):
        assert list(broker.facts) == ["broker", "pid"]
        host, port = broker.facts["broker"].split(":")
        socket.create_connection((host, int(port))).close()
        result = send(name_server, "orders", "hello")
        assert "broker-x:" in result
        assert broker.stop() == 0
        assert name_server.stop() == 0


def test_a_brokers_options_are_printed(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-x\nflushDiskType=SYNC_FLUSH\n")
    every = run("broker", "-c", str(conf), "-p")
    assert every.returncode == 0
    options = dict(line.split("=", 1) for line in every.stdout.splitlines())
    assert options["brokerName"] == "broker-x"
    assert options["flushDiskType"] == "SYNC_FLUSH"
    assert options["listenPort"] == "10911"
    important = run("broker", "-c", str(conf), "-m").stdout.splitlines()
    assert "flushDiskType=SYNC_FLUSH" in important
    assert 10 < len(important) < len(options)
