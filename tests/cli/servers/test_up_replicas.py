"""`rocketq up --replicas N`: a broker with slaves, of which any may be killed."""

import os
import re
import signal
from pathlib import Path

from tests.cli.programs import Server, run, serving
from tests.waiting import wait_until


def up(folder: Path, *more: str) -> list[str]:
    small = ["--set", "mappedFileSizeCommitLog=1048576"]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    return ["up", "--dir", str(folder), "--replicas", "1", *ports, *small, *more]


def processes(server: Server) -> dict[str, int]:
    """The lines after `ready`: what is where, and its pid."""
    assert server.process.stdout is not None
    lines = [server.process.stdout.readline() for _ in range(2)]
    found = [re.fullmatch(r"(.+) at \S+ pid=(\d+)\n", line) for line in lines]
    return {each[1]: int(each[2]) for each in found if each is not None}


def read(server: Server) -> str:
    return run(
        *("tail", "orders", "--from", "earliest", "--no-follow", "-n", server.facts["namesrv"])
    ).stdout


def test_what_is_acknowledged_is_in_the_slave_when_the_master_is_killed(tmp_path: Path) -> None:
    with serving(*up(tmp_path)) as server:
        pids = processes(server)
        assert set(pids) == {"broker-a", "slave 1 of broker-a"}
        namesrv = server.facts["namesrv"]
        # Who sends before the slave is connected is told that only one has it.
        wait_until(lambda: run("send", "orders", "first", "-n", namesrv).returncode == 0)
        sent = run("send", "orders", "hello", "--count", "20", "--json", "-n", namesrv)
        assert sent.stdout.count("SEND_OK") == 20
        master = server.facts["broker"]
        shown = run("admin", "haStatus", "-b", master, "-n", namesrv).stdout.splitlines()
        assert f"#MasterAddr\t{master}" in shown
        assert {"#SlaveNum\t1", "#InSyncSlaveNum\t1"} <= set(shown)
        assert shown[-1].split()[2] == "0"  # nothing that it does not have
        ids = [
            line.split()[2]
            for line in run("admin", "clusterList", "-n", namesrv).stdout.splitlines()[1:]
        ]
        assert ids == ["0", "1"]
        # Of a cluster, replication is its masters' to tell; users are kept by each broker.
        of_all = ("-c", "DefaultCluster", "-n", namesrv)
        assert run("admin", "haStatus", *of_all).stdout.count("#MasterAddr") == 1
        for words in (("createUser", "-p", "12345678"), ("deleteUser",)):
            made = run("admin", *words, "-u", "alice", *of_all).stdout.splitlines()
            assert len(set(made)) == 2, made
        titles = run("admin", "getColdDataFlowCtrInfo", *of_all).stdout
        assert f"============Master: {master}============" in titles
        slave = re.search(rf"=My Master: {master}=====Slave: ([\d.:]+)=", titles)
        assert slave is not None
        eve = run("user", "create", "eve", "--password", "12345678", "-n", namesrv)
        assert eve.returncode == 0, eve.stderr
        assert "eve" in run("admin", "getUser", "-b", slave[1], "-u", "eve", "-n", namesrv).stdout
        os.kill(pids["broker-a"], signal.SIGKILL)
        wait_until(lambda: read(server).count("hello\n") == 20, "the slave to be read from")
        assert server.stop() == 0
    # And as a single broker: the slave's directory is a broker's as any other.
    (tmp_path / "store").rename(tmp_path / "burnt")
    (tmp_path / "replica-1").rename(tmp_path / "store")
    alone = [*up(tmp_path)]
    alone[alone.index("--replicas") + 1] = "0"
    with serving(*alone) as server:
        assert read(server).count("hello\n") == 20
        assert run("send", "orders", "more", "-n", server.facts["namesrv"]).returncode == 0
        assert server.stop() == 0


def test_slaves_are_not_left_out_by_mistake(tmp_path: Path) -> None:
    (tmp_path / "replica-2").mkdir(parents=True)
    refused = run(*up(tmp_path))
    assert refused.returncode == 1
    assert "--replicas 2" in refused.stderr
