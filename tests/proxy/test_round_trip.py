"""One message, all the way."""

from rocketq.proxy.protocol import messages as pb
from tests.proxy.harness import Client, Place


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
