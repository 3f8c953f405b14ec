"""What must be true of a history, whatever happened."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from rocketq.message.queue import MessageQueue
from simulation.history import History, Kind, Progress, Send
from simulation.plan import FaultKind, Shape
from simulation.workload import INVISIBLE_S, MAX_RETRIES, ORDERS, is_poison

# With ASYNC_FLUSH the disk has everything within half a second under load, and within ten at
# the latest: flushCommitLogThoroughInterval, and the time a slow disk takes.
_UNFLUSHED_S: Final = 20.0

Check = Callable[[History, Shape], Iterator[str]]


def broken_promises(history: History, shape: Shape) -> list[str]:
    """Everything that is wrong with a history; empty for a good one."""
    return [f"{check.__name__}: {text}" for check in CHECKS for text in check(history, shape)]


def is_all_done(history: History, shape: Shape) -> bool:
    """Whether nothing is left that time alone may mend."""
    late = (
        everything_is_delivered,
        what_is_refused_comes_again,
        what_was_to_come_later_has_come,
        transactions_are_whole,
        everything_is_popped,
        what_nobody_takes_is_a_dead_letter,
    )
    return not any(text for check in late for text in check(history, shape))


def nothing_acknowledged_is_lost(history: History, shape: Shape) -> Iterator[str]:
    """Who was told SEND_OK finds the message where he was told it is."""
    content = _by_spot(history)
    for send in history.sends.values():
        if send.is_acknowledged and send.spot is not None and content.get(send.spot) != send.key:
            if shape is Shape.ASYNC_FLUSH and _may_be_lost(send, history):
                continue
            if send.key in history.damaged:
                continue
            found = content.get(send.spot, "nothing")
            yield f"{send.key} was acknowledged at {_spot(send)} at {send.ended_s:.3f}: {found}"


def _may_be_lost(send: Send, history: History) -> bool:
    return any(
        incident.lost_power
        and send.ended_s <= incident.until_s
        and incident.at_s - send.ended_s <= _UNFLUSHED_S
        for incident in history.incidents
    )


def nothing_is_invented(history: History, shape: Shape) -> Iterator[str]:
    """Every message that is there was sent by somebody."""
    for queue, messages in history.final.items():
        for offset, key in messages:
            if key not in history.sends:
                yield f"{key!r} at {queue} {offset} was never sent"
    for delivery in history.deliveries:
        if delivery.key not in history.sends:
            yield f"{delivery.key!r} was delivered and never sent"


def nothing_is_spoiled(history: History, shape: Shape) -> Iterator[str]:
    """Whoever gets a message gets it as it was sent."""
    for key in history.spoiled:
        yield f"{key} came with another body"


def offsets_are_dense(history: History, shape: Shape) -> Iterator[str]:
    """The messages of a queue are numbered without gaps.

    Where unsynced sectors were lost, what lies between two holes is kept, and the holes show.
    """
    if history.damaged or (shape is Shape.ASYNC_FLUSH and _any_power_loss(history)):
        return
    for queue, messages in history.final.items():
        for (offset, key), (following, _) in pairwise(messages):
            if following != offset + 1:
                yield f"{queue} has {following} after {offset} ({key})"


def offsets_are_given_once(history: History, shape: Shape) -> Iterator[str]:
    """No two acknowledged messages have the same place, unless the first one may be lost."""
    given: dict[object, Send] = {}
    for send in history.sends.values():
        if not send.is_acknowledged or send.spot is None:
            continue
        other = given.get(send.spot)
        if (
            other is not None
            and other.key not in history.damaged
            and not (
                shape is Shape.ASYNC_FLUSH
                and (_may_be_lost(other, history) or _may_be_lost(send, history))
            )
        ):
            yield f"{other.key} and {send.key} were both given {_spot(send)}"
        given[send.spot] = send


def order_is_kept(history: History, shape: Shape) -> Iterator[str]:
    """A message whose sender waited for the one before lies behind it in their queue."""
    spots = _spots_of_keys(history)
    for sends in history.by_producer.values():
        acknowledged: dict[MessageQueue, int] = {}
        for send in sends:
            for queue, offset in spots.get(send.key, ()):
                if offset < acknowledged.get(queue, -1) and not (
                    shape is Shape.ASYNC_FLUSH and _any_power_loss(history)
                ):
                    yield f"{send.key} at {queue} {offset} lies before one acknowledged earlier"
            if send.is_acknowledged and send.spot is not None:
                queue, offset = send.spot
                acknowledged[queue] = max(acknowledged.get(queue, -1), offset)


def everything_is_delivered(history: History, shape: Shape) -> Iterator[str]:
    """Each message that is in a queue has been taken by the group."""
    taken = {delivery.key for delivery in history.deliveries if delivery.was_taken}
    taken.update(history.dead_letters, history.damaged)
    passed = set()
    if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
        # What waits to come again is a message, too, and may be lost as one. And a consumer
        # that has read a message that is lost goes on behind it.
        taken |= {delivery.key for delivery in history.deliveries}
        passed = {delivery.spot for delivery in history.deliveries}
    for queue, messages in history.final.items():
        for offset, key in messages:
            if key not in taken and (queue, offset) not in passed:
                yield f"{key} at {queue} {offset} was not delivered"


def what_was_read_stays(history: History, shape: Shape) -> Iterator[str]:
    """A message that a consumer has seen at a place is at that place for ever."""
    content = _by_spot(history)
    for delivery in history.deliveries:
        if delivery.retries:
            continue  # its place is in the group's retry topic
        if content.get(delivery.spot) != delivery.key:
            if delivery.key in history.damaged:
                continue
            if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
                continue  # read before it was on the disk
            queue, offset = delivery.spot
            found = content.get(delivery.spot, "nothing")
            yield f"{delivery.key} was read at {queue} {offset}, where now is {found}"


def what_is_refused_comes_again(history: History, shape: Shape) -> Iterator[str]:
    """A refused message comes back, and says how often it was refused."""
    refused = {each.key: each for each in history.deliveries if not each.was_taken}
    again = {each.key for each in history.deliveries if each.was_taken and each.retries > 0}
    taken = {each.key for each in history.deliveries if each.was_taken}
    taken.update(history.dead_letters, history.damaged)
    for key, delivery in refused.items():
        # A member that is killed before it can say so leaves the message to the next one,
        # for whom it is new.
        if key not in again and key not in taken:
            if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
                continue
            yield f"{key} was refused at {delivery.at_s:.3f} and did not come again"


def a_slave_has_the_same_log(history: History, shape: Shape) -> Iterator[str]:
    """What a slave has is what its master has, and when all is at rest it has all of it.

    A master that waits for disk and slave at the same time may lose with the power what its
    slave has already. Nobody was told that it is there, and the slave has to stand aside.
    """
    has_lost = any(incident.lost_power == "broker-a" for incident in history.incidents)
    for name in history.logs_differ:
        if not (has_lost and history.slave_fault):
            yield f"the log of {name} is not its master's"


def copies_have_what_is_acknowledged(history: History, shape: Shape) -> Iterator[str]:
    """Who is told SEND_OK may lose the master in the next moment."""
    for key, name in history.not_copied:
        yield f"{key} was acknowledged before {name} had it"


def only_what_is_confirmed_is_read(history: History, shape: Shape) -> Iterator[str]:
    """What is read stays, whoever of those in sync is the next master."""
    for key, name in history.read_too_soon:
        yield f"{key} was read before {name} had it"


def nothing_comes_twice_by_itself(history: History, shape: Shape) -> Iterator[str]:
    """Where nothing went wrong, nothing is stored twice."""
    if not history.incidents:
        for key, spots in _spots_of_keys(history).items():
            if len(spots) > 1:
                yield f"{key} is stored {len(spots)} times"


def what_was_to_come_later_has_come(history: History, shape: Shape) -> Iterator[str]:
    """An acknowledged message with a delay is in its queue when its time has passed."""
    there = _spots_of_keys(history)
    for send in history.sends.values():
        if send.kind in (Kind.LEVEL, Kind.TIMED) and send.is_acknowledged:
            if send.key in there or send.key in history.damaged:
                continue
            if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
                continue
            yield f"{send.key}, acknowledged at {send.ended_s:.3f}, has not come"


def nothing_comes_early(history: History, shape: Shape) -> Iterator[str]:
    """A message with a delay is not seen before its time, by the broker's clock."""
    clocks_s = sum(incident.clock_ms for incident in history.incidents) / 1000
    for delivery in history.deliveries:
        send = history.sends.get(delivery.key)
        if send is None or send.kind not in (Kind.LEVEL, Kind.TIMED):
            continue
        early_s = send.began_s + send.delay_s - delivery.at_s - clocks_s - history.skew_s
        # Clocks count milliseconds, and timers are as exact as timerPrecisionMs says.
        if early_s > (0.002 if send.kind is Kind.LEVEL else 0.102):
            yield f"{send.key} came {early_s:.3f} s early at {delivery.at_s:.3f}"


