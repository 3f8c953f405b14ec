"""Receives, and what consumers say about what they received."""

import asyncio
import time
from typing import Any

from tests.proxy.bare_client import Received, now_ms

from peers.grpc.cases.trial import Case, Consumer, Trial, check, equal
from rocketq.admin import topics
from rocketq.proxy.protocol import messages as pb


def handle_of(message: Any) -> str:
    handle: str = message.system_properties.receipt_handle
    return handle


async def checks(trial: Trial) -> None:
    topic = await trial.topic()
    consumer = await trial.consumer(topic)
    began = time.monotonic()
    empty = await consumer.pop()
    equal(empty.code, pb.MESSAGE_NOT_FOUND)
    check(time.monotonic() - began > 4.5, "answered early")
    check(empty.delivered_at.seconds > 0, "no time")
    short = await consumer.pop(timeout_s=3)
    equal(short.code, pb.ILLEGAL_POLLING_TIME)
    consumer.metadata["x-mq-client-version"] = "5.0.2"
    equal((await consumer.pop(timeout_s=3)).code, pb.BAD_REQUEST)
    consumer.metadata["x-mq-client-version"] = "5.1.2"
    began = time.monotonic()
    open_end = await consumer.pop(poll_s=None, timeout_s=9)
    equal(open_end.code, pb.MESSAGE_NOT_FOUND)
    check(time.monotonic() - began < 9, "longer than the deadline")
    for invisible_s in (5, 13 * 3600, None):
        equal((await consumer.pop(invisible_s=invisible_s)).code, pb.ILLEGAL_INVISIBLE_TIME)


async def arrival(trial: Trial) -> None:
    topic = await trial.topic()
    consumer = await trial.consumer(topic)
    client = trial.client()
    waiting = asyncio.ensure_future(consumer.pop(poll_s=20))
    await asyncio.sleep(1)
    sent = time.monotonic()
    await client.send(topic)
    received = await waiting
    equal((received.code, len(received.messages)), (pb.OK, 1))
    check(time.monotonic() - sent < 5, "not at once")


async def acks(trial: Trial) -> None:
    topic = await trial.topic(read=1, write=1)
    consumer = await trial.consumer(topic)
    group = consumer.group
    client = trial.client()
    for _ in range(3):
        await client.send(topic)
    first, second, third = await consumer.found(3, invisible_s=120)
    answer = await consumer.ack(topic, group, first)
    equal((answer.status.code, answer.entries[0].receipt_handle), (pb.OK, handle_of(first)))
    equal((await consumer.ack(topic, group, first)).status.code, pb.OK)
    changed = await consumer.change(topic, group, handle_of(second), 60)
    equal(changed.status.code, pb.OK)
    equal((await consumer.ack(topic, group, handle_of(second))).status.code, pb.OK)
    words = handle_of(third).split(" ")
    expired = " ".join([words[0], str(now_ms() - 200_000), *words[2:]])
    elsewhere = " ".join([*words[:5], "other-broker", *words[6:]])
    for wrong in (expired, elsewhere):
        code = (await consumer.ack(topic, group, wrong)).status.code
        equal(code, pb.INVALID_RECEIPT_HANDLE)
    junk = trial.either(pb.INTERNAL_SERVER_ERROR, pb.INVALID_RECEIPT_HANDLE)
    equal((await consumer.ack(topic, group, "junk")).status.code, junk)
    mixed = await consumer.ack(topic, group, handle_of(third), expired)
    equal(mixed.status.code, pb.MULTIPLE_RESULTS)
    codes = [entry.status.code for entry in mixed.entries]
    equal(codes, [pb.OK, pb.INVALID_RECEIPT_HANDLE])
    none = trial.either(pb.INTERNAL_SERVER_ERROR, pb.BAD_REQUEST)
    equal((await consumer.ack(topic, group)).status.code, none)


async def comes_again(trial: Trial) -> None:
    topic = await trial.topic()
    consumer = await trial.consumer(topic)
    await trial.client().send(topic, b"again")
    (first,) = await consumer.found(1, invisible_s=10)
    (second,) = await consumer.found(1, 90, poll_s=20)
    equal(second.body, b"again")
    equal(second.system_properties.message_id, first.system_properties.message_id)
    equal(second.system_properties.delivery_attempt, 2)
    check(handle_of(first) != handle_of(second), "the same handle")
    equal((await consumer.ack(topic, consumer.group, second)).status.code, pb.OK)


