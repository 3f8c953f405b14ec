"""What thousands of brokers and clients cost NameServers, controllers and brokers at rest.

    python -m benchmarks.metadata [--quick]

Messages aside, a cluster talks about itself all the time: brokers register, clients ask for
routes and send heartbeats, replicas tell the controller that they live. Each of these requests
is sent here over real connections to a real process that holds a cluster of the given size, and
charged with that process's CPU time. docs/internet-scale.md multiplies the figures.
"""

import argparse
import asyncio
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.frames import Pipe, connect_many, flood, frame, heartbeat_frame
from benchmarks.growth_curves import process_cpu_s
from benchmarks.report import commit
from benchmarks.systems import Running
from rocketq.remoting import Command
from rocketq.remoting.bodies.registration import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigWrapper,
)
from rocketq.remoting.headers import (
    ApplyBrokerId,
    BrokerHeartbeat,
    ElectMaster,
    GetReplicaInfo,
    GetRouteInfo,
    RegisterBroker,
    RegisterBrokerToController,
)

QUEUES = 8
BROKERS_OF_A_TOPIC = 10
TOPICS_OF_A_BROKER = 50
REPLICAS = 3
WINDOW = 64
REST_S = 10.0


@contextmanager
def server(kind: str, *words: str) -> Iterator[Running]:
    """`rocketq namesrv`, `broker` or `controller` on a free port."""
    folder = tempfile.mkdtemp(prefix="rocketq-metadata-")
    command = [sys.executable, "-m", "rocketq.cli", kind, "--port", "0"]
    command += ["--set", "maxConnectionsPerAddress=100000", "--set", "maxConnections=100000"]
    command += {
        "namesrv": [],
        "broker": ["--set", f"storePathRootDir={folder}"],
        "controller": ["--dir", folder],
    }[kind]
    command += words
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
    )
    assert process.stdout is not None
    try:
        ready = re.match(rf"ready {kind}=(\S+)", process.stdout.readline())
        assert ready is not None, f"{kind} does not start"
        yield Running(kind, ready[1], [process.pid], 0.0, Path(folder))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def cpu_s(running: Running) -> float:
    """To the microsecond: some of these requests are few."""
    return sum(process_cpu_s(pid) for pid in running.pids)


class Measured:
    """What requests of one kind cost a server."""

    def __init__(self, running: Running) -> None:
        self._running = running

    async def cost(self, pipes: Sequence[Pipe], requests: Sequence[bytes], count: int) -> float:
        """CPU microseconds for each of `count` requests, after as many have gone before."""
        await flood(pipes, requests, count, WINDOW)
        before = cpu_s(self._running)
        await flood(pipes, requests, count, WINDOW)
        return (cpu_s(self._running) - before) / count * 1e6

    def say(self, what: str, cost: float, more: str = "") -> None:
        print(f"{self._running.label:10} {what:52} {cost:9.1f} us  {more}", flush=True)


# NameServer


def registration(broker: int, brokers: int, counter: int) -> bytes:
    """What a broker says every 30 seconds: all its topics."""
    topics = brokers * TOPICS_OF_A_BROKER // BROKERS_OF_A_TOPIC
    first = broker // BROKERS_OF_A_TOPIC * TOPICS_OF_A_BROKER
    names = ["everywhere", *(f"orders-{(first + n) % topics}" for n in range(TOPICS_OF_A_BROKER))]
    table = {
        name: TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        for name in names
    }
    wrapper = TopicConfigWrapper(
        data_version=DataVersion(timestamp=1, counter=counter), topic_config_table=table
    )
    host = f"10.{broker >> 16}.{broker >> 8 & 255}.{broker & 255}"
    header = RegisterBroker(
        broker_name=f"broker-{broker}",
        broker_addr=f"{host}:10911",
        cluster_name="big",
        ha_server_addr=f"{host}:10912",
        broker_id=0,
    )
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()
    return frame(Command.request(header, body))


