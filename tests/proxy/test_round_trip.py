"""One message, all the way."""

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from rocketq.proxy.protocol import compiled
from rocketq.proxy.protocol import messages as pb
from tests.proxy.bare_client import Client
from tests.proxy.harness import Place


async def test_a_message_goes_round(at: Place, client: Client) -> None:
    await at.create_topic("orders")
    route = await client.call(
        "QueryRoute",
        pb.QueryRouteRequest(topic=pb.Resource(name="orders"), endpoints=client.endpoints),
    )
    assert route.status.code == pb.OK, route
    print(route)
    await client.introduce(client.consumer_settings("readers", "orders"))
    sent = await client.send("orders", b"hello", tag="a", keys=["k1", "k2"], user={"x": "y"})
    assert sent.status.code == pb.OK, sent
    received = await client.receive("orders", "readers")
    assert received.bodies == [b"hello"], received.status
    acked = await client.ack("orders", "readers", *received.messages)
    assert acked.status.code == pb.OK, acked


def test_the_compiled_definitions_are_those_of_the_source() -> None:
    pytest.importorskip("grpc_tools")
    shipped = (compiled.HERE / "messaging.binpb").read_bytes()
    assert compiled.descriptor_set() == shipped


def test_the_official_definitions_may_be_there_too() -> None:
    """Both in one process: theirs in the pool that all share, ours in its own."""
    shipped = (compiled.HERE / "messaging.binpb").read_bytes()
    names = descriptor_pb2.FileDescriptorSet.FromString(shipped).file
    shared = descriptor_pool.Default()
    for each in names:
        shared.Add(each)  # as the official client does when it is imported
    theirs = message_factory.GetMessageClass(
        shared.FindMessageTypeByName("apache.rocketmq.v2.Status")
    )
    ours = pb.Status(code=pb.OK, message="x")
    assert theirs is not type(ours)
    assert theirs.FromString(ours.SerializeToString()).message == "x"
