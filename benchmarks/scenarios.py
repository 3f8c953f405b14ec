"""The loads of the comparison: what the official Java client does, and what is to be reached."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """What a scenario must reach, as ratios rocketq / Java."""

    tps: float | None = None
    cpu: float | None = None
    p50: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One load: the arguments of Load.java, and what to reach."""

    name: str
    title: str
    arguments: str
    goal: Goal
    settings: tuple[str, ...] = ()
    needs_backlog: bool = False


BACKLOG = "produce --mode batch --threads 4 --batch 32 --size 128 --warmup 0 --topic backlog"
LONG_LOG = "produce --mode batch --threads 4 --batch 32 --size 4096 --warmup 0 --topic long"


def timed(quick: bool) -> str:
    return "--warmup 3 --seconds 4" if quick else "--warmup 5 --seconds 6"


def scenarios(quick: bool) -> list[Scenario]:
    for_a_while = timed(quick)
    backlog = 200_000 if quick else 1_000_000
    produce = "produce --size 128 --mode"
    return [
        Scenario(
            "sync-64",
            "sync, 64 threads",
            f"{produce} sync --threads 64 {for_a_while}",
            Goal(tps=4, cpu=1 / 7, p50=1 / 4, p99=1 / 4),
        ),
        Scenario(
            "async-4000",
            "async, 4,000 in flight",
            f"{produce} async --threads 1 --inflight 4000 {for_a_while}",
            Goal(tps=5, cpu=1 / 9),
        ),
        Scenario(
            "sync-1",
            "sync, 1 thread",
            f"{produce} sync --threads 1 {for_a_while}",
            Goal(tps=2, cpu=1 / 5),
        ),
        Scenario(
            "batch-32",
            "batch of 32, 4 threads",
            f"{produce} batch --threads 4 --batch 32 {for_a_while}",
            Goal(tps=2, cpu=1 / 6),
        ),
        Scenario(
            "push",
            f"push consume, {backlog:,} backlog",
            f"consume --count {backlog} --topic backlog",
            Goal(tps=1.3, cpu=1 / 4),
            needs_backlog=True,
        ),
        Scenario(
            "lite-pull",
            f"lite pull, {backlog:,} backlog",
            f"pull --count {backlog} --topic backlog",
            Goal(tps=1.3, cpu=1 / 4),
            needs_backlog=True,
        ),
        Scenario(
            "paced-2000",
            "paced 2,000 msgs/s",
            f"latency --rate 2000 {for_a_while}",
            Goal(cpu=1 / 7, p50=0.6, p99=1 / 5),
        ),
        Scenario(
            "paced-consumed",
            "paced 2,000 msgs/s, with a consumer",
            f"latency --rate 2000 --e2e {for_a_while}",
            Goal(),
        ),
        Scenario(
            "async-1k",
            "async 1 KB, 1,000 in flight",
            f"produce --mode async --threads 1 --inflight 1000 --size 1024 {for_a_while}",
            Goal(tps=5),
        ),
        Scenario(
            "sync-64-flush",
            "sync, 64 threads, SYNC_FLUSH",
            f"{produce} sync --threads 64 {for_a_while}",
            Goal(tps=3, cpu=1 / 5),
            settings=("flushDiskType=SYNC_FLUSH",),
        ),
    ]
