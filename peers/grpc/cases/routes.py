"""Routes: which queues there are, and where."""

from collections import Counter
from typing import Any

from tests.proxy.bare_client import Client

from peers.grpc.cases.trial import Case, Trial, equal
from rocketq.proxy.protocol import messages as pb


async def route(client: Client, topic: str, endpoints: Any = None) -> Any:
    request = pb.QueryRouteRequest(
        topic=pb.Resource(name=topic), endpoints=endpoints or client.endpoints
    )
    return await client.call("QueryRoute", request)


async def names(trial: Trial) -> None:
    client = trial.client()
    topic = await trial.topic()
    answer = await route(client, topic)
    equal(answer.status.code, pb.OK)
    equal([queue.id for queue in answer.message_queues], [0, 1, 2, 3])
    equal({queue.permission for queue in answer.message_queues}, {pb.READ_WRITE})
    equal({queue.broker.id for queue in answer.message_queues}, {0})
    nameless = trial.client(x_mq_client_id="")
    equal((await route(nameless, topic)).status.code, pb.CLIENT_ID_REQUIRED)
    equal((await route(client, trial.name())).status.code, pb.TOPIC_NOT_FOUND)
    for wrong in ("a b", "TBW102", " "):
        equal((await route(client, wrong)).status.code, pb.ILLEGAL_TOPIC)


async def echo(trial: Trial) -> None:
    """The asked address comes back, as clients behind something else need it."""
    client = trial.client()
    topic = await trial.topic()
    asked = pb.Endpoints(scheme=pb.IPv4)
    asked.addresses.add(host="10.9.8.7", port=5)
    answer = await route(client, topic, asked)
    for queue in answer.message_queues:
        (address,) = queue.broker.endpoints.addresses
        equal(queue.broker.endpoints.scheme, pb.IPv4)
        equal(address.host, "10.9.8.7")
        equal(address.port, trial.either(trial.system.port, 5))


async def permissions(trial: Trial) -> None:
    client = trial.client()
    for perm, counts in (
        (6, {pb.READ: 4, pb.READ_WRITE: 4}),
        (4, {pb.READ: 8}),
        (2, {pb.WRITE: 4}),
        (0, {pb.NONE: 8}),
    ):
        topic = await trial.topic(read=8, write=4, perm=perm)
        queues = (await route(client, topic)).message_queues
        equal(Counter(queue.permission for queue in queues), Counter(counts))
        equal(sorted(queue.id for queue in queues), list(range(len(queues))))
        if perm == 6 and not trial.system.is_java:
            # Node.js looks at number 0 alone.
            equal([queue.permission for queue in queues if queue.id == 0], [pb.READ_WRITE])


async def types(trial: Trial) -> None:
    client = trial.client()
    four = [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION]
    for kind, wanted in (
        ("NORMAL", [pb.NORMAL]),
        ("FIFO", [pb.FIFO]),
        ("DELAY", [pb.DELAY]),
        ("TRANSACTION", [pb.TRANSACTION]),
        ("PRIORITY", [pb.PRIORITY]),
        ("MIXED", four),
        ("", [pb.NORMAL]),
    ):
        topic = await trial.topic(kind)
        for queue in (await route(client, topic)).message_queues:
            equal(list(queue.accept_message_types), wanted)


async def assignments(trial: Trial) -> None:
    client = trial.client()
    topic = await trial.topic()
    ordinary, ordered = await trial.group(), await trial.group(consume_message_orderly=True)
    for group, wanted in ((ordinary, [-1]), (ordered, [0, 1, 2, 3])):
        request = pb.QueryAssignmentRequest(
            topic=pb.Resource(name=topic),
            group=pb.Resource(name=group),
            endpoints=client.endpoints,
        )
        answer = await client.call("QueryAssignment", request)
        equal(answer.status.code, pb.OK)
        equal([each.message_queue.id for each in answer.assignments], wanted)


CASES: dict[str, Case] = {
    "1-routes": names,
    "2-route-echo": echo,
    "3-permissions": permissions,
    "4-message-types": types,
    "assignments": assignments,
}