def transactions_are_whole(history: History, shape: Shape) -> Iterator[str]:
    """What was committed is there; what was rolled back, or not decided, is never seen."""
    there = _spots_of_keys(history)
    seen = {delivery.key: delivery for delivery in history.deliveries}
    for send in history.sends.values():
        if send.kind is not Kind.TRANSACTION or send.key in history.damaged:
            continue
        is_committed = history.decisions.get(send.key, False)
        if not is_committed and (send.key in there or send.key in seen):
            yield f"{send.key} was not committed, and is there"
        if is_committed and send.is_acknowledged and send.key not in there:
            if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
                continue
            yield f"{send.key} was committed, and is not there"


def everything_is_popped(history: History, shape: Shape) -> Iterator[str]:
    """Each message is received, and acknowledged at last, by the group that pops."""
    if not history.has_poppers:
        return
    done = {
        popped.key for popped in history.pops if popped.acked_s is not None or popped.may_be_acked
    }
    if history.has_damaged_notes:
        return  # what was popped is a message, too, and there is no other copy of it
    if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
        return  # receipts and progress are messages and files, too
    for queue, messages in history.final.items():
        if queue.topic == ORDERS:
            for offset, key in messages:
                if key not in done and key not in history.damaged:
                    yield f"{key} at {queue} {offset} was not popped"


