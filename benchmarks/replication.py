"""A SYNC_MASTER with one slave, rocketq's beside Java's, both processes on the same cores.

    python -m benchmarks.replication [--rounds 3] [--quick] [--without-java] [--only NAME ...]

    sync-64        64 threads, each waits for its answer, which waits for the slave
    async-1000     1,000 sends under way
    paced          10,000 messages per second
    paced-alone    the same without a slave: what of an acknowledgement's time is the client's
    lag            10,000 messages per second from a driver that costs little: the slave's lag, from
                   when a message was stored to when the report came, by the master's metrics
    copy           a new slave gets a long log while the master serves: MB per second

Figures are Load.java's lines; CPU is that of master and slave together. One line of JSON each.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

from peers.rocketmq import probe

from benchmarks import systems
from benchmarks.frames import send_frame
from benchmarks.systems import ROOT, Running
from rocketq.remoting import Command, RemotingClient, RequestCode, check
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.headers import SendMessageV2
from rocketq.remoting.wire.frame import FrameSplitter

CLUSTER = ROOT / "peers" / "rocketmq" / "cluster"
NAMESRV, MASTER, SLAVE, METRICS = 29876, 30911, 30921, 30955


@contextmanager
def rocketq_pair(folder: Path) -> Iterator[Running]:
    words = [sys.executable, "-m", "rocketq.cli", "up", "--replicas", "1", "--dir", str(folder)]
    words += ["--namesrv-port", str(NAMESRV), "--broker-port", str(MASTER)]
    words += ["--metrics-port", str(METRICS)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        pids = [int(line.rpartition("pid=")[2]) for line in lines[1:]]
        yield Running("rocketq", f"127.0.0.1:{NAMESRV}", pids, 0.0, folder)
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def java_pair(folder: Path) -> Iterator[Running]:
    cluster = [sys.executable, str(CLUSTER), "--dir", str(folder)]
    started = subprocess.run(
        [*cluster, "start", "pair", "--conf", "inSyncReplicas=2"],
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads(started.stdout.splitlines()[-1])
    pids = [facts["pids"]["broker-0"], facts["pids"]["broker-1"]]
    try:
        yield Running("Java 5.5.0", facts["namesrv"], pids, 0.0, folder)
    finally:
        subprocess.run([*cluster, "stop"], capture_output=True, check=False)


def loads(quick: bool) -> dict[str, str]:
    while_s = "--warmup 3 --seconds 4" if quick else "--warmup 8 --seconds 10"
    return {
        "sync-64": f"produce --size 128 --mode sync --threads 64 {while_s}",
        "async-1000": f"produce --size 128 --mode async --threads 1 --inflight 1000 {while_s}",
        "paced": f"latency --size 128 --rate 10000 {while_s}",
    }


# How far the slave is behind


def delays() -> dict[float, int]:
    """How often the slave has said within so many seconds that it has what was stored."""
    with urlopen(f"http://127.0.0.1:{METRICS + 1}/metrics") as page:  # the NameServer's is before
        text = page.read().decode()
    found = re.findall(r'slave_delay_seconds_bucket\{[^}]*le="([^"]+)"[^}]*\} (\d+)', text)
    return {float(bound): int(count) for bound, count in found}


def paced_frames(seconds: int, rate: int = 10_000) -> list[float]:
    """Send ready-made frames at their times; how long after its time each was answered, sorted."""
    topic = "lag"
    probe.wait_until_acknowledged(f"127.0.0.1:{NAMESRV}", topic, 30)
    frames = [send_frame(topic, number % 4, b"." * 128) for number in range(1_000)]
    total = rate * seconds
    took: list[float] = []
    with socket.create_connection(("127.0.0.1", MASTER)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.monotonic() + 0.1

        def read() -> None:
            splitter = FrameSplitter()
            while len(took) < total and (data := connection.recv(1 << 16)):
                now = time.monotonic() - began
                for _ in splitter.feed(data):  # answers of one connection come in order
                    took.append(now - len(took) / rate)

        reader = Thread(target=read)
        reader.start()
        sent = 0
        while sent < total:
            due = min(total, int((time.monotonic() - began) * rate) + 1)
            if due > sent:
                connection.sendall(b"".join(frames[at % 1_000] for at in range(sent, due)))
                sent = due
            time.sleep(max(began + sent / rate - time.monotonic(), 0.00005))
        reader.join(30)
    return sorted(took)


def measure_lag(folder: Path, seconds: int) -> dict[str, float]:
    with rocketq_pair(folder):
        paced_frames(2)
        before = delays()
        took = paced_frames(seconds)
        return {
            "count": len(took),
            "p50_ms": round(took[len(took) // 2] * 1e3, 2),
            "p99_ms": round(took[len(took) * 99 // 100] * 1e3, 2),
            **lag(before, delays()),
        }


def lag(before: dict[float, int], after: dict[float, int]) -> dict[str, float]:
    counts = {bound: after[bound] - before.get(bound, 0) for bound in after}
    total = counts[float("inf")]
    within = {
        f"lag_p{part}_within_ms": 1e3 * min(b for b, n in counts.items() if n * 100 >= total * part)
        for part in (50, 99)
    }
    return {"lags": total, **within, "lag_within_5_ms": round(counts[0.005] / total, 5)}


# A new slave


async def log_end(client: RemotingClient, address: str) -> int:
    request = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
    reply = await client.call(address, request, 10.0)
    return int(KVTable.decode(reply.body).table["commitLogMaxOffset"])


async def copied(size: int) -> dict[str, object]:
    """How long the slave takes until it has this much, and the master to answer meanwhile."""
    client = RemotingClient()
    times: list[float] = []
    serving = asyncio.create_task(_serve(client, times))
    began = time.monotonic()
    try:
        while await log_end(client, f"127.0.0.1:{SLAVE}") < size:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        took = time.monotonic() - began
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await client.close()
    times.sort()
    return {
        "bytes": size,
        "seconds": round(took, 2),
        "mb_per_s": round(size / took / 1e6),
        "sends_meanwhile": len(times),
        "send_p50_ms": round(times[len(times) // 2] * 1e3, 1),
        "send_p99_ms": round(times[len(times) * 99 // 100] * 1e3, 1),
    }


async def _serve(client: RemotingClient, times: list[float]) -> None:
    """One message after the other, some hundred a second."""
    header = SendMessageV2(
        producer_group="copy",
        topic="copy",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties="",
        reconsume_times=0,
        unit_mode=False,
    )
    while True:
        began = time.monotonic()
        request = Command.request(header, b"." * 128)
        check(await client.call(f"127.0.0.1:{MASTER}", request, 30.0))
        times.append(time.monotonic() - began)
        await asyncio.sleep(0.005)


def copy(folder: Path, size: int) -> dict[str, object]:
    """Fill a master alone, then give it a slave; messages go on to come, some hundred a second."""
    up = [sys.executable, "-m", "rocketq.cli", "up", "--dir", str(folder)]
    up += ["--namesrv-port", str(NAMESRV), "--broker-port", str(MASTER)]
    up += ["--set", "mappedFileSizeCommitLog=1073741824"]
    master = subprocess.Popen(up, stdout=subprocess.PIPE, text=True)
    slave: subprocess.Popen[str] | None = None
    try:
        assert master.stdout is not None
        master.stdout.readline()
        running = Running("rocketq", f"127.0.0.1:{NAMESRV}", [master.pid], 0.0, folder)
        batches = "produce --mode batch --threads 4 --batch 32 --size 4096 --warmup 0"
        systems.load(running, f"{batches} --count {size // 4300}")
        end = asyncio.run(_end_of_master())
        disk = disk_speed(folder)  # and the master's log is on it by then
        plain = plain_copy_speed(folder, end)
        words = [sys.executable, "-m", "rocketq.cli", "broker", "-n", running.namesrv]
        settings = {
            "brokerName": "broker-a",
            "brokerId": 1,
            "brokerRole": "SLAVE",
            "listenPort": SLAVE,
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "storePathRootDir": folder / "replica",
        }
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        slave = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert slave.stdout is not None
        slave.stdout.readline()
        return {**asyncio.run(copied(end)), "disk_mb_per_s": disk, "plain_mb_per_s": plain}
    finally:
        for process in (slave, master):
            if process is not None:
                process.terminate()
                process.wait(60)


def disk_speed(folder: Path, size: int = 1 << 30) -> int:
    """What a plain program writes here, until it is on the disk: MB per second."""
    os.sync()
    piece = os.urandom(1 << 20)
    began = time.monotonic()
    with open(folder / "plain", "wb") as plain:
        for _ in range(size // len(piece)):
            plain.write(piece)
        plain.flush()
        os.fsync(plain.fileno())
    took = time.monotonic() - began
    (folder / "plain").unlink()
    return round(size / took / 1e6)


def plain_copy_speed(folder: Path, size: int) -> int:
    """What two plain programs do that only send these files and write them down: MB per second."""
    logs = sorted((folder / "store" / "commitlog").iterdir())
    files = [file for file in logs if int(file.name) < size]
    receiver, sender = _loopback_pair()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        receiver.close()
        for file in files:
            with open(file, "rb") as log:
                sender.sendfile(log, 0, min(size - int(file.name), file.stat().st_size))
        os._exit(0)
    sender.close()
    buffer = bytearray(512 << 10)
    with open(folder / "plain", "wb", buffering=0) as plain:
        while received := receiver.recv_into(buffer):
            plain.write(memoryview(buffer)[:received])
        os.fsync(plain.fileno())
    took = time.monotonic() - began
    os.waitpid(child, 0)
    (folder / "plain").unlink()
    return round(size / took / 1e6)


def _loopback_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    return receiver, sender


async def _end_of_master() -> int:
    client = RemotingClient()
    try:
        return await log_end(client, f"127.0.0.1:{MASTER}")
    finally:
        await client.close()


def alone_on_loopback(arguments: list[str]) -> None:
    """Java's replication port listens on every interface whatever it is told."""
    if os.environ.get("ROCKETQ_ON_LOOPBACK") or not shutil.which("unshare"):
        return
    inner = [sys.executable, "-m", "benchmarks.replication", *arguments]
    command = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *inner]
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0:
        os.environ["ROCKETQ_ON_LOOPBACK"] = "1"
        os.execvp(command[0], command)


