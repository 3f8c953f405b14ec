"""Allocation strategies: RocketMQ's own vectors, and what must hold for any of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.client.consumer.allocation import (
    AllocationStrategy,
    Average,
    AverageByCircle,
    ConsistentHash,
    FixedQueues,
    MachineRoom,
    MachineRoomNearby,
)
from rocketq.message.queue import MessageQueue


def queues(count: int, topic: str = "T", broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue(topic, broker, queue_id) for queue_id in range(count)]


def ids(strategy: AllocationStrategy, all_queues: list[MessageQueue], clients: str) -> list[str]:
    """Each client's queue ids, written together: ["012", "345", "67"]."""
    return [
        "".join(str(q.queue_id) for q in strategy.allocate(client, all_queues, list(clients)))
        for client in clients
    ]


def test_average_gives_runs_of_neighbours() -> None:
    assert ids(Average(), queues(8), "ABC") == ["012", "345", "67"]


def test_average_leaves_members_empty_handed_when_queues_are_few() -> None:
    assert ids(Average(), queues(2), "ABC") == ["0", "1", ""]


def test_average_by_circle_deals_like_cards() -> None:
    assert ids(AverageByCircle(), queues(8), "ABC") == ["036", "147", "25"]


def test_fixed_queues_are_what_the_user_wrote() -> None:
    wanted = queues(8)[2:4]
    assert FixedQueues(wanted).allocate("nobody", queues(8), ["A"]) == wanted


def test_machine_room_hands_the_rest_out_from_the_end() -> None:
    strategy = MachineRoom({"east"})
    assert ids(strategy, queues(8, broker="east@b"), "ABC") == ["016", "237", "45"]


def test_machine_room_ignores_other_rooms_and_unmarked_brokers() -> None:
    strategy = MachineRoom({"east"})
    others = queues(4, broker="west@b") + queues(4, broker="b") + queues(4, broker="east@b@c")
    assert ids(strategy, others, "A") == [""]


def test_nearby_rooms_consume_their_own_queues_and_share_the_orphans() -> None:
    strategy = MachineRoomNearby(
        broker_room=lambda queue: queue.broker_name.partition("@")[0],
        client_room=lambda client: {"A": "east", "B": "east", "C": "west"}[client],
    )
    east, west = queues(4, broker="east@1"), queues(2, broker="west@1")
    orphans = queues(3, broker="north@1")
    everything = sorted(east + west + orphans)

    shares = {client: strategy.allocate(client, everything, list("ABC")) for client in "ABC"}

    assert shares["A"] == [*east[:2], orphans[0]]
    assert shares["B"] == [*east[2:], orphans[1]]
    assert shares["C"] == [*west, orphans[2]]
    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"


def test_nearby_refuses_a_room_it_cannot_name() -> None:
    strategy = MachineRoomNearby(broker_room=lambda queue: "", client_room=lambda client: "east")
    with pytest.raises(ValueError, match="no machine room is known for broker b"):
        strategy.allocate("A", queues(1), ["A"])


def test_consistent_hash_falls_as_it_does_in_java() -> None:
    owners = {
        queue.queue_id: client
        for client in ("C0", "C1", "C2")
        for queue in ConsistentHash().allocate(client, queues(8), ["C0", "C1", "C2"])
    }
    assert [int(owners[number][1]) for number in range(8)] == [1, 1, 0, 1, 0, 1, 0, 1]


STRATEGIES: list[AllocationStrategy] = [
    Average(),
    AverageByCircle(),
    MachineRoom({"east"}),
    MachineRoomNearby(lambda queue: "east", lambda client: client[-1]),
    ConsistentHash(),
]


@given(
    st.sampled_from(STRATEGIES),
    st.integers(1, 40),
    st.sets(st.text("abcdef0123456789", min_size=1, max_size=6), min_size=1, max_size=12),
)
def test_every_queue_has_exactly_one_owner(
    strategy: AllocationStrategy, count: int, clients: set[str]
) -> None:
    everything = queues(count, broker="east@b")
    members = sorted(clients)

    given_out = [
        queue for client in members for queue in strategy.allocate(client, everything, members)
    ]

    assert sorted(given_out) == everything


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_a_client_that_is_not_listed_gets_nothing(strategy: AllocationStrategy) -> None:
    assert strategy.allocate("X", queues(4), ["A", "B"]) == []