def nothing_acknowledged_is_popped_again(history: History, shape: Shape) -> Iterator[str]:
    """A popped message that was acknowledged in time comes again only after a crash."""
    if shape is Shape.ELECTED or history.damaged or history.has_damaged_notes:
        return
    stored = _spots_of_keys(history)
    done: dict[str, tuple[float, float]] = {}
    for popped in history.pops:
        if popped.key in done and len(stored.get(popped.key, ())) == 1:
            before, acked_s = done[popped.key]
            # Whoever was frozen, or whose clock was set, may have been too late.
            is_excused = any(
                incident.kind in _POP_EXCUSES and incident.at_s <= popped.at_s
                for incident in history.incidents
            )
            if not is_excused and acked_s - before < INVISIBLE_S - 3:
                yield f"{popped.key}, acknowledged at {acked_s:.3f}, came at {popped.at_s:.3f}"
        if popped.acked_s is not None:
            done[popped.key] = (popped.at_s, popped.acked_s)


def what_nobody_takes_is_a_dead_letter(history: History, shape: Shape) -> Iterator[str]:
    """What was refused as often as the group allows is a dead letter, and nothing else is."""
    may_be_lost = shape is Shape.ASYNC_FLUSH and _any_power_loss(history)
    refused = {each.key for each in history.deliveries}
    for key in sorted(refused):
        is_excused = may_be_lost or key in history.damaged
        if is_poison(key) and key not in history.dead_letters and not is_excused:
            yield f"{key} is refused by everybody and not among the dead letters"
    for key in history.dead_letters:
        if not is_poison(key):
            yield f"{key} is a dead letter, and was refused once at the most"