def tell(**figures: object) -> None:
    print(json.dumps(figures), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="short runs, to try the harness")
    parser.add_argument("--without-java", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    alone_on_loopback(sys.argv[1:])
    chosen = {
        name: words
        for name, words in loads(options.quick).items()
        if not options.only or name in options.only
    }
    pairs = [rocketq_pair] if options.without_java else [rocketq_pair, java_pair]
    with tempfile.TemporaryDirectory(prefix="rocketq-replication-") as place:
        for number in range(0 if options.only == ["copy"] else options.rounds):
            for pair in pairs if chosen else []:
                with pair(Path(place) / f"{pair.__name__}-{number}") as running:
                    for name, words in chosen.items():
                        figures = systems.load(running, words)
                        tell(system=running.label, load=name, **figures)
            if not options.only or "paced-alone" in options.only:
                with systems.rocketq(Path(place) / "alone") as running:
                    figures = systems.load(running, loads(options.quick)["paced"])
                    tell(system="rocketq without a slave", load="paced", **figures)
            if not options.only or "lag" in options.only:
                found = measure_lag(Path(place) / f"lag-{number}", 4 if options.quick else 15)
                tell(system="rocketq", load="lag", **found)
        if not options.only or "copy" in options.only:
            size = (256 << 20) if options.quick else (5 << 30)
            tell(load="copy", **copy(Path(place) / "copy", size))


if __name__ == "__main__":
    main()
