"""`rocketq up --ha`: a controller and three brokers, of which any may be killed."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.cli.programs import Server, run, serving
from tests.cli.servers.test_metrics_port import page
from tests.waiting import wait_until


def up(folder: Path, *more: str) -> list[str]:
    small = ["--set", "mappedFileSizeCommitLog=1048576"]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    return ["up", "--ha", "--dir", str(folder), *ports, *small, *more]


def until(server: Server, pattern: str) -> re.Match[str]:
    """Read lines until one is as wanted."""
    assert server.process.stdout is not None
    for line in server.process.stdout:
        found = re.fullmatch(pattern + "\n", line)
        if found is not None:
            return found
    raise AssertionError(f"it ended without {pattern}")


MASTER = r"broker (\d) is master; to see another take over: kill -9 (\d+)"


def send(server: Server, text: str) -> bool:
    sent = run("send", "orders", text, "--json", "-n", server.facts["namesrv"])
    return "SEND_OK" in sent.stdout


def test_another_broker_takes_over_from_a_killed_master(tmp_path: Path) -> None:
    seen = ("--metrics-port", "0", "--console", "--console-port", "0")
    with serving(*up(tmp_path, *seen)) as server:
        assert len(server.facts["broker"].split(",")) == 3
        urls = server.facts["metrics"].split(",")
        assert len(urls) == 5  # the NameServer's, the controller's and one for each broker
        assert "\nrole{" in page(urls[1])[1]
        assert page(server.facts["console"], "/healthz")[0] == 200
        until(server, r"controller at \S+ pid=\d+")
        first = until(server, MASTER)
        wait_until(lambda: send(server, "before"))
        controller = ("-a", server.facts["controller"], "-b", "broker-a")

        def is_shared() -> bool:
            shown = run("admin", "getSyncStateSet", *controller).stdout
            return "#SyncStateSetNums\t3" in shown

        wait_until(is_shared, "all to be in sync")
        assert send(server, "shared")
        os.kill(int(first[2]), signal.SIGKILL)
        second = until(server, MASTER)
        assert second[1] != first[1]
        wait_until(lambda: send(server, "after"))
        words = ("tail", "orders", "--from", "earliest", "--no-follow")
        read = run(*words, "-n", server.facts["namesrv"]).stdout.splitlines()
        assert {"before", "shared", "after"} <= set(read)
        until(server, rf"broker {first[1]} is back at \S+ pid=\d+")
        wait_until(is_shared, "the old master to be in sync again")
        assert server.stop() == 0
    refused = run("up", "--dir", str(tmp_path))
    assert refused.returncode == 1
    assert "--ha" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--brokers", "2"],
        ["--replicas", "1"],
        ["--set", "brokerRole=SLAVE"],
        ["--set", "controllerAddr=h:1"],
        ["--set", "brokerName=x"],
        ["--grpc-port", "0"],
    ],
)
def test_what_does_not_go_together(tmp_path: Path, words: list[str]) -> None:
    refused = run(*up(tmp_path, *words))
    assert refused.returncode == 1
    assert refused.stderr.startswith("rocketq: --")


def test_the_data_of_others_is_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    refused = run(*up(tmp_path))
    assert refused.returncode == 1
    assert "another --dir" in refused.stderr
