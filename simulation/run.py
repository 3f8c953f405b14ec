"""One plan from beginning to end."""

import asyncio
import hashlib
import random
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from rocketq.aio import PullConsumer
from rocketq.client.consumer.pull_result import PullStatus
from rocketq.common.errors import RocketqError
from rocketq.message.names import dlq_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Command, RemotingClient, RequestCode, check
from rocketq.remoting.bodies.route import KVTable
from simulation.checks import broken_promises, is_all_done
from simulation.cluster import Cluster
from simulation.faults import Faults
from simulation.history import History, Incident
from simulation.loop import SimulatedLoop
from simulation.plan import Plan, Shape
from simulation.process import Process
from simulation.workload import GROUP, ORDERS, TOPICS, Workload

T = TypeVar("T")

_CALM_S: Final = 400.0
"""How long a healed cluster may take until everything is delivered, beside what clocks that were
set back make timed messages wait."""


_BEHIND: Final = 16 * 1024
"""How much a slave may lack when everything has come to rest: the master still writes a little."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run has shown."""

    plan: Plan
    findings: list[str]
    digest: str
    """The same for equal histories."""
    sends: int
    acknowledged: int
    deliveries: int
    simulated_s: float
    real_s: float
    steps: int
    counts: dict[str, int]
    """What went wrong, and how often."""
    history: History


def run(plan: Plan) -> Outcome:
    """Run a plan and check its history."""
    began = time.perf_counter()
    chance = random.Random(f"run {plan.seed}")
    with _folder() as folder, _decided_by(chance):
        loop = SimulatedLoop(chance)
        cluster = Cluster(loop, chance, folder, plan)
        simulation = _Run(plan, cluster)
        asyncio.set_event_loop(loop)
        loop.run_until_complete(simulation.main())
        history = cluster.history
        findings = simulation.findings + broken_promises(history, plan.shape)
        return Outcome(
            plan=plan,
            findings=findings,
            digest=_digest(history, loop.steps),
            sends=len(history.sends),
            acknowledged=sum(send.is_acknowledged for send in history.sends.values()),
            deliveries=len(history.deliveries),
            simulated_s=loop.time(),
            real_s=time.perf_counter() - began,
            steps=loop.steps,
            counts=cluster.counts | {"messages stored twice": _doubled(history)},
            history=history,
        )