def retries_are_counted(history: History, shape: Shape) -> Iterator[str]:
    """Each delivery says how often the message was refused before, and none is left out."""
    tries: defaultdict[str, set[int]] = defaultdict(set)
    refused: defaultdict[str, int] = defaultdict(int)
    for delivery in history.deliveries:
        tries[delivery.key].add(delivery.retries)
        if delivery.retries > refused[delivery.key]:
            yield f"{delivery.key} says {delivery.retries} retries, refused {refused[delivery.key]}"
        refused[delivery.key] += not delivery.was_taken
    if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
        return
    wanted = set(range(MAX_RETRIES + 1))
    for key, counts in tries.items():
        # A consumer that cannot give a message back tries it once more by itself, and counts.
        if max(counts) > MAX_RETRIES and not history.incidents:
            yield f"{key} came {max(counts)} times again"
        if key in history.dead_letters and not wanted <= counts:
            yield f"{key} is a dead letter after {sorted(counts)}"


def progress_never_goes_back(history: History, shape: Shape) -> Iterator[str]:
    """A group is never behind what its broker said before, unless that broker has crashed."""
    if shape is Shape.ELECTED:
        return  # who is master changes
    last: dict[tuple[str, int], Progress] = {}
    for told in history.progress:
        before = last.get((told.topic, told.queue_id))
        last[told.topic, told.queue_id] = told
        if before is None or told.offset >= before.offset:
            continue
        if not any(
            incident.kind in _CRASHES
            and incident.target == told.broker
            and before.asked_s - 60 <= incident.at_s <= told.told_s
            for incident in history.incidents
        ):
            yield (
                f"{told.topic} {told.queue_id} stood at {before.offset} at {before.told_s:.3f} "
                f"and at {told.offset} at {told.told_s:.3f}"
            )


def one_master_an_epoch(history: History, shape: Shape) -> Iterator[str]:
    """What was acknowledged in one epoch was acknowledged by one broker."""
    masters: dict[int, str] = {}
    starts = [start for _, start in history.epochs]
    for send in history.sends.values():
        if not send.is_acknowledged or send.log_spot is None or not starts:
            continue
        host, position = send.log_spot
        number = history.epochs[max(bisect_right(starts, position) - 1, 0)][0]
        if masters.setdefault(number, host) != host:
            yield f"{send.key}: {host} and {masters[number]} both acknowledged in epoch {number}"


_CRASHES: Final = frozenset(
    kind.value
    for kind in (
        FaultKind.KILL,
        FaultKind.POWER,
        FaultKind.FLIPPED_BIT,
        FaultKind.FAILED_SYNC,
        FaultKind.FULL_DISK,
        FaultKind.RESTART,
    )
)
_POP_EXCUSES: Final = _CRASHES | {
    kind.value for kind in (FaultKind.STOP, FaultKind.SLOW_DISK, FaultKind.CLOCK_STEP)
}

CHECKS: Final[tuple[Check, ...]] = (
    nothing_acknowledged_is_lost,
    nothing_is_invented,
    nothing_is_spoiled,
    offsets_are_dense,
    offsets_are_given_once,
    order_is_kept,
    everything_is_delivered,
    what_was_read_stays,
    what_is_refused_comes_again,
    a_slave_has_the_same_log,
    copies_have_what_is_acknowledged,
    only_what_is_confirmed_is_read,
    nothing_comes_twice_by_itself,
    what_was_to_come_later_has_come,
    nothing_comes_early,
    transactions_are_whole,
    everything_is_popped,
    nothing_acknowledged_is_popped_again,
    what_nobody_takes_is_a_dead_letter,
    retries_are_counted,
    progress_never_goes_back,
    one_master_an_epoch,
)


def _by_spot(history: History) -> dict[tuple[MessageQueue, int], str]:
    return {
        (queue, offset): key
        for queue, messages in history.final.items()
        for offset, key in messages
    }


def _spots_of_keys(history: History) -> dict[str, list[tuple[MessageQueue, int]]]:
    spots = defaultdict(list)
    for queue, messages in history.final.items():
        for offset, key in messages:
            spots[key].append((queue, offset))
    return spots


def _any_power_loss(history: History) -> bool:
    return any(incident.lost_power for incident in history.incidents)


def _spot(send: Send) -> str:
    assert send.spot is not None
    return f"{send.spot[0]} {send.spot[1]}"
