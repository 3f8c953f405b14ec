"""The least that still goes wrong: a plan with everything left out that does not matter.

A plan is run again and again with less in it, and what still fails is kept: first half of the
faults at a time, then fewer, then single ones; then clients, NameServers and time. Each run is
a replay by the same seed, so the end is a plan that anybody can run.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from simulation.plan import Plan, with_faults

Fails = Callable[[Plan], bool]


def shrunk(plan: Plan, fails: Fails, most_runs: int = 60) -> Plan:
    """The smallest plan found that fails, with so many runs at the most."""
    left = most_runs
    size = max(len(plan.faults) // 2, 1)
    while left > 0:
        smaller = None
        for candidate in (*_without_faults(plan, size), *_with_less(plan)):
            left -= 1
            if fails(candidate):
                smaller = candidate
                break
            if left <= 0:
                break
        if smaller is not None:
            plan = smaller
            size = min(size, max(len(plan.faults) // 2, 1))
        elif size > 1:
            size //= 2
        else:
            break
    return plan


def _without_faults(plan: Plan, size: int) -> Iterator[Plan]:
    for start in range(0, len(plan.faults), size):
        yield with_faults(plan, (*plan.faults[:start], *plan.faults[start + size :]))


def _with_less(plan: Plan) -> Iterator[Plan]:
    """Everything else that may be less by a step."""
    last_s = max((fault.at_s for fault in plan.faults), default=0.0)
    if plan.seconds > last_s + 1:
        yield replace(plan, seconds=max(last_s + 0.5, plan.seconds / 2))
    for fewer in (
        replace(plan, poppers=0),
        replace(plan, transactors=0),
        replace(plan, producers=1),
        replace(plan, consumers=1),
        replace(plan, namesrvs=1),
    ):
        names = {*fewer.client_names, *fewer.namesrv_names, *_servers(fewer), ""}
        if fewer != plan and all({each.target, each.other} <= names for each in plan.faults):
            yield fewer
    if any(plan.skews_ms):
        yield replace(plan, skews_ms=())


def _servers(plan: Plan) -> list[str]:
    return [*plan.broker_names, *plan.controller_names, *plan.etcd_names]
