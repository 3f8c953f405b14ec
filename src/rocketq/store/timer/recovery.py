"""Bringing log and wheel in step again after a stop of any kind.

The log is made durable before the wheel, and the wheel before the checkpoint that says so.
Replaying the log from one file before the checkpoint puts back what the wheel may lack; units
that a crash took are placed again by whoever reads the timer topic's queue.
"""

import sys
from collections.abc import Callable

from rocketq.store.timer.timer_log import UNIT_SIZE, TimerLog, TimerUnit
from rocketq.store.timer.wheel import Slot, TimerWheel


def replay(
    log: TimerLog,
    wheel: TimerWheel,
    flushed: int,
    read_ms: int,
    is_whole: Callable[[TimerUnit], bool],
    placed_since: int = sys.maxsize,
) -> tuple[TimerUnit | None, int]:
    """Cut the log behind its last valid unit and set the wheel by it.

    Returns that unit, and from which slot on delivering goes on: from `read_ms`, or before it
    where the clock was set back and units were placed there since that was written.

    Behind `flushed` a crash may have torn a unit so that it still looks like one; `is_whole`
    says whether there is such a message in the commit log. Slots before `read_ms` have been
    delivered: what the log says of them before `placed_since` no longer counts.
    """
    start = max(log.start, log.file_start(max(flushed - log.file_size, 0)))
    chains, end, last_unit = _chains(log, start, read_ms, flushed, is_whole, placed_since)
    log.truncate(end)
    # Another program may have written the wheel ahead of its log. The chains of such slots are
    # found again from where they begin.
    beyond = wheel.beyond(end)
    starts = [slot.first for slot in beyond.values() if log.start <= slot.first < start]
    if starts:
        first = log.file_start(min(starts))
        older, _, _ = _chains(log, first, read_ms, flushed, is_whole, placed_since)
        chains = {slot_ms: older[slot_ms] for slot_ms in beyond if slot_ms in older} | chains
    for slot_ms in beyond:
        wheel.clear(slot_ms)
    for slot_ms, chain in chains.items():
        known = wheel.get(slot_ms)
        if known is not None and known.first < chain.first:
            chain = Slot(known.first, chain.last, max(known.waiting, chain.waiting))
        wheel.put(slot_ms, chain)
    return last_unit, min([read_ms, *chains])


def _chains(
    log: TimerLog,
    start: int,
    read_ms: int,
    flushed: int,
    is_whole: Callable[[TimerUnit], bool],
    placed_since: int,
) -> tuple[dict[int, Slot], int, TimerUnit | None]:
    """The slots that the log's units make, where the log ends, and its last unit."""
    chains: dict[int, Slot] = {}
    end, last_unit = start, None
    for position, unit in log.units(start):
        if position >= flushed and not is_whole(unit):
            break
        end, last_unit = position + UNIT_SIZE, unit
        if unit.slot_ms >= read_ms or position >= placed_since:
            chain = chains.get(unit.slot_ms)
            first, count = (position, 0) if chain is None else (chain.first, chain.waiting)
            chains[unit.slot_ms] = Slot(first, position, count + 1)
    return chains, end, last_unit
