"""Columns for elected masters: brokers of one name under a controller, ours and Java's mixed.

a producer sends all the time, and notes what was acknowledged and where
the master is killed with SIGKILL, again and again; another one takes over
the killed one is started again, and is in the sync-state set before the next round
readers follow the master meanwhile, and note what they read where
everything that was acknowledged or read is there in the end, where it was
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from peers import java
from peers.outcomes import Column, Outcome, Outcomes
from peers.replication import Talk, until
from peers.servers import Cluster, Server
from rocketq.admin import topics
from rocketq.admin.cluster import brokers, controllers
from rocketq.admin.session import connected
from rocketq.aio import Message, Producer, run
from rocketq.client.producer.result import SendStatus
from rocketq.common.errors import RocketqError
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, RemotingClient, ResponseCode
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.headers import PullMessageResponse
from rocketq.remoting.link.client import split_address

ROUNDS = int(os.environ.get("ROCKETQ_PEERS_ROUNDS", "5"))
NAME = "broker-set"
TOPIC = "Elected"
QUEUES = 4
ROCKETQ = "rocketq"
WITHIN_S = 300.0


@dataclass(slots=True)
class History:
    """What the producer was told."""

    places: dict[tuple[int, int], bytes] = field(default_factory=dict)
    twice: list[tuple[int, int]] = field(default_factory=list)
    read: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """What readers have seen."""
    changed: list[tuple[int, int]] = field(default_factory=list)
    acknowledged: int = 0
    gaps_s: list[float] = field(default_factory=list)

    def note(self, place: tuple[int, int], body: bytes) -> None:
        self.acknowledged += 1
        if place in self.places:
            self.twice.append(place)
        self.places[place] = body

    def note_read(self, place: tuple[int, int], body: bytes) -> None:
        if self.read.setdefault(place, body) != body:
            self.changed.append(place)

    def more(self, count: int) -> Callable[[], Awaitable[bool]]:
        """Whether so many more have been acknowledged by then."""
        wanted = self.acknowledged + count

        async def is_reached() -> bool:
            return self.acknowledged >= wanted

        return is_reached


class Set:
    """Brokers of one name, each started as it was before."""

    def __init__(self, cluster: Cluster, namesrv: Server, controller: str) -> None:
        self._cluster = cluster
        self._namesrv = namesrv
        self._controller = controller
        self._sides: dict[str, str] = {}
        self._servers: dict[str, Server] = {}

    def start(self, name: str, side: str) -> None:
        self._sides[name] = side
        settings = {
            "brokerName": NAME,
            "brokerIP2": "127.0.0.1",
            "enableControllerMode": "true",
            "controllerAddr": self._controller,
            "allAckInSyncStateSet": "true",
            "slaveReadEnable": "true",
            "mappedFileSizeCommitLog": str(16 << 20),
        }
        if side == ROCKETQ:
            self._servers[name] = self._cluster.rocketq_broker(name, self._namesrv, **settings)
        else:
            self._servers[name] = self._cluster.java_broker(name, self._namesrv, **settings)

    def again(self, address: str) -> None:
        name = self._at(address)
        self.start(name, self._sides[name])

    def crash(self, address: str) -> None:
        self._servers[self._at(address)].crash()

    def _at(self, address: str) -> str:
        return next(name for name, each in self._servers.items() if each.address == address)


async def send_for_ever(namesrv: str, history: History, stop: asyncio.Event) -> None:
    """One message after the other, so that a gap is seen as long as it is."""
    async with Producer("ElectedProducer", namesrv=namesrv, send_timeout_s=2.0) as producer:
        number, last = 0, time.monotonic()
        while not stop.is_set():
            number += 1
            body = b"%d" % number
            try:
                result = await producer.send(Message(TOPIC, body))
            except RocketqError:
                await asyncio.sleep(0.01)
                continue
            if result.status is SendStatus.SEND_OK:
                now = time.monotonic()
                history.gaps_s.append(now - last)
                last = now
                history.note((result.queue.queue_id, result.queue_offset), body)


async def read_for_ever(
    master: Callable[[], Awaitable[str | None]], history: History, stop: asyncio.Event
) -> None:
    """Follow each queue at whoever is master, as consumers do."""
    client = RemotingClient()
    following = dict.fromkeys(range(QUEUES), 0)
    try:
        while not stop.is_set():
            with suppress(RocketqError, OSError, KeyError):
                address = await master()
                for queue, at in following.items():
                    if address is not None:
                        reader = Reader(client, address)
                        following[queue] = await _read_on(reader, queue, at, history)
            await asyncio.sleep(0.05)
    finally:
        await client.close()


async def _read_on(reader: "Reader", queue: int, at: int, history: History) -> int:
    while True:
        reply = await reader.pull(queue, at)
        if reply.code != ResponseCode.SUCCESS:
            return at
        for message in decode_records(reply.body):
            history.note_read((queue, message.queue_offset), bytes(message.body))
        at = reply.header(PullMessageResponse).next_begin_offset


async def trial(members: Set, namesrv: str, controller: str, count: int) -> dict[str, Outcome]:
    history, stop = History(), asyncio.Event()
    found: dict[str, Outcome] = {}
    gaps = []
    async with connected(namesrv, timeout_s=10.0) as api:

        async def master() -> str | None:
            info = await controllers.sync_states(api, controller, [NAME])
            return info.replicas_info_table[NAME].master_address

        async def all_in_sync() -> bool:
            info = await controllers.sync_states(api, controller, [NAME])
            return len(info.replicas_info_table[NAME].in_sync_replicas) == count

        async def is_registered() -> bool:
            return await brokers.address_of(api, NAME) == await master()

        await until("all to be in sync", all_in_sync, WITHIN_S)
        config = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        await topics.create(api, config, [await brokers.address_of(api, NAME)])
        sending = asyncio.create_task(send_for_ever(namesrv, history, stop))
        reading = asyncio.create_task(read_for_ever(master, history, stop))
        try:
            for _ in range(ROUNDS):
                await until("sends", history.more(100), WITHIN_S)
                old = await master()
                assert old is not None
                history.gaps_s.clear()
                await asyncio.to_thread(members.crash, old)
                await until("another master", history.more(50), WITHIN_S)
                gaps.append(max(history.gaps_s))
                await asyncio.to_thread(members.again, old)
                await until("the killed one", all_in_sync, WITHIN_S)
            found["another takes over"] = Outcome(True, _seconds(gaps))
            found["the killed one is in sync again"] = Outcome(True)
        except (AssertionError, RuntimeError) as error:
            found["another takes over"] = Outcome(False, f"round {len(gaps) + 1}: {error}")
        finally:
            stop.set()
            with suppress(RocketqError):
                await sending
            await reading
        await until("a master", is_registered, WITHIN_S)
        last = await master()
    assert last is not None
    found["offsets are given once"] = Outcome(not history.twice, f"twice: {history.twice[:3]}")
    found["nothing acknowledged is lost"] = await read_back(last, history.places)
    changed = Outcome(False, f"two messages at {history.changed[:3]}")
    found["nothing read disappears"] = (
        changed if history.changed else await read_back(last, history.read)
    )
    return found


def _seconds(gaps: list[float]) -> str:
    ordered = sorted(gaps)
    return f"without a master {ordered[len(ordered) // 2]:.2f} s (p50), {ordered[-1]:.2f} s at most"


class Reader(Talk):
    """Reads this topic."""

    async def pull(self, queue_id: int, offset: int, topic: str = TOPIC) -> Command:
        return await super().pull(queue_id, offset, topic)


async def read_back(address: str, known: dict[tuple[int, int], bytes]) -> Outcome:
    client = RemotingClient()
    try:
        talk = Reader(client, address)
        lost = []
        for queue in range(QUEUES):
            wanted = {place: body for place, body in known.items() if place[0] == queue}
            end = max((offset for _, offset in wanted), default=-1) + 1
            there = await talk.read_queue(queue, end)
            lost += [
                place
                for place, body in wanted.items()
                if place not in there or bytes(there[place].body) != body
            ]
    finally:
        await client.close()
    if lost:
        return Outcome(False, f"{len(lost)} of {len(known)}: {sorted(lost)[:3]}")
    return Outcome(True, f"{len(known)} messages")


def elected(
    sides: Sequence[str], controller_side: str, folder: Path, rows: Sequence[str]
) -> Outcomes:
    with Cluster(folder) as cluster:
        namesrv = cluster.rocketq_namesrv()
        controller = start_controller(cluster, controller_side)
        members = Set(cluster, namesrv, controller)
        for number, side in enumerate(sides, 1):
            members.start(f"e{number}", side)
        found = run(trial(members, namesrv.address, controller, len(sides)))
    return {f"elected: {name}": each for name, each in found.items()}


def in_sync(namesrv: str, controller: str, count: int) -> tuple[str, str]:
    """Wait until so many are in sync; the addresses of the master and of another one."""

    async def addresses() -> tuple[str, str]:
        async with connected(namesrv, timeout_s=10.0) as api:

            async def all_in_sync() -> bool:
                info = await controllers.sync_states(api, controller, [NAME])
                known = info.replicas_info_table.get(NAME)
                return known is not None and len(known.in_sync_replicas) == count

            await until("all to be in sync", all_in_sync, WITHIN_S)
            info = await controllers.sync_states(api, controller, [NAME])
            found = info.replicas_info_table[NAME]
            master = found.master_address or ""
            others = [each.broker_address for each in found.in_sync_replicas]
            return master, next(each for each in others if each != master)

    return run(addresses())


def start_controller(cluster: Cluster, side: str = ROCKETQ, **settings: str) -> str:
    """`settings` are for ours."""
    port = cluster.port("controller")
    if side == ROCKETQ:
        command = _rocketq_controller(cluster.folder, port, settings)
    else:
        command = _java_controller(cluster.folder, port)
    server = cluster.run(f"{side}-controller", command)
    address = f"127.0.0.1:{port}"
    deadline = time.monotonic() + WITHIN_S
    while not _listens(address):
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the controller did not start: {server.log.read_text()}")
        time.sleep(0.05)
    return address


def _rocketq_controller(folder: Path, port: int, settings: dict[str, str]) -> list[str]:
    command = [sys.executable, "-m", "rocketq.cli", "controller", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dir", str(folder / "controller")]
    command += [word for pair in settings.items() for word in ("--set", "=".join(pair))]
    return [*command, "--log-level", "info"]


def _java_controller(folder: Path, port: int) -> list[str]:
    """One peer of its Raft; it answers at the port of the peer."""
    settings = {
        "controllerType": "DLedger",
        "controllerDLegerGroup": "group1",
        "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": folder / "controller",
    }
    conf = folder / "conf" / "controller.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    main = "org.apache.rocketmq.controller.ControllerStartup"
    jvm = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [*java.command(java.V5, main, folder, jvm=jvm), "-c", str(conf)]


def _listens(address: str) -> bool:
    try:
        socket.create_connection(split_address(address), 1).close()
    except OSError:
        return False
    return True


COLUMNS = [
    Column(
        "elected-java",
        "three Java 5.5.0 brokers, rocketq controller",
        partial(elected, (java.V5, java.V5, java.V5), ROCKETQ),
    ),
    Column(
        "elected-mixed",
        "one Java 5.5.0 and two rocketq brokers, rocketq controller",
        partial(elected, (java.V5, ROCKETQ, ROCKETQ), ROCKETQ),
    ),
    Column(
        "elected-rocketq",
        "three rocketq brokers, rocketq controller",
        partial(elected, (ROCKETQ, ROCKETQ, ROCKETQ), ROCKETQ),
    ),
    Column(
        "elected-by-java",
        "three rocketq brokers, Java 5.5.0 controller",
        partial(elected, (ROCKETQ, ROCKETQ, ROCKETQ), java.V5),
    ),
]
