"""From a route to queues: what clients are shown, and where a message goes."""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from rocketq.message.flags import Permission
from rocketq.message.hashing import java_hash
from rocketq.proxy.protocol import messages as pb
from rocketq.remoting.bodies.route import QueueData, TopicRouteData

MASTER_ID: Final = 0

_TYPES: Final = {
    "NORMAL": (pb.NORMAL,),
    "FIFO": (pb.FIFO,),
    "DELAY": (pb.DELAY,),
    "TRANSACTION": (pb.TRANSACTION,),
    "PRIORITY": (pb.PRIORITY,),
    "LITE": (pb.LITE,),
    "MIXED": (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION),
}
_JUMP: Final = 2862933555777941757
_64_BITS: Final = (1 << 64) - 1


class WriteQueue(NamedTuple):
    """A queue that takes messages."""

    broker_name: str
    queue_id: int


class Writable:
    """The queues of one topic that take messages, by broker and then by number."""

    def __init__(self, route: TopicRouteData) -> None:
        masters = {
            broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs
        }
        self.queues: Sequence[WriteQueue] = [
            WriteQueue(data.broker_name, queue_id)
            for data in sorted(route.queue_datas, key=lambda each: each.broker_name)
            if data.perm & Permission.WRITE and data.broker_name in masters
            for queue_id in range(data.write_queue_nums)
        ]
        self._turn = random.randrange(max(len(self.queues), 1))

    def next(self) -> WriteQueue:
        self._turn = (self._turn + 1) % len(self.queues)
        return self.queues[self._turn]

    def of_group(self, message_group: str) -> WriteQueue:
        """Always the same one for the same group, while the queues are the same."""
        return self.queues[jump_hash(java_hash(message_group), len(self.queues))]


def jump_hash(key: int, count: int) -> int:
    """The consistent hash of Lamping and Veach: few keys move when the count changes."""
    state = key & _64_BITS
    candidate, following = 0, 0
    while following < count:
        candidate = following
        state = (state * _JUMP + 1) & _64_BITS
        part = ((state >> 33) + 1) / (1 << 31)
        following = int((candidate + 1) / part)
    return candidate


def accepted_types(type_name: str | None) -> tuple[int, ...]:
    """Which messages a topic takes; None for a topic of which nothing is known."""
    if type_name is None:
        return (pb.MESSAGE_TYPE_UNSPECIFIED,)
    return _TYPES.get(type_name.upper(), (pb.NORMAL,))


def permissions(data: QueueData) -> Iterator[int]:
    """The permission of each queue that clients are shown, in the order of their numbers.

    Those that can be read and written come first: some clients use queue 0 only.
    """
    readable = data.read_queue_nums if data.perm & Permission.READ else 0
    writable = data.write_queue_nums if data.perm & Permission.WRITE else 0
    both = min(readable, writable)
    if not readable and not writable:
        yield from [pb.NONE] * max(1, data.read_queue_nums, data.write_queue_nums)
    yield from [pb.READ_WRITE] * both
    yield from [pb.READ] * (readable - both)
    yield from [pb.WRITE] * (writable - both)


def broker_permission(perm: int) -> int:
    both = Permission.READ | Permission.WRITE
    if perm & both == both:
        return int(pb.READ_WRITE)
    if perm & Permission.READ:
        return int(pb.READ)
    return int(pb.WRITE if perm & Permission.WRITE else pb.NONE)


def readable_brokers(route: TopicRouteData) -> list[QueueData]:
    """Brokers with a master from which messages of a topic can be popped."""
    masters = {
        broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs
    }
    found = [
        data
        for data in route.queue_datas
        if data.perm & Permission.READ and data.read_queue_nums > 0 and data.broker_name in masters
    ]
    return sorted(found, key=lambda data: data.broker_name)


def resource(name: str) -> Any:
    """A stored name, split where it has a namespace."""
    namespace, separator, rest = name.partition("%")
    if separator and namespace and rest:
        return pb.Resource(resource_namespace=namespace, name=rest)
    return pb.Resource(name=name)
