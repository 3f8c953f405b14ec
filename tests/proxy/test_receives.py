"""ReceiveMessage, acknowledgements, more time, dead letters."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketq.proxy.protocol import messages as pb
from tests.proxy.bare_client import Client, now_ms
from tests.proxy.harness import BEFORE, HERE, Place, place
from tests.waiting import eventually

JUNK = ("", "junk", "0 1 2", "a b c d e f g h i", "0 1 2 3 7 broker-t 0 0 0", "x" * 5000)


async def send(client: Client, topic: str, count: int = 1, **more: Any) -> None:
    for number in range(count):
        answer = await client.send(topic, b"%d" % number, **more)
        assert answer.status.code == pb.OK, answer


async def test_nothing_is_found_when_the_time_is_over(tmp_path: Path) -> None:
    least = {"grpc_client_consumer_min_long_polling_timeout_millis": 2_000}
    async with place(tmp_path, HERE, proxy=least) as at:
        client = at.client()
        await at.create_topic("t")
        began = time.monotonic()
        received = await client.receive("t", "g", poll_s=0.1)  # raised to the least
        assert received.code == pb.MESSAGE_NOT_FOUND
        assert 1.5 < time.monotonic() - began < 18  # not the most
        assert abs(received.delivered_at.ToMilliseconds() - now_ms()) < 30_000


async def test_a_message_that_arrives_is_delivered_at_once(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await at.create_group("g")
    waiting = asyncio.ensure_future(client.receive("t", "g", poll_s=20))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await send(client, "t")
    received = await waiting
    assert received.bodies == [b"0"]
    assert time.monotonic() - began < 15  # not when its time is over


async def test_receives_are_checked(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await at.create_topic("write-only", perm=2)
    for code, more in (
        (pb.ILLEGAL_INVISIBLE_TIME, {"invisible_s": 1.9}),
        (pb.ILLEGAL_INVISIBLE_TIME, {"invisible_s": 13 * 3600}),
        (pb.ILLEGAL_INVISIBLE_TIME, {"invisible_s": None}),
        (pb.ILLEGAL_FILTER_EXPRESSION, {"expression": "|| ||"}),
    ):
        assert (await client.receive("t", "g", **more)).code == code, more
    for topic, group, code in (
        ("a b", "g", pb.ILLEGAL_TOPIC),
        ("unknown", "g", pb.TOPIC_NOT_FOUND),
        ("t", "a b", pb.ILLEGAL_CONSUMER_GROUP),
        ("write-only", "g", pb.FORBIDDEN),
    ):
        assert (await client.receive(topic, group)).code == code


@pytest.mark.parametrize("mode", [HERE, BEFORE])
async def test_a_deadline_too_short_to_wait_is_refused(tmp_path: Path, mode: str) -> None:
    least = {"grpc_client_consumer_min_long_polling_timeout_millis": 19_000}
    async with place(tmp_path, mode, proxy=least) as at:
        await at.create_topic("t")
        for version, code in (("5.0.2", pb.BAD_REQUEST), ("5.1.2", pb.ILLEGAL_POLLING_TIME)):
            client = at.client(x_mq_client_version=version)
            assert (await client.receive("t", "g", timeout_s=18, poll_s=None)).code == code


async def test_a_receive_without_a_deadline_is_served(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await send(client, "t")
    assert (await client.receive("t", "g", timeout_s=None)).bodies == [b"0"]


async def test_tags_and_conditions_select(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await at.create_group("g")
    for tag in ("a", "b", "Aa", "BB"):  # the hashes of the last two are the same
        await client.send("t", tag.encode(), tag=tag)
    found = await client.receive_all("t", "g", 2, expression="a || Aa")
    assert sorted(message.body for message in found) == [b"Aa", b"a"]


async def test_an_acknowledged_message_does_not_come_again(at: Place, client: Client) -> None:
    await at.create_topic("t", queues=1)
    await send(client, "t", 3)
    messages = await client.receive_all("t", "g", 3)
    answer = await client.ack("t", "g", *messages)
    assert answer.status.code == pb.OK
    assert [entry.status.code for entry in answer.entries] == [pb.OK] * 3
    handles = [message.system_properties.receipt_handle for message in messages]
    assert [entry.receipt_handle for entry in answer.entries] == handles
    # Said twice it is still fine, and says nothing.
    assert (await client.ack("t", "g", messages[0])).status.code == pb.OK


async def test_what_cannot_be_acknowledged_says_so(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await send(client, "t")
    (message,) = await client.receive_all("t", "g", 1)
    good = message.system_properties.receipt_handle
    words = good.split(" ")
    expired = " ".join([words[0], str(now_ms() - 20_000), *words[2:]])
    elsewhere = " ".join([*words[:5], "other-broker", *words[6:]])
    beyond = " ".join([*words[:6], "77", *words[7:]])
    for handle in (*JUNK, expired, elsewhere, beyond):
        answer = await client.ack("t", "g", handle)
        assert answer.status.code == pb.INVALID_RECEIPT_HANDLE, handle[:50]
        assert answer.entries[0].receipt_handle == handle
    mixed = await client.ack("t", "g", good, "junk")
    assert mixed.status.code == pb.MULTIPLE_RESULTS
    codes = [entry.status.code for entry in mixed.entries]
    assert codes == [pb.OK, pb.INVALID_RECEIPT_HANDLE]
    mixed = await client.ack("t", "g", good, good, beyond)
    codes = [entry.status.code for entry in mixed.entries]
    assert codes == [pb.OK, pb.OK, pb.INVALID_RECEIPT_HANDLE]
    assert (await client.ack("t", "g")).status.code == pb.BAD_REQUEST
    assert (await client.ack("a b", "g", good)).status.code == pb.ILLEGAL_TOPIC


async def test_more_time_and_less(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await send(client, "t")
    (message,) = await client.receive_all("t", "g", 1)
    first = message.system_properties.receipt_handle
    answer = await client.change("t", "g", first, 15)
    assert answer.status.code == pb.OK
    renewed = answer.receipt_handle
    assert renewed != first
    assert renewed.split(" ")[2] == "15000"
    assert renewed.split(" ")[8] == first.split(" ")[8]
    again = await client.change("t", "g", renewed, 0)
    assert again.status.code == pb.OK
    (second,) = await client.receive_all("t", "g", 1)
    assert second.body == message.body
    assert second.system_properties.delivery_attempt == 2
    assert second.system_properties.receipt_handle != renewed
    for handle, invisible_s, code in (
        (first, 13 * 3600, pb.ILLEGAL_INVISIBLE_TIME),
        (first, -1, pb.ILLEGAL_INVISIBLE_TIME),
        ("junk", 10, pb.INVALID_RECEIPT_HANDLE),
    ):
        refused = await client.change("t", "g", handle, invisible_s)
        assert refused.status.code == code
        assert refused.receipt_handle == handle  # clients take it before they look


async def test_a_message_comes_again_when_its_time_is_over(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await send(client, "t")
    (first,) = await client.receive_all("t", "g", 1, invisible_s=2)
    (second,) = await client.receive_all("t", "g", 1, poll_s=20)
    assert second.system_properties.message_id == first.system_properties.message_id
    assert second.system_properties.delivery_attempt == 2
    old = first.system_properties.receipt_handle
    assert (await client.ack("t", "g", old)).status.code == pb.INVALID_RECEIPT_HANDLE
    assert (await client.ack("t", "g", second)).status.code == pb.OK


async def test_what_was_tried_too_often_becomes_a_dead_letter(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await at.create_group("g", retry_max_times=1)
    await send(client, "t")
    for attempt in (1, 2):
        (message,) = await client.receive_all("t", "g", 1)
        assert message.system_properties.delivery_attempt == attempt
        handle = message.system_properties.receipt_handle
        assert (await client.change("t", "g", handle, 0)).status.code == pb.OK
    waiting = asyncio.ensure_future(client.receive("t", "g", poll_s=1))

    async def dead() -> bool:
        return len(await at.broker.messages("%DLQ%g")) == 1

    await eventually(dead)
    assert (await waiting).messages == []


async def forward(client: Client, handle: str, **more: Any) -> Any:
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=pb.Resource(name="g"),
        topic=pb.Resource(name="t"),
        receipt_handle=handle,
        message_id="id",
        delivery_attempt=1,
        max_delivery_attempts=1,
        **more,
    )
    return await client.call("ForwardMessageToDeadLetterQueue", request)


async def test_a_client_can_give_up_a_message(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await send(client, "t")
    (message,) = await client.receive_all("t", "g", 1)
    handle = message.system_properties.receipt_handle
    short = " ".join(handle.split(" ")[:8])
    assert (await forward(client, short)).status.code == pb.INVALID_RECEIPT_HANDLE
    assert (await forward(client, "junk")).status.code == pb.INVALID_RECEIPT_HANDLE
    lite = await forward(client, handle, lite_topic="x")
    assert lite.status.code == pb.ILLEGAL_LITE_TOPIC
    answer = await forward(client, handle)
    assert answer.status.code == pb.OK
    assert answer.status.message
    (letter,) = await client.receive_all("%DLQ%g", "readers-of-letters", 1)
    assert letter.body == message.body
    assert (await client.receive("t", "g", poll_s=1)).code == pb.MESSAGE_NOT_FOUND


async def test_a_cancelled_receive_takes_nothing(at: Place, client: Client) -> None:
    """What it popped meanwhile comes again soon, and as if for the first time."""
    await at.create_topic("t")
    await at.create_group("g")
    request = client.receive_request("t", "g", poll_s=20, invisible_s=600)
    stream = client.stream("ReceiveMessage", request)
    waiting = asyncio.ensure_future(stream.read())
    await asyncio.sleep(0.3)
    stream.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0.2)
    await send(client, "t")
    (message,) = await client.receive_all("t", "g", 1)
    assert message.body == b"0"
    assert message.system_properties.delivery_attempt == 1


async def test_a_receive_of_nothing_waits_and_finds_nothing(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await send(client, "t")
    assert (await client.receive("t", "g", batch_size=0)).code == pb.MESSAGE_NOT_FOUND


async def test_messages_in_order(at: Place, client: Client) -> None:
    await at.create_topic("t", "FIFO", queues=1)
    await at.create_group("g", consume_message_orderly=True)
    await send(client, "t", 3, message_group="one")
    first = await client.receive("t", "g", batch_size=2, attempt_id="a", invisible_s=60)
    assert first.bodies == [b"0", b"1"]
    same = await client.receive("t", "g", batch_size=2, attempt_id="a", invisible_s=60)
    assert same.bodies == [b"0", b"1"]
    assert same.messages[0].system_properties.delivery_attempt == 1
    assert (await client.receive("t", "g", attempt_id="b")).code == pb.MESSAGE_NOT_FOUND
    await client.ack("t", "g", same.messages[0])
    assert (await client.receive("t", "g", attempt_id="c")).code == pb.MESSAGE_NOT_FOUND
    await client.ack("t", "g", same.messages[1])
    last = await client.receive("t", "g", attempt_id="d")
    assert last.bodies == [b"2"]


@pytest.fixture(params=[HERE, BEFORE])
async def impatient(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A place where what push consumers hold is hidden for three seconds at first."""
    quick = {"default_invisible_time_mills": 3_000, "renew_ahead_time_millis": 1_500}
    async with place(tmp_path, request.param, proxy=quick) as running:
        yield running


