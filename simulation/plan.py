"""What one run consists of, all of it made from the seed before the run begins.

A plan is a value: what is in it can be read before it happens.
"""

import random
from dataclasses import dataclass
from enum import Enum


class Shape(Enum):
    """What the cluster is made of, and what it promises."""

    SYNC_FLUSH = "one broker, SYNC_FLUSH: nothing acknowledged is ever lost"
    ASYNC_FLUSH = "one broker, ASYNC_FLUSH: a loss of power may take the last seconds"
    PAIR = "SYNC_MASTER and SLAVE, SYNC_FLUSH, inSyncReplicas=2: either of them holds everything"


class FaultKind(Enum):
    """What may go wrong."""

    KILL = "kill"
    POWER = "power"
    STOP = "stop"
    CUT = "cut"
    CUT_ONE_WAY = "cut one way"
    RESET = "reset"
    SLOW_NETWORK = "slow network"
    SLOW_DISK = "slow disk"
    FULL_DISK = "full disk"
    CLOCK_STEP = "clock step"
    KILL_NAMESRV = "kill namesrv"
    RESTART = "restart"
    KILL_CLIENT = "kill client"


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
    producers: int
    consumers: int
    pause_s: float
    """How long a producer waits between two messages, on the average."""
    faults: tuple[Fault, ...]


def make_plan(seed: int, seconds: float, shape: Shape | None = None) -> Plan:
    """The plan of a seed."""
    chance = random.Random(f"plan {seed}")
    if shape is None:
        shape = chance.choice(list(Shape))
    producers = chance.randint(1, 4)
    consumers = chance.randint(1, 3)
    return Plan(
        seed=seed,
        shape=shape,
        seconds=seconds,
        producers=producers,
        consumers=consumers,
        pause_s=chance.choice((0.02, 0.1, 0.3)),
        faults=_faults(chance, shape, seconds, producers, consumers),
    )


def _faults(
    chance: random.Random, shape: Shape, seconds: float, producers: int, consumers: int
) -> tuple[Fault, ...]:
    brokers = ["broker-a", "broker-a-slave"] if shape is Shape.PAIR else ["broker-a"]
    clients = [f"producer-{n}" for n in range(producers)] + [
        f"consumer-{n}" for n in range(consumers)
    ]
    every_s = chance.choice((1.0, 4.0, 15.0))
    kinds = chance.sample(list(FaultKind), chance.randint(2, len(FaultKind)))
    faults = []
    at_s = chance.expovariate(1 / every_s)
    while at_s < seconds:
        kind = chance.choice(kinds)
        target = chance.choice(brokers)
        other = ""
        if kind is FaultKind.KILL_CLIENT:
            target = chance.choice(clients)
        elif kind is FaultKind.KILL_NAMESRV:
            target = "namesrv"
        elif kind in (FaultKind.CUT, FaultKind.CUT_ONE_WAY, FaultKind.RESET):
            other = chance.choice([*clients, "namesrv", *(set(brokers) - {target})])
            if kind is FaultKind.CUT_ONE_WAY and chance.random() < 0.5:
                target, other = other, target
        lasts_s = chance.choice((0.05, 0.5, 3.0, 20.0)) * chance.uniform(0.5, 1.5)
        amount = chance.choice((-600_000, -2_000, -50, 50, 2_000, 600_000))
        faults.append(Fault(at_s, kind, target, other, lasts_s, amount))
        at_s += chance.expovariate(1 / every_s)
    return tuple(faults)
