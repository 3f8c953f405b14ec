"""How long a running producer is without a master, rocketq's beside Java's.

    python -m benchmarks.failover [--rounds 10] [--without-java] [--only killed|frozen]

Three brokers of one name under a controller. A producer begins a send every 10 ms, to whoever the
NameServer says is master, asked every 20 ms. The master is killed with SIGKILL, or frozen with
SIGSTOP; measured is the time from there to the answer of the first send that began after it and
was acknowledged. Defaults on both sides, with allAckInSyncStateSet=true. One line of JSON each.

Sends to the one that was frozen go on, too, and it is let go as soon as another takes messages:
`late` counts what it acknowledges after the first acknowledgement of the next master.

Java's replication ports listen on every interface: run it in a network namespace.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.systems import ROOT
from rocketq.remoting import Command, RemotingClient, ResponseCode
from rocketq.remoting.bodies.controller import BrokerReplicasInfo, encode_broker_names
from rocketq.remoting.bodies.route import TopicRouteData
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import GetRouteInfo, SendMessageV2

CLUSTER = ROOT / "peers" / "rocketmq" / "cluster"
NAMESRV, CONTROLLER, BROKER = 29876, 29878, 30911
JAVA_NAMESRV, JAVA_CONTROLLER, JAVA_BROKER = 19876, 19878, 20911
BROKERS = 3
TOPIC = "failover"


@dataclass
class System:
    """Three brokers under a controller, by the addresses they listen at."""

    name: str
    namesrv: str
    controller: str
    pids: dict[str, int]
    again: Callable[[str], int]
    """Starts the broker of an address again; its new pid."""


@contextmanager
def rocketq_set(folder: Path) -> Iterator[System]:
    python = [sys.executable, "-m", "rocketq.cli"]
    namesrv, controller = f"127.0.0.1:{NAMESRV}", f"127.0.0.1:{CONTROLLER}"
    processes: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> int:
        process = subprocess.Popen(
            [*python, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        processes.append(process)
        assert process.stdout is not None
        assert b"ready" in process.stdout.readline()
        return process.pid

    def broker(address: str) -> int:
        port = address.rpartition(":")[2]
        settings = {
            "brokerName": "broker-a",
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "storePathRootDir": str(folder / port),
            "enableControllerMode": "true",
            "controllerAddr": controller,
            "allAckInSyncStateSet": "true",
        }
        words = [word for key in settings for word in ("--set", f"{key}={settings[key]}")]
        return start("broker", "-n", namesrv, *words)

    try:
        start("namesrv", "--set", "bindAddress=127.0.0.1", "--set", f"listenPort={NAMESRV}")
        keys = {
            "bindAddress": "127.0.0.1",
            "listenPort": str(CONTROLLER),
            "controllerStorePath": str(folder / "controller"),
            "configStorePath": str(folder / "controller.properties"),
        }
        start("controller", *(word for key in keys for word in ("--set", f"{key}={keys[key]}")))
        addresses = [f"127.0.0.1:{BROKER + 10 * number}" for number in range(BROKERS)]
        pids = {address: broker(address) for address in addresses}
        yield System("rocketq", namesrv, controller, pids, broker)
    finally:
        for process in processes:
            process.kill()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def java_set(folder: Path) -> Iterator[System]:
    cluster = [sys.executable, str(CLUSTER), "--dir", str(folder)]
    started = subprocess.run(
        [*cluster, "start", "controller", "--replicas", str(BROKERS)],
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads(started.stdout.splitlines()[-1])
    names = {f"127.0.0.1:{JAVA_BROKER + 10 * n}": f"broker-{n}" for n in range(BROKERS)}

    def again(address: str) -> int:
        done = subprocess.run(
            [*cluster, "again", names[address]], capture_output=True, text=True, check=True
        )
        return int(done.stdout.split()[-1])

    try:
        yield System(
            "rocketmq-5.5.0",
            f"127.0.0.1:{JAVA_NAMESRV}",
            f"127.0.0.1:{JAVA_CONTROLLER}",
            {address: facts["pids"][name] for address, name in names.items()},
            again,
        )
    finally:
        subprocess.run([*cluster, "stop"], capture_output=True, check=False)


class Producer:
    """Begins a send every 10 ms, whether or not those before were answered."""

    def __init__(self, system: System) -> None:
        self.acknowledged: list[tuple[float, float, str]] = []
        """When each began, when its answer came, and who gave it."""
        self.old_master: str | None = None
        """Is sent to as well."""
        self._system = system
        self._client = RemotingClient()
        self._master: str | None = None
        self._sends: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Producer":
        self._tasks = [asyncio.create_task(self._ask()), asyncio.create_task(self._begin())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (*self._tasks, *self._sends):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._sends, return_exceptions=True)
        await self._client.close()

    async def _ask(self) -> None:
        while True:
            request = Command.request(GetRouteInfo(topic="TBW102"))
            try:
                reply = await self._client.call(self._system.namesrv, request, 1.0)
                if reply.code == ResponseCode.SUCCESS:
                    route = TopicRouteData.decode(reply.body)
                    self._master = route.broker_datas[0].broker_addrs.get(0, self._master)
            except RemotingError:
                pass
            await asyncio.sleep(0.02)

    async def _begin(self) -> None:
        while True:
            for master in filter(None, {self._master, self.old_master}):
                task = asyncio.create_task(self._send(master))
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)
            await asyncio.sleep(0.01)

    async def _send(self, master: str) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        header = SendMessageV2(
            producer_group="failover",
            topic=TOPIC,
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
        try:
            reply = await self._client.call(master, Command.request(header, b"." * 100), 3.0)
        except RemotingError:
            return
        if reply.code == ResponseCode.SUCCESS:
            self.acknowledged.append((began, loop.time(), master))

    async def first_after(self, moment: float) -> float:
        """When the first send was answered that began after a moment."""
        while True:
            answers = [answered for began, answered, _ in self.acknowledged if began > moment]
            if answers:
                return min(answers)
            await asyncio.sleep(0.005)


async def in_sync(client: RemotingClient, system: System) -> tuple[int, str]:
    """How many the controller says are in sync, and the master's address."""
    request = Command.request(
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, encode_broker_names(["broker-a"])
    )
    try:
        reply = await client.call(system.controller, request, 3.0)
    except RemotingError:
        return 0, ""
    sets = BrokerReplicasInfo.decode(reply.body).replicas_info_table if reply.code == 0 else {}
    info = sets.get("broker-a")
    return (len(info.in_sync_replicas), info.master_address or "") if info else (0, "")


