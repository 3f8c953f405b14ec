"""An etcd of several nodes, at the interface of the controllers' own client.

What etcd itself promises is taken for granted: what a majority has taken is never lost, and all
nodes see one order of changes. What it does not promise happens here:

    a node is dead, frozen, or cannot be reached    the client asks the next one
    the leading node is lost                        nobody is answered until another one leads
    less than a majority is left                    nobody is answered
    an answer is lost                               what was asked is done, and nobody knows
    a lease is not renewed                          its keys are gone, but never before its time
    old changes are forgotten (compaction)          a watch has to read everything anew
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

from rocketq.controller.etcd import schema
from rocketq.controller.etcd.client import (
    Change,
    EtcdAccess,
    EtcdClient,
    Outcome,
    Pair,
    Snapshot,
)
from rocketq.controller.etcd.errors import EtcdUnavailable, HistoryGone
from simulation.network import NOBODY, Network
from simulation.process import Host, Process, current

T = TypeVar("T")

_ATTEMPT_S: Final = 1.0
_PAUSE_S: Final = 0.1
_LOOK_S: Final = 1.0
"""How late a watch notices that its node is gone."""


class SimulatedEtcd:
    """The nodes together, and what they hold."""

    def __init__(self, network: Network, chance: random.Random, nodes: Sequence[Host]) -> None:
        self.nodes = list(nodes)
        self.programs: dict[Host, Process] = {}
        """What runs on each node; without it the node is dead."""
        self.slow_s = 0.0
        """What every request takes more than usual."""
        self.elections = 0
        self.expired = 0
        self._network = network
        self._loop = network.loop
        self._chance = chance
        self._leader = 0
        self._leads_from = 0.0
        self._revision = 1
        self._compacted = 0
        self._pairs: dict[bytes, Pair] = {}
        self._changes: list[Change] = []
        self._next_lease = 1_000
        self._leases: dict[int, tuple[int, float]] = {}  # how long, and until when
        self._watchers: list[asyncio.Future[None]] = []

    # Nodes

    def is_serving(self, node: Host) -> bool:
        """Whether a node can answer: it hears the leading one, which a majority hears."""
        return self._is_up(node) and self._has_leader() and self._hear(node, self.leader)

    @property
    def leader(self) -> Host:
        return self.nodes[self._leader]

    def _has_leader(self) -> bool:
        now = self._loop.time()
        if not self._can_lead(self.leader):
            for number, node in enumerate(self.nodes):
                if self._can_lead(node):
                    self.elections += 1
                    self._leader = number
                    self._leads_from = now + self._chance.uniform(0.5, 2.0)
                    # A new leader gives every lease its whole time once more.
                    self._leases = {
                        lease: (ttl, max(until, self._leads_from + ttl))
                        for lease, (ttl, until) in self._leases.items()
                    }
                    break
            else:
                return False
        return now >= self._leads_from

    def _can_lead(self, node: Host) -> bool:
        heard = sum(self._is_up(other) and self._hear(node, other) for other in self.nodes)
        return self._is_up(node) and heard > len(self.nodes) // 2

    def _is_up(self, node: Host) -> bool:
        program = self.programs.get(node)
        return (
            node.has_power and program is not None and program.is_alive and not program.is_stopped
        )

    def _hear(self, one: Host, other: Host) -> bool:
        return one is other or (
            self._network.is_open(one.address, other.address)
            and self._network.is_open(other.address, one.address)
        )

    # Keys

    def read(self, key: bytes) -> Snapshot:
        pair = self._pairs.get(key)
        return Snapshot(self._revision, [] if pair is None else [pair])

    def read_prefix(self, prefix: bytes) -> Snapshot:
        found = [self._pairs[key] for key in sorted(self._pairs) if key.startswith(prefix)]
        return Snapshot(self._revision, found)

    def transact(
        self,
        conditions: Sequence[Any],
        puts: Sequence[tuple[bytes, bytes, int]],
        deletes: Sequence[bytes] = (),
    ) -> Outcome:
        """Change keys if all conditions hold; else say what the compared ones are."""
        if not all(self._holds(condition) for condition in conditions):
            keys = [condition.key for condition in conditions]
            found = [self._pairs[key] for key in keys if key in self._pairs]
            return Outcome(False, self._revision, found)
        for _, _, lease in puts:
            if lease and lease not in self._leases:
                raise EtcdUnavailable("the lease is not known")
        self._revision += 1
        for key in deletes:
            self._delete(key)
        for key, value, lease in puts:
            known = self._pairs.get(key)
            made = self._revision if known is None else known.create_revision
            self._pairs[key] = Pair(key, value, made, self._revision, lease)
            self._changes.append(Change(self._pairs[key], is_deleted=False))
        self._wake()
        return Outcome(True, self._revision, [])

    def _holds(self, condition: Any) -> bool:
        pair = self._pairs.get(condition.key)
        if condition.target == schema.CREATE_REVISION:
            return bool(condition.create_revision == (pair.create_revision if pair else 0))
        return bool(condition.mod_revision == (pair.mod_revision if pair else 0))

    def _delete(self, key: bytes) -> None:
        if self._pairs.pop(key, None) is not None:
            gone = Pair(key, b"", 0, self._revision, 0)
            self._changes.append(Change(gone, is_deleted=True))

    def compact(self) -> None:
        """Forget how it came to be as it is."""
        self._compacted = self._revision
        self._changes.clear()

    # Leases

    def grant(self, ttl_s: int) -> tuple[int, int]:
        self._next_lease += 1
        self._leases[self._next_lease] = (ttl_s, self._loop.time() + ttl_s)
        self._look_at(self._next_lease)
        return self._next_lease, ttl_s

    def renew(self, lease: int) -> int:
        if lease not in self._leases:
            return 0
        ttl_s = self._leases[lease][0]
        self._leases[lease] = (ttl_s, self._loop.time() + ttl_s)
        return ttl_s

    def revoke(self, lease: int) -> None:
        if self._leases.pop(lease, None) is not None:
            self._revision += 1
            for key in [key for key, pair in self._pairs.items() if pair.lease == lease]:
                self._delete(key)
            self._wake()

    def _look_at(self, lease: int) -> None:
        if lease not in self._leases:
            return
        left_s = self._leases[lease][1] - self._loop.time()
        if left_s <= 0 and self._has_leader():
            self.expired += 1
            self.revoke(lease)
            return
        self._loop.call_later(max(left_s, 0.1), self._look_at, lease, context=NOBODY)

    # Watching

    def since(self, prefix: bytes, revision: int) -> list[Change]:
        if revision <= self._compacted:
            raise HistoryGone(f"etcd has forgotten revision {revision}")
        return [
            change
            for change in self._changes
            if change.pair.mod_revision >= revision and change.pair.key.startswith(prefix)
        ]

    async def changed(self, within_s: float) -> None:
        """Wait for the next change, or so long."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._watchers.append(future)
        await asyncio.wait([future], timeout=within_s)

    def _wake(self) -> None:
        watchers, self._watchers = self._watchers, []
        for future in watchers:
            if not future.done():
                future.set_result(None)

    def delay(self, source: str, goal: str) -> float:
        # A decision is written to the disks of a majority before it is answered.
        return self._network.delay(source, goal) + self._chance.expovariate(500) + self.slow_s