async def changes(trial: Trial) -> None:
    topic = await trial.topic()
    consumer = await trial.consumer(topic)
    group = consumer.group
    await trial.client().send(topic)
    (message,) = await consumer.found(1, invisible_s=60)
    changed = await consumer.change(topic, group, handle_of(message), 15)
    equal(changed.status.code, pb.OK)
    before, after = handle_of(message).split(" "), changed.receipt_handle.split(" ")
    equal((after[2], after[8]), ("15000", before[8]))
    far = await consumer.change(topic, group, changed.receipt_handle, 13 * 3600)
    equal(far.status.code, pb.ILLEGAL_INVISIBLE_TIME)
    junk = await consumer.change(topic, group, "junk", 10)
    wanted = trial.either(pb.INTERNAL_SERVER_ERROR, pb.INVALID_RECEIPT_HANDLE)
    equal((junk.status.code, junk.receipt_handle), (wanted, trial.either("", "junk")))
    began = time.monotonic()
    now = await consumer.change(topic, group, changed.receipt_handle, 0)
    equal(now.status.code, pb.OK)
    (again,) = await consumer.found(1, 40)
    equal(again.system_properties.delivery_attempt, 2)
    check(time.monotonic() - began < 13, "not before its time would have been over")


async def held(trial: Trial) -> None:
    """Three minutes with a push consumer, which says nothing of it."""
    topic = await trial.topic()
    holder = await trial.consumer(topic, push=True)
    other = await trial.consumer(topic, holder.group, push=True, begins=False)
    await trial.client().send(topic)
    (message,) = await holder.found(1, auto_renew=True)
    until = time.monotonic() + 180
    while time.monotonic() < until:
        equal((await other.pop(auto_renew=True, poll_s=20)).messages, [])
    equal((await holder.ack(topic, holder.group, message)).status.code, pb.OK)
    equal((await other.pop(auto_renew=True, poll_s=10)).messages, [])


async def killed(trial: Trial) -> None:
    """What a consumer held is free when it is not heard of, and soon after a goodbye."""
    topic = await trial.topic()
    first = await trial.consumer(topic, push=True)
    client = trial.client()
    await client.send(topic, b"goodbye")
    await first.found(1, auto_renew=True)
    second = await trial.consumer(topic, first.group, push=True, begins=False)
    equal(await first.goodbye(), pb.OK)
    began = time.monotonic()
    (message,) = await second.found(1, 50, auto_renew=True)
    check(time.monotonic() - began < 45, "as late as if nobody had said anything")
    equal((await second.ack(topic, first.group, message)).status.code, pb.OK)
    await client.send(topic, b"killed")
    (message,) = await second.found(1, auto_renew=True)
    await second.close()
    third = await trial.consumer(topic, first.group, push=True, begins=False)
    (message,) = await third.found(1, 200, auto_renew=True, poll_s=20)
    equal(message.body, b"killed")


async def cancelled(trial: Trial) -> None:
    topic = await trial.topic()
    consumer = await trial.consumer(topic)
    request = consumer.receive_request(topic, consumer.group, poll_s=20, invisible_s=600)
    stream = consumer.stream("ReceiveMessage", request)
    waiting = asyncio.ensure_future(stream.read())
    await asyncio.sleep(1)
    stream.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.sleep(0.5)
    await trial.client().send(topic, b"nobody")
    (message,) = await consumer.found(1, 40)
    equal((message.body, message.system_properties.delivery_attempt), (b"nobody", 1))


async def dead_after_two(trial: Trial) -> None:
    topic = await trial.topic()
    group = await trial.group(retry_max_times=1)
    consumer = await trial.consumer(topic, group)
    await trial.client().send(topic, b"bad")
    for attempt in (1, 2):
        (message,) = await consumer.found(1, 60, invisible_s=10)
        equal(message.system_properties.delivery_attempt, attempt)
        changed = await consumer.change(topic, group, handle_of(message), 1)
        equal(changed.status.code, pb.OK)
    await dead_letter(trial, group, consumer, b"bad")


