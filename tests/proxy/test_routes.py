"""QueryRoute and QueryAssignment."""

from typing import Any

import pytest

from rocketq.message.hashing import java_hash
from rocketq.proxy.adapter.queues import jump_hash, permissions
from rocketq.proxy.protocol import messages as pb
from rocketq.remoting.bodies.route import QueueData
from tests.proxy.bare_client import Client
from tests.proxy.harness import Place


async def route(client: Client, topic: str, endpoints: Any = None) -> Any:
    request = pb.QueryRouteRequest(
        topic=pb.Resource(name=topic), endpoints=endpoints or client.endpoints
    )
    return await client.call("QueryRoute", request)


async def test_a_route_names_queues_at_the_address_that_was_asked(
    at: Place, client: Client
) -> None:
    await at.create_topic("t", "FIFO")
    answer = await route(client, "t")
    assert answer.status.code == pb.OK
    assert [queue.id for queue in answer.message_queues] == [0, 1, 2, 3]
    for queue in answer.message_queues:
        assert queue.permission == pb.READ_WRITE
        assert queue.broker.name == "broker-t"
        assert queue.broker.id == 0
        assert queue.broker.endpoints == client.endpoints
        assert list(queue.accept_message_types) == [pb.FIFO]
    elsewhere = pb.Endpoints(scheme=pb.DOMAIN_NAME)
    elsewhere.addresses.add(host="behind.nat", port=5)
    answer = await route(client, "t", elsewhere)
    assert answer.message_queues[0].broker.endpoints == elsewhere


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("unknown", pb.TOPIC_NOT_FOUND),
        ("a b", pb.ILLEGAL_TOPIC),
        ("TBW102", pb.ILLEGAL_TOPIC),
        ("", pb.ILLEGAL_TOPIC),
        ("x" * 128, pb.ILLEGAL_TOPIC),
        ("rmq_sys_wheel_timer", pb.ILLEGAL_TOPIC),
    ],
)
async def test_what_is_no_topic_has_no_route(at: Place, topic: str, code: int) -> None:
    assert (await route(at.client(), topic)).status.code == code


async def test_a_client_needs_an_id(at: Place) -> None:
    answer = await route(at.client(x_mq_client_id=""), "t")
    assert answer.status.code == pb.CLIENT_ID_REQUIRED
    assert answer.status.message


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("NORMAL", [pb.NORMAL]),
        ("DELAY", [pb.DELAY]),
        ("TRANSACTION", [pb.TRANSACTION]),
        ("PRIORITY", [pb.PRIORITY]),
        ("MIXED", [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION]),
        ("", [pb.NORMAL]),
    ],
)
async def test_a_route_says_which_messages_a_topic_takes(
    at: Place, client: Client, kind: str, types: list[int]
) -> None:
    await at.create_topic("t", kind)
    answer = await route(client, "t")
    assert list(answer.message_queues[0].accept_message_types) == types


@pytest.mark.parametrize(
    ("read", "write", "perm", "shown"),
    [
        (8, 4, 6, [pb.READ_WRITE] * 4 + [pb.READ] * 4),
        (4, 8, 6, [pb.READ_WRITE] * 4 + [pb.WRITE] * 4),
        (4, 4, 4, [pb.READ] * 4),
        (4, 4, 2, [pb.WRITE] * 4),
        (4, 3, 0, [pb.NONE] * 4),
        (0, 0, 0, [pb.NONE]),
    ],
)
def test_queues_are_shown_with_their_permissions(
    read: int, write: int, perm: int, shown: list[int]
) -> None:
    data = QueueData(broker_name="b", read_queue_nums=read, write_queue_nums=write, perm=perm)
    assert list(permissions(data)) == shown


@pytest.mark.parametrize(
    ("group", "places"),
    [
        ("one", (0, 4, 15)),
        ("two", (1, 4, 13)),
        ("order-1", (3, 3, 3)),
        ("order-2", (2, 2, 11)),
        ("a", (0, 0, 0)),
        ("x" * 63, (2, 2, 2)),
    ],
)
def test_a_message_group_has_the_queue_that_rocketmq_gives_it(
    group: str, places: tuple[int, int, int]
) -> None:
    assert tuple(jump_hash(java_hash(group), count) for count in (4, 8, 16)) == places


async def assignment(client: Client, topic: str, group: str) -> Any:
    request = pb.QueryAssignmentRequest(
        topic=pb.Resource(name=topic), group=pb.Resource(name=group), endpoints=client.endpoints
    )
    return await client.call("QueryAssignment", request)


async def test_an_ordinary_group_gets_all_queues_of_a_broker_as_one(
    at: Place, client: Client
) -> None:
    await at.create_topic("t")
    answer = await assignment(client, "t", "g")
    assert answer.status.code == pb.OK
    (only,) = answer.assignments
    assert only.message_queue.id == -1
    assert only.message_queue.permission == pb.READ_WRITE
    assert only.message_queue.broker.endpoints == client.endpoints
    assert answer == await assignment(client, "t", "g")


async def test_a_group_in_order_gets_each_queue(at: Place, client: Client) -> None:
    await at.create_topic("t", "FIFO")
    await at.create_group("g", consume_message_orderly=True)
    answer = await assignment(client, "t", "g")
    assert [each.message_queue.id for each in answer.assignments] == [0, 1, 2, 3]


async def test_assignments_are_refused(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await at.create_topic("write-only", perm=2)
    for topic, group, code in (
        ("unknown", "g", pb.TOPIC_NOT_FOUND),
        ("a b", "g", pb.ILLEGAL_TOPIC),
        ("t", "a b", pb.ILLEGAL_CONSUMER_GROUP),
        ("t", "CID_RMQ_SYS_x", pb.ILLEGAL_CONSUMER_GROUP),
        ("t", "x" * 121, pb.ILLEGAL_CONSUMER_GROUP),
        ("write-only", "g", pb.FORBIDDEN),
    ):
        assert (await assignment(client, topic, group)).status.code == code
