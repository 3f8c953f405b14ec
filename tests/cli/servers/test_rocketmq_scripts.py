"""`mqnamesrv`, `mqbroker` and `mqshutdown`: what people who know RocketMQ look for."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketq.cli.servers.shutdown import processes, role_of, shut_down
from tests.cli.programs import ENVIRONMENT, serving


@contextmanager
def script(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """One of the console scripts, as the installer would make it."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"from rocketq.cli import {name}; {name}()", *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def test_a_name_server_and_a_broker_boot_as_rocketmqs_scripts_say(tmp_path: Path) -> None:
    names = tmp_path / "namesrv.conf"
    names.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path / 'kv.json'}\n")
    with script("mqnamesrv", "-c", str(names)) as name_server:
        assert first_line(name_server) == f"load config properties file OK, {names}"
        booted = first_line(name_server)
        said = "The Name Server boot success. serializeType=JSON, address 127.0.0.1:"
        assert booted.startswith(said)
        address = booted.removeprefix(said)

        conf = tmp_path / "broker.conf"
        conf.write_text(
            "brokerName=broker-s\nlistenPort=0\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\n"
            f"storePathRootDir={tmp_path / 'store'}\nmappedFileSizeCommitLog=1048576\n"
        )
        with script("mqbroker", "-c", str(conf), "-n", f"127.0.0.1:{address}") as broker:
            line = first_line(broker)
            assert line.startswith("The broker[broker-s, 127.0.0.1:")
            assert line.endswith(
                f"] boot success. serializeType=JSON and name server is 127.0.0.1:{address}"
            )
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(30) == 0
        name_server.send_signal(signal.SIGTERM)
        assert name_server.wait(30) == 0


def test_options_are_printed_and_that_is_all() -> None:
    with script("mqbroker", "-m") as printing:
        out, _ = printing.communicate(timeout=60)
        assert printing.returncode == 0
        assert "brokerRole=ASYNC_MASTER" in out.splitlines()
    with script("mqnamesrv", "-p") as printing:
        out, _ = printing.communicate(timeout=60)
        assert "listenPort=9876" in out.splitlines()


def test_a_running_server_is_found_and_asked_to_stop(tmp_path: Path) -> None:
    kv = ("--set", f"kvConfigPath={tmp_path / 'kv.json'}")
    with serving("namesrv", "--host", "127.0.0.1", "--port", "0", *kv) as server:
        # Nobody else's servers: only the one that this test has started.
        own = [each for each in processes() if each.pid == server.process.pid]
        assert [role_of(each.words) for each in own] == ["namesrv"]
        out = io.StringIO()
        code = shut_down(
            "namesrv", own, terminate=lambda pid: os.kill(pid, signal.SIGTERM), out=out
        )
        assert code == 0
        assert server.process.wait(30) == 0
        assert out.getvalue() == (
            f"The mqnamesrv({server.process.pid}) is running...\n"
            f"Send shutdown request to mqnamesrv({server.process.pid}) OK\n"
        )