async def dead_letter(trial: Trial, group: str, consumer: Consumer, body: bytes) -> None:
    """A group's only dead letter, read as any topic is; nothing comes to its consumer."""
    dead = f"%DLQ%{group}"
    deadline = time.monotonic() + 60
    route = pb.QueryRouteRequest(topic=pb.Resource(name=dead), endpoints=consumer.endpoints)
    while (await consumer.call("QueryRoute", route)).status.code != pb.OK:
        check(time.monotonic() < deadline, "no dead letter")
        equal((await consumer.pop()).messages, [])
    await permit(trial, dead)
    reader = await trial.consumer(dead, begins=False)
    (message,) = await reader.found(1, 60)
    equal(message.body, body)
    equal((await consumer.pop()).messages, [])


async def permit(trial: Trial, topic: str) -> None:
    """Dead letters are written only, until somebody wants to read them."""
    api = trial.system.admin
    await topics.change_permission(api, topic, 6, broker=None, cluster="DefaultCluster")


async def forwarded(trial: Trial) -> None:
    topic = await trial.topic()
    consumer = await trial.consumer(topic)
    await trial.client().send(topic, b"given up")
    (message,) = await consumer.found(1, invisible_s=10)

    def request(handle: str) -> Any:
        return pb.ForwardMessageToDeadLetterQueueRequest(
            group=pb.Resource(name=consumer.group),
            topic=pb.Resource(name=topic),
            receipt_handle=handle,
            message_id=message.system_properties.message_id,
        )

    short = " ".join(handle_of(message).split(" ")[:8])
    answer = await consumer.call("ForwardMessageToDeadLetterQueue", request(short))
    equal(answer.status.code, pb.INVALID_RECEIPT_HANDLE)
    answer = await consumer.call("ForwardMessageToDeadLetterQueue", request(handle_of(message)))
    equal(answer.status.code, pb.OK)
    await dead_letter(trial, consumer.group, consumer, b"given up")


async def in_order(trial: Trial) -> None:
    topic = await trial.topic("FIFO", read=1, write=1)
    group = await trial.group(consume_message_orderly=True)
    consumer = await trial.consumer(topic, group)
    client = trial.client()
    for number in range(3):
        await client.send(topic, b"%d" % number, message_group="one")

    async def asked(attempt: str, **more: Any) -> Received:
        return await consumer.pop(attempt_id=attempt, invisible_s=120, **more)

    first = await asked("a", batch_size=2)
    equal(first.bodies, [b"0", b"1"])
    same = await asked("a", batch_size=2)
    equal(same.bodies, [b"0", b"1"])
    equal(same.messages[0].system_properties.delivery_attempt, 1)
    equal((await asked("b")).code, pb.MESSAGE_NOT_FOUND)
    await consumer.ack(topic, group, same.messages[0])
    equal((await asked("c")).code, pb.MESSAGE_NOT_FOUND)
    await consumer.ack(topic, group, same.messages[1])
    equal((await asked("d")).bodies, [b"2"])


async def offsets(trial: Trial) -> None:
    """Calls that RocketMQ's proxy leaves out."""
    if trial.system.is_java:
        return
    client = trial.client()
    topic = await trial.topic(read=1, write=1)
    await client.send(topic, b"pulled")
    (queue,) = (
        await client.call(
            "QueryRoute",
            pb.QueryRouteRequest(topic=pb.Resource(name=topic), endpoints=client.endpoints),
        )
    ).message_queues
    request = pb.QueryOffsetRequest(message_queue=queue, query_offset_policy=pb.END)
    answer = await client.call("QueryOffset", request)
    equal((answer.status.code, answer.offset), (pb.OK, 1))


CASES: dict[str, Case] = {
    "13-receive-checks": checks,
    "14-arrival": arrival,
    "15-acks": acks,
    "16-comes-again": comes_again,
    "17-changes": changes,
    "18-held": held,
    "19-killed": killed,
    "20-cancelled": cancelled,
    "21-dead-after-two": dead_after_two,
    "22-forwarded": forwarded,
    "23-in-order": in_order,
    "offsets": offsets,
}
