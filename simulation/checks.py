"""What must be true of a history, whatever happened."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from rocketq.message.queue import MessageQueue
from simulation.history import History, Send
from simulation.plan import Shape

# With ASYNC_FLUSH the disk has everything within half a second under load, and within ten at
# the latest: flushCommitLogThoroughInterval, and the time a slow disk takes.
_UNFLUSHED_S: Final = 20.0

Check = Callable[[History, Shape], Iterator[str]]


def broken_promises(history: History, shape: Shape) -> list[str]:
    """Everything that is wrong with a history; empty for a good one."""
    return [f"{check.__name__}: {text}" for check in CHECKS for text in check(history, shape)]


def is_all_done(history: History, shape: Shape) -> bool:
    """Whether nothing is left that time alone may mend."""
    late = (everything_is_delivered, what_is_refused_comes_again)
    return not any(text for check in late for text in check(history, shape))


def nothing_acknowledged_is_lost(history: History, shape: Shape) -> Iterator[str]:
    """Who was told SEND_OK finds the message where he was told it is."""
    content = _by_spot(history)
    for send in history.sends.values():
        if send.is_acknowledged and send.spot is not None and content.get(send.spot) != send.key:
            if shape is Shape.ASYNC_FLUSH and _may_be_lost(send, history):
                continue
            found = content.get(send.spot, "nothing")
            yield f"{send.key} was acknowledged at {_spot(send)} at {send.ended_s:.3f}: {found}"


def _may_be_lost(send: Send, history: History) -> bool:
    return any(
        incident.lost_power and 0 <= incident.at_s - send.ended_s <= _UNFLUSHED_S
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


def offsets_are_dense(history: History, shape: Shape) -> Iterator[str]:
    """The messages of a queue are numbered without gaps.

    Where unsynced sectors were lost, what lies between two holes is kept, and the holes show.
    """
    if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
        return
    for queue, messages in history.final.items():
        for (offset, key), (following, _) in pairwise(messages):
            if following != offset + 1:
                yield f"{queue} has {following} after {offset} ({key})"


def offsets_are_given_once(history: History, shape: Shape) -> Iterator[str]:
    """No two acknowledged messages have the same place, unless the first one may be lost."""
    given: dict[object, Send] = {}
    for send in history.sends.values():
        if not send.is_acknowledged:
            continue
        other = given.get(send.spot)
        if other is not None and not (
            shape is Shape.ASYNC_FLUSH
            and (_may_be_lost(other, history) or _may_be_lost(send, history))
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
    for key, delivery in refused.items():
        # A member that is killed before it can say so leaves the message to the next one,
        # for whom it is new.
        if key not in again and key not in taken:
            if shape is Shape.ASYNC_FLUSH and _any_power_loss(history):
                continue
            yield f"{key} was refused at {delivery.at_s:.3f} and did not come again"


def a_slave_has_the_same_log(history: History, shape: Shape) -> Iterator[str]:
    """What a slave has is what its master has.

    A master that waits for disk and slave at the same time may lose with the power what its
    slave has already. Nobody was told that it is there, and the slave has to stand aside.
    """
    has_lost = any(incident.lost_power == "broker-a" for incident in history.incidents)
    if not history.slave_is_prefix and not (has_lost and history.slave_fault):
        yield "the slave's log is not a part of its master's"


def a_slave_has_what_is_acknowledged(history: History, shape: Shape) -> Iterator[str]:
    """Who is told SEND_OK may lose the master in the next moment."""
    for key in history.not_on_slave:
        yield f"{key} was acknowledged before the slave had it"


def nothing_comes_twice_by_itself(history: History, shape: Shape) -> Iterator[str]:
    """Where nothing went wrong, nothing is stored twice."""
    if not history.incidents:
        for key, spots in _spots_of_keys(history).items():
            if len(spots) > 1:
                yield f"{key} is stored {len(spots)} times"


CHECKS: Final[tuple[Check, ...]] = (
    nothing_acknowledged_is_lost,
    nothing_is_invented,
    offsets_are_dense,
    offsets_are_given_once,
    order_is_kept,
    everything_is_delivered,
    what_was_read_stays,
    what_is_refused_comes_again,
    a_slave_has_the_same_log,
    a_slave_has_what_is_acknowledged,
    nothing_comes_twice_by_itself,
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
