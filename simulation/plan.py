"""What one run consists of, all of it made from the seed before the run begins.

A plan is a value: what is in it can be read before it happens, and parts of it can be left out
to find out which of them matter (shrinking.py).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final


class Shape(Enum):
    """What the cluster is made of, and what it promises."""

    SYNC_FLUSH = "one broker, SYNC_FLUSH: nothing acknowledged is ever lost"
    ASYNC_FLUSH = "one broker, ASYNC_FLUSH: a loss of power may take the last seconds"
    PAIR = "SYNC_MASTER and SLAVE, SYNC_FLUSH, inSyncReplicas=2: either of them holds everything"
    ELECTED = "three brokers, SYNC_FLUSH, allAckInSyncStateSet, three controllers with etcd"


class FaultKind(Enum):
    """What may go wrong."""

    KILL = "kill"
    POWER = "power"
    STOP = "stop"
    CUT = "cut"
    CUT_ONE_WAY = "cut one way"
    RESET = "reset"
    HALF_OPEN = "half-open"
    SLOW_NETWORK = "slow network"
    SLOW_DISK = "slow disk"
    FULL_DISK = "full disk"
    FAILED_SYNC = "failed sync"
    FLIPPED_BIT = "flipped bit"
    CLOCK_STEP = "clock step"
    KILL_NAMESRV = "kill namesrv"
    RESTART = "restart"
    KILL_CLIENT = "kill client"
    KILL_CONTROLLER = "kill controller"
    STOP_CONTROLLER = "stop controller"
    KILL_ETCD = "kill etcd"
    STOP_ETCD = "stop etcd"
    SLOW_ETCD = "slow etcd"
    COMPACT_ETCD = "compact etcd"


_ELECTED_ONLY: Final = frozenset(
    {
        FaultKind.KILL_CONTROLLER,
        FaultKind.STOP_CONTROLLER,
        FaultKind.KILL_ETCD,
        FaultKind.STOP_ETCD,
        FaultKind.SLOW_ETCD,
        FaultKind.COMPACT_ETCD,
    }
)
# What one broker alone cannot promise anything about: a bit that flips where only it has a copy.
_ALONE_ONLY: Final = frozenset({FaultKind.FLIPPED_BIT})
_LINKS: Final = frozenset(
    {FaultKind.CUT, FaultKind.CUT_ONE_WAY, FaultKind.RESET, FaultKind.HALF_OPEN}
)
_SKEWS_MS: Final = (0, 0, 40, -700, 90_000)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens at a moment and lasts for a while."""

    at_s: float
    kind: FaultKind
    target: str
    other: str
    lasts_s: float
    amount: int = 0

    def __str__(self) -> str:
        what = f"{self.kind.value:<13} {self.target} {self.other}"
        return f"{self.at_s:9.3f} {what} {self.lasts_s:.3f} s"


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    seed: int
    shape: Shape
    seconds: float
    namesrvs: int
    producers: int
    transactors: int
    consumers: int
    poppers: int
    queues: int
    pause_s: float
    """How long a producer waits between two messages, on the average."""
    skews_ms: tuple[int, ...]
    """How far the clocks of hosts are off from the beginning, one after the other."""
    faults: tuple[Fault, ...]

    @property
    def namesrv_names(self) -> list[str]:
        return _numbered("namesrv", self.namesrvs)

    @property
    def broker_names(self) -> list[str]:
        if self.shape is Shape.PAIR:
            return ["broker-a", "broker-a-slave"]
        if self.shape is Shape.ELECTED:
            return _numbered("broker-a", 3)
        return ["broker-a"]

    @property
    def controller_names(self) -> list[str]:
        return _numbered("controller", 3) if self.shape is Shape.ELECTED else []

    @property
    def etcd_names(self) -> list[str]:
        return _numbered("etcd", 3) if self.shape is Shape.ELECTED else []

    @property
    def client_names(self) -> list[str]:
        return [
            *_numbered("producer", self.producers),
            *_numbered("transactor", self.transactors),
            *_numbered("consumer", self.consumers),
            *_numbered("popper", self.poppers),
        ]


def make_plan(seed: int, seconds: float, shape: Shape | None = None) -> Plan:
    """The plan of a seed."""
    chance = random.Random(f"plan {seed}")
    chosen = chance.choice(list(Shape))
    plan = Plan(
        seed=seed,
        shape=shape or chosen,
        seconds=seconds,
        namesrvs=chance.randint(1, 3),
        producers=chance.randint(1, 3),
        transactors=chance.randint(0, 2),
        consumers=chance.randint(1, 3),
        poppers=chance.randint(0, 2),
        queues=chance.choice((1, 2, 4)),
        pause_s=chance.choice((0.03, 0.1, 0.3)),
        skews_ms=tuple(chance.choice(_SKEWS_MS) for _ in range(16)),
        faults=(),
    )
    return with_faults(plan, _faults(chance, plan))


def with_faults(plan: Plan, faults: Sequence[Fault]) -> Plan:
    """The same run with other faults."""
    return replace(plan, faults=tuple(faults))


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


def _faults(chance: random.Random, plan: Plan) -> list[Fault]:
    possible = [
        kind
        for kind in FaultKind
        if (plan.shape is Shape.ELECTED or kind not in _ELECTED_ONLY)
        and (len(plan.broker_names) == 1 or kind not in _ALONE_ONLY)
    ]
    every_s = chance.choice((1.0, 4.0, 15.0))
    kinds = chance.sample(possible, chance.randint(2, len(possible)))
    faults = []
    at_s = chance.expovariate(1 / every_s)
    while at_s < plan.seconds:
        kind = chance.choice(kinds)
        target, other = _target(chance, plan, kind), ""
        if kind in _LINKS:
            other = chance.choice(
                [
                    *plan.client_names,
                    *plan.namesrv_names,
                    *plan.controller_names,
                    *(name for name in plan.broker_names if name != target),
                ]
            )
            if plan.shape is Shape.ELECTED and chance.random() < 0.3:
                target = chance.choice(plan.etcd_names)
                other = chance.choice(
                    [
                        *plan.controller_names,
                        *(name for name in plan.etcd_names if name != target),
                    ]
                )
            if kind is FaultKind.CUT_ONE_WAY and chance.random() < 0.5:
                target, other = other, target
        lasts_s = chance.choice((0.05, 0.5, 3.0, 20.0)) * chance.uniform(0.5, 1.5)
        amount = chance.choice((-600_000, -2_000, -50, 50, 2_000, 600_000))
        faults.append(Fault(at_s, kind, target, other, lasts_s, amount))
        at_s += chance.expovariate(1 / every_s)
    return faults


def _target(chance: random.Random, plan: Plan, kind: FaultKind) -> str:
    if kind is FaultKind.KILL_CLIENT:
        return chance.choice(plan.client_names)
    if kind is FaultKind.KILL_NAMESRV:
        return chance.choice(plan.namesrv_names)
    if kind in (FaultKind.KILL_CONTROLLER, FaultKind.STOP_CONTROLLER):
        return chance.choice(plan.controller_names)
    if kind in _ELECTED_ONLY:
        return chance.choice(plan.etcd_names)
    if kind is FaultKind.CLOCK_STEP and plan.controller_names and chance.random() < 0.3:
        return chance.choice(plan.controller_names)
    return chance.choice(plan.broker_names)