class _Run:
    def __init__(self, plan: Plan, cluster: Cluster) -> None:
        self.findings: list[str] = []
        self._plan = plan
        self._cluster = cluster
        self._workload = Workload(cluster, plan)

    async def main(self) -> None:
        cluster, plan, workload = self._cluster, self._plan, self._workload
        cluster.history.has_poppers = plan.poppers > 0
        cluster.add_servers()
        for number, name in enumerate(plan.client_names):
            kind = name.partition("-")[0]
            main = {
                "producer": workload.produce,
                "transactor": workload.transact,
                "consumer": workload.consume,
                "popper": workload.pop,
            }[kind]
            cluster.add(name, f"10.0.2.{number + 1}", main)
        cluster.add("observer", "10.0.3.2", workload.observe)
        for name in cluster.names:
            cluster.start(name)
        cluster.add("reader", "10.0.3.1", self._read)
        faults = asyncio.ensure_future(Faults(cluster).run(plan.faults))
        await asyncio.sleep(plan.seconds)
        workload.is_over = True
        await faults
        await self._calm_down()

    async def _calm_down(self) -> None:
        """Let everybody finish, with nothing in the way any more."""
        cluster = self._cluster
        cluster.kill("observer")
        for name in cluster.names:
            process = None if name == "reader" else cluster.program(name)
            if process is not None and process.is_alive and process.error is not None:
                cluster.note(Incident(cluster.loop.time(), f"{name} ended: {process.error!r}"))
                if not name.startswith("producer"):
                    self._check_end(name, process)
                    cluster.kill(name)
                    cluster.start_again(name)
        clocks_s = sum(incident.clock_ms for incident in cluster.history.incidents) / 1000
        deadline = cluster.loop.time() + _CALM_S + clocks_s + cluster.history.skew_s
        while True:
            await asyncio.sleep(20)
            cluster.history.final.clear()
            cluster.start("reader")
            await cluster.ready("reader")
            cluster.kill("reader")
            if is_all_done(cluster.history, self._plan.shape) or cluster.loop.time() > deadline:
                break
        if len(self._plan.broker_names) > 1:
            self._compare_logs()

    def _check_end(self, name: str, process: Process) -> None:
        """A broker may give up when its disk fails; nothing else may end by itself."""
        if not isinstance(process.error, OSError):
            self.findings.append(f"{name} ended by itself: {process.error!r}")

    async def _read(self, process: Process) -> None:
        """Read every queue from its beginning to its end."""
        history = self._cluster.history
        async with PullConsumer(
            "reading",
            namesrv=self._cluster.namesrv,
            instance_name="reader",
            client_ip=process.host.address,
        ) as consumer:
            for topic in TOPICS:
                for queue in await _queues(consumer, topic):
                    history.final[queue] = await _content(consumer, queue)
            history.dead_letters = [
                key
                for queue in await _queues(consumer, dlq_topic(GROUP))
                for _, key in await _content(consumer, queue)
            ]
        if self._plan.shape is Shape.PAIR:
            slave = self._cluster.host("broker-a-slave").address
            history.slave_fault = await _fault_of(f"{slave}:10911")
        self._cluster.is_usable("reader")

    def _compare_logs(self) -> None:
        cluster, names = self._cluster, self._plan.broker_names
        logs = {name: cluster.log(name).rstrip(b"\0") for name in names}
        master = names[0]
        if self._plan.shape is Shape.ELECTED:
            reigns = {name: cluster.epochs(name) for name in names}
            master = max(names, key=lambda name: (reigns[name][-1:], len(logs[name])))
            cluster.history.epochs = reigns[master]
        end = len(logs[master])
        cluster.history.logs_differ = [
            name
            for name in names
            if not logs[master].startswith(logs[name]) or len(logs[name]) < end - _BEHIND
        ]


async def _queues(consumer: PullConsumer, topic: str) -> list[MessageQueue]:
    """The queues of a topic; none where it was never made."""
    for _ in range(200 if topic == ORDERS else 3):
        try:
            return sorted(await consumer.message_queues(topic))
        except RocketqError:
            await asyncio.sleep(3)
    return []


async def _content(consumer: PullConsumer, queue: MessageQueue) -> list[tuple[int, str]]:
    """All messages of a queue: their offsets and keys."""
    messages: list[tuple[int, str]] = []
    offset = await _retried(lambda: consumer.min_offset(queue))
    end = await _retried(lambda: consumer.max_offset(queue))
    while offset < end:
        result = await _retried(partial(consumer.pull, queue, offset, max_messages=1000))
        if result.status is not PullStatus.FOUND:
            break
        messages += [(each.queue_offset, each.keys[0]) for each in result.messages]
        offset = result.next_offset
    return messages


async def _retried(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer: the cluster may still be coming up."""
    for _ in range(200):
        try:
            return await ask()
        except RocketqError:
            await asyncio.sleep(3)
    return await ask()


def _doubled(history: History) -> int:
    """How often a producer sent something again that was there already."""
    keys = [key for messages in history.final.values() for _, key in messages]
    return len(keys) - len(set(keys))


async def _fault_of(slave: str) -> str:
    """Why a slave does not follow its master; empty if it does."""
    client = RemotingClient()
    try:
        request = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
        reply = await _retried(lambda: client.call(slave, request, 5.0))
        return KVTable.decode(check(reply).body).table.get("replicationFault", "")
    finally:
        await client.close()


def _digest(history: History, steps: int) -> str:
    seen = (history.sends, history.decisions, history.deliveries, history.pops, history.progress)
    text = repr((steps, seen, history.final, history.dead_letters))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def _folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="simulation-", dir=memory if memory.is_dir() else None)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _decided_by(chance: random.Random) -> Iterator[None]:
    """Let everything that asks for chance get it from here."""
    made = random.Random
    random.seed(chance.random())

    class Seeded(made):  # type: ignore[misc, valid-type]
        def __init__(self, seed: object = None) -> None:
            super().__init__(chance.random() if seed is None else seed)

    random.Random = Seeded  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        random.Random = made  # type: ignore[misc]