async def test_what_a_push_consumer_holds_is_renewed(impatient: Place) -> None:
    client = impatient.client()
    await impatient.create_topic("t")
    await client.introduce(client.consumer_settings("g", "t"))
    await send(client, "t")
    received = await client.receive("t", "g", auto_renew=True, invisible_s=None)
    (message,) = received.messages
    assert message.system_properties.receipt_handle.split(" ")[2] == "3000"
    other = await client.receive("t", "g", auto_renew=True, invisible_s=None, poll_s=5)
    assert other.code == pb.MESSAGE_NOT_FOUND
    # The first handle, long expired, counts for the newest.
    assert (await client.ack("t", "g", message)).status.code == pb.OK
    old = message.system_properties.receipt_handle
    assert (await client.ack("t", "g", old)).status.code == pb.INVALID_RECEIPT_HANDLE


async def test_what_a_consumer_held_is_free_when_it_says_goodbye(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await client.introduce(client.consumer_settings("g", "t"))
    await send(client, "t")
    await client.receive("t", "g", auto_renew=True, invisible_s=None)
    goodbye = pb.NotifyClientTerminationRequest(group=pb.Resource(name="g"))
    assert (await client.call("NotifyClientTermination", goodbye)).status.code == pb.OK
    other = at.client()
    began = time.monotonic()
    (message,) = await other.receive_all("t", "g", 1, poll_s=20)
    assert time.monotonic() - began < 15  # not the minute for which it was popped
    assert message.system_properties.delivery_attempt == 1


async def test_nobody_renews_for_a_stranger(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await send(client, "t")
    received = await client.receive("t", "g", auto_renew=True, invisible_s=None)
    assert received.code == pb.MESSAGE_NOT_FOUND
    (message,) = await client.receive_all("t", "g", 1)
    assert message.body == b"0"


async def test_thirty_two_large_messages_at_once(at: Place, client: Client) -> None:
    await at.create_topic("t", queues=1)
    body = bytes(512 * 1024)
    for _ in range(8):
        assert (await client.send("t", body)).status.code == pb.OK
    received = await client.receive("t", "g", invisible_s=60)
    found = [len(each) for each in received.bodies]
    while len(found) < 8:
        found += [len(each) for each in (await client.receive("t", "g", invisible_s=60)).bodies]
    assert found == [len(body)] * 8