async def name_server(brokers: int, count: int) -> None:
    with server("namesrv") as running:
        measured = Measured(running)
        empty_mb = running.memory_mb()["anon"]
        pipes = await connect_many(running.namesrv, brokers)
        requests = [registration(number, brokers, 1) for number in range(brokers)]

        async def register(which: Sequence[bytes]) -> float:
            before = cpu_s(running)
            for start in range(0, brokers, WINDOW):
                part = zip(pipes[start : start + WINDOW], which[start:], strict=False)
                await asyncio.gather(*(pipe.ask(request) for pipe, request in part))
            return (cpu_s(running) - before) / brokers * 1e6

        size = f"{len(requests[0]):,} bytes"
        measured.say(
            f"a registration of {TOPICS_OF_A_BROKER} topics, new", await register(requests)
        )
        cost = await register(requests)
        measured.say("the same again, nothing changed", cost, size)
        changed = [registration(number, brokers, 2) for number in range(brokers)]
        measured.say("the same again, with another version", await register(changed), size)
        held_mb = running.memory_mb()["anon"] - empty_mb
        print(f"{'':10} {held_mb:.0f} MB for {brokers:,} brokers and their connections")
        clients = await connect_many(running.namesrv, 200)
        for topic, what in (
            ("orders-1", f"a route over {BROKERS_OF_A_TOPIC} brokers"),
            ("everywhere", f"a route over {brokers:,} brokers"),
        ):
            asked = frame(Command.request(GetRouteInfo(topic=topic)))
            answer = await clients[0].ask(asked)
            repeats = count if topic != "everywhere" else max(count // 50, 100)
            cost = await measured.cost(clients, [asked], repeats)
            measured.say(what, cost, f"{len(answer.body):,} bytes")
        before_mb = running.memory_mb()["anon"]
        idle = await connect_many(running.namesrv, brokers)
        grown = (running.memory_mb()["anon"] - before_mb) * 1024 / len(idle)
        print(f"{'':10} {grown:.1f} KB for each further connection")
        for pipe in (*pipes, *clients, *idle):
            pipe.close()


# Broker


async def broker(clients: int, count: int) -> None:
    with server("broker") as running:
        measured = Measured(running)
        before_mb = running.memory_mb()["anon"]
        pipes = await connect_many(running.namesrv, clients)
        beats = [
            heartbeat_frame(f"10.1.{number >> 8}.{number & 255}@1", f"group-{number // 20}", "t")
            for number in range(clients)
        ]

        async def beat() -> float:
            before = cpu_s(running)
            for start in range(0, clients, WINDOW):
                part = zip(pipes[start : start + WINDOW], beats[start:], strict=False)
                await asyncio.gather(*(pipe.ask(request) for pipe, request in part))
            return (cpu_s(running) - before) / clients * 1e6

        measured.say("the first heartbeat of a consumer, 20 to a group", await beat())
        costs = [await beat() for _ in range(max(count // clients, 2))]
        measured.say("each further heartbeat", sum(costs) / len(costs), f"{len(beats[0])} bytes")
        held = (running.memory_mb()["anon"] - before_mb) * 1024 / clients
        print(f"{'':10} {held:.1f} KB for each consumer")
        for pipe in pipes:
            pipe.close()


# Controller


async def controller(sets: int, count: int) -> None:
    with server("controller") as running:
        measured = Measured(running)
        members = [
            (number, replica) for number in range(sets) for replica in range(1, REPLICAS + 1)
        ]
        pipes = await connect_many(running.namesrv, len(members))
        for (number, replica), pipe in zip(members, pipes, strict=True):
            await _join(pipe, number, replica)
        before_mb = running.memory_mb()["anon"]
        beats = [frame(_sign_of_life(*member)) for member in members]
        renewals = [
            frame(Command.request(GetReplicaInfo(broker_name=f"set-{number}")))
            for number in range(sets)
        ]
        cost = await measured.cost(pipes, beats, count)
        measured.say(f"a sign of life, {sets:,} sets of {REPLICAS}", cost, f"{len(beats[0])} bytes")
        measured.say("a master's renewal", await measured.cost(pipes, renewals, count))
        print(f"{'':10} {before_mb:.0f} MB in all")
        for pipe in pipes:
            pipe.close()


def _sign_of_life(number: int, replica: int) -> Command:
    header = BrokerHeartbeat(
        cluster_name="big",
        broker_name=f"set-{number}",
        broker_addr=_address(number, replica),
        broker_id=replica,
        epoch=1,
        max_offset=1000,
        confirm_offset=1000,
        heartbeat_timeout_mills=600_000,
    )
    return Command.request(header)


async def _join(pipe: Pipe, number: int, replica: int) -> None:
    """As a new broker does: an id, the registration, a sign of life; the first is elected."""
    name, address = f"set-{number}", _address(number, replica)
    applied = ApplyBrokerId(
        cluster_name="big",
        broker_name=name,
        applied_broker_id=replica,
        register_check_code=f"{address};{replica}",
    )
    registered = RegisterBrokerToController(
        cluster_name="big", broker_name=name, broker_id=replica, broker_address=address
    )
    await pipe.ask(frame(Command.request(applied)))
    await pipe.ask(frame(Command.request(registered)))
    await pipe.ask(frame(_sign_of_life(number, replica)))
    if replica == 1:
        elected = ElectMaster(cluster_name="big", broker_name=name, broker_id=1)
        pipe.leave(frame(Command.request(elected)))


async def _until_it_leads(pipe: Pipe, spare_set: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            return await _join(pipe, spare_set, 1)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


def _address(number: int, replica: int) -> str:
    return f"10.{number >> 8}.{number & 255}.{replica}:10911"


# etcd


class Etcd:
    """One node of etcd, and what it says of itself."""

    def __init__(self, endpoint: str, pid: int) -> None:
        self.endpoint = endpoint
        self.pid = pid

    def figure(self, name: str) -> float:
        with urllib.request.urlopen(f"http://{self.endpoint}/metrics", timeout=10) as page:
            found = re.search(rf"^{name} (\S+)$", page.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def writes(self) -> float:
        return self.figure("etcd_server_proposals_committed_total")

    def answers(self) -> bool:
        try:
            return self.figure("etcd_server_has_leader") == 1
        except OSError:
            return False


@contextmanager
def running_etcd() -> Iterator[Etcd]:
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        clients, peers = (f"127.0.0.1:{each.getsockname()[1]}" for each in (one, two))
    with tempfile.TemporaryDirectory(prefix="rocketq-metadata-etcd-") as folder:
        process = subprocess.Popen(
            [
                *("etcd", "--name", "e", "--data-dir", folder),
                *("--listen-client-urls", f"http://{clients}"),
                *("--advertise-client-urls", f"http://{clients}"),
                *("--listen-peer-urls", f"http://{peers}"),
                *("--initial-advertise-peer-urls", f"http://{peers}"),
                *("--initial-cluster", f"e=http://{peers}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            etcd = Etcd(clients, process.pid)
            deadline = time.monotonic() + 30
            while not etcd.answers() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield etcd
        finally:
            process.terminate()
            process.wait(30)


async def controller_on_etcd(sets: int, count: int) -> None:
    """What of all this gets to etcd: decisions, and the lease of the one who leads."""
    with running_etcd() as etcd, server("controller", "--etcd", etcd.endpoint) as running:
        measured = Measured(running)
        members = [
            (number, replica) for number in range(sets) for replica in range(1, REPLICAS + 1)
        ]
        pipes = await connect_many(running.namesrv, len(members))
        (spare,) = await connect_many(running.namesrv, 1)
        await _until_it_leads(spare, sets)
        writes, size = etcd.writes(), etcd.figure("etcd_mvcc_db_total_size_in_use_in_bytes")
        cpu, own = process_cpu_s(etcd.pid), cpu_s(running)
        for (number, replica), pipe in zip(members, pipes, strict=True):
            await _join(pipe, number, replica)
        cost = (cpu_s(running) - own) / sets * 1e6
        etcd_cost = (process_cpu_s(etcd.pid) - cpu) / sets * 1e6
        grown = etcd.figure("etcd_mvcc_db_total_size_in_use_in_bytes") - size
        measured.say(
            f"a set of {REPLICAS} that joins, on etcd",
            cost,
            f"{(etcd.writes() - writes) / sets:.1f} writes, {etcd_cost:.0f} us and "
            f"{grown / sets / 1024:.1f} KB of etcd, history included",
        )
        beats = [frame(_sign_of_life(*member)) for member in members]
        writes, began = etcd.writes(), time.monotonic()
        cost = await measured.cost(pipes, beats, count)
        measured.say("a sign of life, on etcd", cost)
        cpu = process_cpu_s(etcd.pid)
        await asyncio.sleep(REST_S)
        elapsed = time.monotonic() - began
        share = (process_cpu_s(etcd.pid) - cpu) / REST_S * 100
        print(
            f"{'':10} {etcd.writes() - writes:.0f} writes in {elapsed:.0f} s with "
            f"{2 * count:,} signs of life; etcd at rest uses {share:.1f} % of a core"
        )
        for pipe in pipes:
            pipe.close()


# Main


async def measure(*, quick: bool) -> None:
    brokers, clients, sets = (200, 1_000, 50) if quick else (2_000, 8_000, 1_000)
    count = 2_000 if quick else 20_000
    await name_server(brokers, count)
    await broker(clients, count)
    await controller(sets, count)
    if shutil.which("etcd"):
        await controller_on_etcd(sets, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small cluster, to try it")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"commit {commit()}")
    asyncio.run(measure(quick=options.quick))


if __name__ == "__main__":
    main()
