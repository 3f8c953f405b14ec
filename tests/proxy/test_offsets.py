"""PullMessage and offsets by queue."""

from typing import Any

from rocketq.proxy.protocol import messages as pb
from tests.proxy.bare_client import Client, now_ms
from tests.proxy.harness import Place


def queue(topic: str = "t", number: int = 0, broker: str = "broker-t") -> Any:
    return pb.MessageQueue(topic=pb.Resource(name=topic), id=number, broker=pb.Broker(name=broker))


async def pull(client: Client, offset: int, **more: Any) -> list[Any]:
    request = pb.PullMessageRequest(
        group=pb.Resource(name="g"),
        message_queue=more.pop("queue", queue()),
        offset=offset,
        batch_size=32,
    )
    return [each async for each in client.stream("PullMessage", request)]


async def test_a_queue_is_pulled(at: Place, client: Client) -> None:
    await at.create_topic("t", queues=1)
    for number in range(3):
        await client.send("t", b"%d" % number)
    status, *messages, last = await pull(client, 1)
    assert status.status.code == pb.OK
    assert [each.message.body for each in messages] == [b"1", b"2"]
    assert last.next_offset == 3
    status, last = await pull(client, 3)
    assert status.status.code == pb.MESSAGE_NOT_FOUND
    assert last.next_offset == 3
    status, last = await pull(client, 100)
    assert status.status.code == pb.ILLEGAL_OFFSET
    (status,) = await pull(client, -1)
    assert status.status.code == pb.ILLEGAL_OFFSET
    (status,) = await pull(client, 0, queue=queue(number=7))
    assert status.status.code == pb.BAD_REQUEST


async def test_offsets_are_kept_and_found(at: Place, client: Client) -> None:
    await at.create_topic("t", queues=1)
    await at.create_group("g")
    began = now_ms()
    for number in range(3):
        await client.send("t", b"%d" % number)
    group = pb.Resource(name="g")

    async def get() -> Any:
        request = pb.GetOffsetRequest(group=group, message_queue=queue())
        return await client.call("GetOffset", request)

    async def query(policy: int, at_ms: int = 0) -> int:
        request = pb.QueryOffsetRequest(message_queue=queue(), query_offset_policy=policy)
        request.timestamp.FromMilliseconds(at_ms)
        answer = await client.call("QueryOffset", request)
        assert answer.status.code == pb.OK
        return int(answer.offset)

    update = pb.UpdateOffsetRequest(group=group, message_queue=queue(), offset=2)
    assert (await client.call("UpdateOffset", update)).status.code == pb.OK
    found = await get()
    assert (found.status.code, found.offset) == (pb.OK, 2)
    update.offset = -1
    assert (await client.call("UpdateOffset", update)).status.code == pb.ILLEGAL_OFFSET
    assert await query(pb.BEGINNING) == 0
    assert await query(pb.END) == 3
    assert await query(pb.TIMESTAMP, began - 1000) == 0
