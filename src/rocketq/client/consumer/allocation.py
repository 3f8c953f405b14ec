"""Which of a topic's queues belong to which member of a consumer group.

Every member runs the same strategy over the same two sorted lists (the topic's queues, the
group's client ids) and takes its own share, so the members agree without talking to each other.
A group whose members use different strategies, or see different lists for a moment, may leave a
queue to nobody or give it to two members until the next rebalance.

With eight queues and the clients A, B and C:

    average            A 0 1 2   B 3 4 5   C 6 7     neighbours together
    average by circle  A 0 3 6   B 1 4 7   C 2 5     dealt like cards
    machine room       A 0 1 6   B 2 3 7   C 4 5     only queues of the wanted rooms
    consistent hash    by a ring of hashes: few queues move when a member comes or goes
"""

import bisect
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rocketq.message.queue import MessageQueue


class AllocationStrategy(Protocol):
    """A pure function of its arguments: members of a group must come to the same answer."""

    @property
    def name(self) -> str:
        """What the strategy is called in logs and running info, as RocketMQ calls it."""
        ...

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of `client_id`. Both sequences are sorted."""
        ...


@dataclass(frozen=True, slots=True)
class Average:
    """Equal runs of neighbouring queues; the first members take one more when it does not divide.

    >>> from rocketq.message.queue import MessageQueue
    >>> queues = [MessageQueue("orders", "broker-a", number) for number in range(8)]
    >>> [queue.queue_id for queue in Average().allocate("B", queues, ["A", "B", "C"])]
    [3, 4, 5]
    """

    name: str = "AVG"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids or not queues:
            return []
        index = client_ids.index(client_id)
        share, remainder = divmod(len(queues), len(client_ids))
        start = index * share + min(index, remainder)
        return list(queues[start : start + share + (index < remainder)])


@dataclass(frozen=True, slots=True)
class AverageByCircle:
    """Queues are dealt to the members one by one, round and round."""

    name: str = "AVG_BY_CIRCLE"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


@dataclass(frozen=True, slots=True)
class FixedQueues:
    """The queues the user wrote down for this member, whoever else is in the group."""

    queues: Sequence[MessageQueue]
    name: str = "CONFIG"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(self.queues)


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """Only queues of brokers named `room@name` whose room is wanted.

    What does not divide goes, one each, to the first members, taken from the end of the list.
    """

    rooms: Collection[str]
    name: str = "MACHINE_ROOM"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        wanted = [queue for queue in queues if self._is_wanted(queue.broker_name)]
        index = client_ids.index(client_id)
        share, remainder = divmod(len(wanted), len(client_ids))
        mine = wanted[index * share : (index + 1) * share]
        if index < remainder:
            mine.append(wanted[share * len(client_ids) + index])
        return mine

    def _is_wanted(self, broker_name: str) -> bool:
        room, at, rest = broker_name.partition("@")
        return bool(at) and "@" not in rest and room in self.rooms


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Each room consumes its own queues; queues of rooms without a consumer are shared by all.

    The two functions say in which room a broker and a client stand. `inner` divides the queues
    of one room among its clients, and the orphaned ones among all.
    """

    broker_room: Callable[[MessageQueue], str]
    client_room: Callable[[str], str]
    inner: AllocationStrategy = field(default_factory=Average)

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_of.setdefault(self._room_of_queue(queue), []).append(queue)
        clients_of: dict[str, list[str]] = {}
        for client in client_ids:
            clients_of.setdefault(self._room_of_client(client), []).append(client)

        own_room = self._room_of_client(client_id)
        mine: list[MessageQueue] = []
        if own_room in queues_of:
            mine += self.inner.allocate(client_id, queues_of[own_room], clients_of[own_room])
        for room in sorted(queues_of):
            if room not in clients_of:
                mine += self.inner.allocate(client_id, queues_of[room], client_ids)
        return mine

    def _room_of_queue(self, queue: MessageQueue) -> str:
        room = self.broker_room(queue)
        if not room:
            raise ValueError(f"no machine room is known for broker {queue.broker_name}")
        return room

    def _room_of_client(self, client_id: str) -> str:
        room = self.client_room(client_id)
        if not room:
            raise ValueError(f"no machine room is known for client {client_id}")
        return room


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Members stand at several points of a ring; a queue goes to the next point after its hash.

    A point is `clientId-0` ... `clientId-9`, a queue is hashed by its text; the hash is the first
    four bytes of the MD5, unsigned, so it falls the same in every language.
    """

    points_per_client: int = 10
    name: str = "CONSISTENT_HASH"

    def __post_init__(self) -> None:
        if self.points_per_client < 1:
            raise ValueError(f"points_per_client must be positive, not {self.points_per_client}")

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        # Of two clients on one point the later one holds it, as a sorted map would have it.
        owners = {
            _ring_hash(f"{client}-{point}"): client
            for client in client_ids
            for point in range(self.points_per_client)
        }
        ring = sorted(owners)
        return [queue for queue in queues if owners[_next_point(ring, queue)] == client_id]


def _next_point(ring: Sequence[int], queue: MessageQueue) -> int:
    text = (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )
    at = bisect.bisect_left(ring, _ring_hash(text))
    return ring[at] if at < len(ring) else ring[0]


def _ring_hash(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")