async def measure(system: System, fault: str, rounds: int) -> tuple[list[float], int]:
    """The times without a master, and how often an old one acknowledged beside the next."""
    loop = asyncio.get_running_loop()
    client = RemotingClient()
    times = []
    late = 0
    async with Producer(system) as producer:
        await producer.first_after(loop.time())
        for _ in range(rounds):
            count, master = await in_sync(client, system)
            while count < BROKERS:
                await asyncio.sleep(0.2)
                count, master = await in_sync(client, system)
            await asyncio.sleep(1)
            moment = loop.time()
            os.kill(system.pids[master], signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
            producer.old_master = master if fault == "frozen" else None
            began = await producer.first_after(moment)
            times.append(began - moment)
            if fault == "killed":
                system.pids[master] = await asyncio.to_thread(system.again, master)
            else:
                os.kill(system.pids[master], signal.SIGCONT)
                await asyncio.sleep(5)  # longer than any send waits
            late += sum(a > began and by == master for _, a, by in producer.acknowledged)
            producer.old_master = None
            producer.acknowledged.clear()
    await client.close()
    return times, late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--without-java", action="store_true")
    parser.add_argument("--only", choices=["killed", "frozen"])
    options = parser.parse_args()
    for make in (rocketq_set, java_set)[: 1 if options.without_java else 2]:
        for fault in ("killed", "frozen"):
            if options.only not in (None, fault):
                continue
            with tempfile.TemporaryDirectory() as folder, make(Path(folder) / "set") as system:
                times, late = asyncio.run(measure(system, fault, options.rounds))
                times.sort()
                line = {
                    "system": system.name,
                    "fault": fault,
                    "rounds": len(times),
                    "p50_s": round(statistics.median(times), 3),
                    "max_s": round(times[-1], 3),
                    "late": late,
                }
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