class SimulatedEtcdClient(EtcdClient):
    """One controller's way to etcd."""

    def __init__(self, etcd: SimulatedEtcd, access: EtcdAccess) -> None:
        super().__init__(access)
        process = current.get()
        assert process is not None
        self._etcd = etcd
        self._network = etcd._network
        self._source = process.host.address
        self._node = 0

    async def close(self) -> None:
        pass

    async def read(self, key: bytes, timeout_s: float) -> Snapshot:
        return await self._ask(lambda: self._etcd.read(key), timeout_s)

    async def read_prefix(self, prefix: bytes, timeout_s: float) -> Snapshot:
        return await self._ask(lambda: self._etcd.read_prefix(prefix), timeout_s)

    async def put_if(
        self,
        conditions: Sequence[Any],
        key: bytes,
        value: bytes,
        *,
        lease: int = 0,
        timeout_s: float,
    ) -> Outcome:
        puts = [(key, value, lease)]
        return await self._ask(lambda: self._etcd.transact(conditions, puts), timeout_s)

    async def delete_if(
        self, conditions: Sequence[Any], key: bytes, *, note: tuple[bytes, bytes], timeout_s: float
    ) -> Outcome:
        puts = [(*note, 0)]
        return await self._ask(lambda: self._etcd.transact(conditions, puts, [key]), timeout_s)

    async def grant_lease(self, ttl_s: int, timeout_s: float) -> tuple[int, int]:
        return await self._ask(lambda: self._etcd.grant(ttl_s), timeout_s)

    async def renew_lease(self, lease: int, timeout_s: float) -> int:
        return await self._ask(lambda: self._etcd.renew(lease), timeout_s)

    async def revoke_lease(self, lease: int, timeout_s: float) -> None:
        await self._ask(lambda: self._etcd.revoke(lease), timeout_s)

    async def watch(self, prefix: bytes, revision: int) -> AsyncIterator[list[Change]]:
        while True:
            node = self._here
            await asyncio.sleep(self._way(node) + self._way(node))
            if self._reaches(node) and self._etcd.is_serving(node):
                yield []
            while self._reaches(node) and self._etcd.is_serving(node):
                batch = self._etcd.since(prefix, revision)
                if not batch:
                    await self._etcd.changed(_LOOK_S)
                    continue
                await asyncio.sleep(self._way(node))
                if self._reaches(node):
                    revision = max(change.pair.mod_revision for change in batch) + 1
                    yield batch
            self._move_on_from(node)
            await asyncio.sleep(_PAUSE_S)

    @property
    def _here(self) -> Host:
        return self._etcd.nodes[self._node]

    def _move_on_from(self, node: Host) -> None:
        if node is self._here:
            self._node = (self._node + 1) % len(self._etcd.nodes)

    def _reaches(self, node: Host) -> bool:
        return (
            node.has_power
            and self._network.is_open(self._source, node.address)
            and self._network.is_open(node.address, self._source)
        )

    def _way(self, node: Host) -> float:
        return self._etcd.delay(self._source, node.address)

    async def _ask(self, do: Callable[[], T], timeout_s: float) -> T:
        """Have something done by some node. Whose answer is lost is not known to be done."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            node = self._here
            within_s = min(_ATTEMPT_S, max(deadline - loop.time(), 0.01))
            began = loop.time()
            there_s = self._way(node)
            if there_s < within_s:
                await asyncio.sleep(there_s)
                if self._network.is_open(self._source, node.address) and self._etcd.is_serving(
                    node
                ):
                    answer = do()
                    back_s = self._way(node)
                    if there_s + back_s < within_s:
                        await asyncio.sleep(back_s)
                        if self._reaches(node):
                            return answer
            await asyncio.sleep(max(began + within_s - loop.time(), 0))
            self._move_on_from(node)
            if loop.time() + _PAUSE_S >= deadline:
                raise EtcdUnavailable(f"etcd did not answer in {timeout_s:g} s")
            await asyncio.sleep(_PAUSE_S)
