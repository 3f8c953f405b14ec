"""Sends: what is checked, what is kept, in which queue it lies, when it comes."""

import asyncio
import gzip
import hashlib
import time
import zlib
from typing import Any

from tests.proxy.bare_client import Client, now_ms

from peers.grpc.cases.trial import Case, Trial, check, equal
from rocketq.aio import Message, Producer
from rocketq.proxy.protocol import messages as pb


async def checks(trial: Trial) -> None:
    client = trial.client()
    topic, closed = await trial.topic(), await trial.topic(perm=4)
    many = {f"k{number}": "v" for number in range(129)}
    conflict = pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    for code, message in (
        (pb.MESSAGE_BODY_EMPTY, {"body": b""}),
        (pb.MESSAGE_BODY_TOO_LARGE, {"body": bytes(4 * 1024 * 1024 + 1)}),
        (pb.MESSAGE_PROPERTIES_TOO_LARGE, {"user": many}),
        (pb.MESSAGE_PROPERTIES_TOO_LARGE, {"user": {"k": "v" * 16385}}),
        (pb.ILLEGAL_MESSAGE_PROPERTY_KEY, {"user": {"UNIQ_KEY": "v"}}),
        (pb.ILLEGAL_MESSAGE_PROPERTY_KEY, {"user": {"k": "a\x01b"}}),
        (pb.ILLEGAL_MESSAGE_TAG, {"tag": "  "}),
        (pb.ILLEGAL_MESSAGE_TAG, {"tag": "a|b"}),
        (pb.ILLEGAL_MESSAGE_KEY, {"keys": [" "]}),
        (pb.ILLEGAL_MESSAGE_ID, {"message_id": ""}),
        (pb.ILLEGAL_DELIVERY_TIME, {"deliver_ms": now_ms() + 25 * 3_600_000}),
        (trial.either(pb.INTERNAL_SERVER_ERROR, pb.BAD_REQUEST), {"priority": -1}),
        (pb.ILLEGAL_MESSAGE_GROUP, {"message_group": "x" * 64}),
        (pb.ILLEGAL_MESSAGE_GROUP, {"message_group": " "}),
        (conflict, {"message_group": "x" * 63}),
        (conflict, {"deliver_ms": now_ms() + 1000}),
        (conflict, {"priority": 1}),
        (conflict, {"message_type": pb.TRANSACTION}),
        (pb.OK, {"message_type": pb.FIFO}),
        (pb.OK, {"tag": "", "keys": [""]}),
    ):
        got = (await client.send(topic, **message)).status.code
        check(got == code, f"{str(message)[:60]}: wanted {code}, got {got}")
    equal((await client.send("a b")).status.code, pb.ILLEGAL_TOPIC)
    equal((await client.send(closed)).status.code, pb.FORBIDDEN)
    unknown = await client.send(trial.name())
    equal(unknown.status.code, trial.either(conflict, pb.TOPIC_NOT_FOUND))
    nothing = await client.call("SendMessage", pb.SendMessageRequest())
    equal(nothing.status.code, pb.MESSAGE_CORRUPTED)
    two = pb.SendMessageRequest(messages=[client.message(topic), client.message(closed)])
    equal((await client.call("SendMessage", two)).status.code, pb.MESSAGE_CORRUPTED)


async def properties(trial: Trial) -> None:
    client = trial.client()
    topic = await trial.topic("MIXED")
    consumer = await trial.consumer(topic)
    sent = client.message(
        topic, b"hello", tag="paid", keys=["k1", "k2"], user={"a": "b"}, message_group="g1"
    )
    sent.system_properties.trace_context = "trace"
    sent.system_properties.born_host = "here"
    sent.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    answer = await client.call("SendMessage", pb.SendMessageRequest(messages=[sent]))
    equal(answer.status.code, pb.OK)
    equal(answer.entries[0].message_id, sent.system_properties.message_id)
    check(bool(answer.entries[0].transaction_id), "no transaction id")
    (message,) = await consumer.found(1)
    system = message.system_properties
    equal((message.topic.name, message.body), (topic, b"hello"))
    equal(message.user_properties["a"], "b")
    equal((system.tag, list(system.keys)), ("paid", ["k1", "k2"]))
    equal(system.message_id, sent.system_properties.message_id)
    equal(system.body_digest.type, pb.MD5)
    equal(system.body_digest.checksum, "5D41402ABC4B2A76B9719D911017C592")
    equal((system.body_encoding, system.message_type), (pb.IDENTITY, pb.FIFO))
    equal((system.message_group, system.trace_context), ("g1", "trace"))
    equal(system.born_timestamp.ToMilliseconds(), 1_700_000_000_123)
    equal((system.born_host, system.delivery_attempt), ("here", 1))
    equal(len(system.receipt_handle.split(" ")), 9)
    equal(system.queue_offset, 0)


async def groups_of_messages(trial: Trial) -> None:
    """The queue that a message group has, and the order in it."""
    topic = await trial.topic("FIFO")
    consumer = await trial.consumer(topic)
    queues = {"one": 0, "two": 1, "order-1": 3, "order-2": 2, "a": 0, "x" * 63: 2}
    client = trial.client()
    for name in queues:
        await client.send(topic, name.encode(), message_group=name)
    for message in await consumer.found(len(queues)):
        equal(message.system_properties.queue_id, queues[message.body.decode()])
        await consumer.ack(topic, consumer.group, message)

    async def produce(number: int) -> None:
        producer = trial.client()
        for at in range(334):
            answer = await producer.send(topic, b"%d" % at, message_group=f"group-{number}")
            equal(answer.status.code, pb.OK)

    await asyncio.gather(*(produce(number) for number in range(3)))
    seen: dict[str, list[tuple[int, int]]] = {}
    for message in await consumer.found(1002, 120, invisible_s=300):
        system = message.system_properties
        seen.setdefault(system.message_group, []).append((system.queue_offset, int(message.body)))
    for each in seen.values():
        equal([body for _, body in sorted(each)], list(range(334)))


def plain(message: Any) -> bytes:
    """A body as a client reads it that looks at its first bytes."""
    body: bytes = message.body
    if message.system_properties.body_encoding != pb.GZIP:
        return body
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else zlib.decompress(body)


async def compressed(trial: Trial) -> None:
    """What remoting clients send, in any compression, and what they read of ours."""
    topic = await trial.topic()
    consumer = await trial.consumer(topic)
    body = b"hello " * 100
    # RocketMQ's proxy calls all of them GZIP, which is true of one.
    kinds = ["none", "zlib"] if trial.system.is_java else ["none", "zlib", "lz4", "zstd"]
    for kind in kinds:
        options = {} if kind == "none" else {"compress_above": 1, "compression": kind}
        producer: Producer = await trial.opened(
            Producer(
                f"P-{kind}",
                namesrv=trial.system.namesrv,
                instance_name=f"{kind}-{trial.name()}",
                send_timeout_s=30,
                **options,  # type: ignore[arg-type]
            )
        )
        await producer.send(Message(topic, body, tags=kind, keys=["key", kind]))
    for message in await consumer.found(len(kinds)):
        equal(plain(message), body)
        system = message.system_properties
        check(system.tag in kinds, f"tag {system.tag}")
        equal(list(system.keys), ["key", system.tag])
        digest = hashlib.md5(message.body, usedforsecurity=False).hexdigest().upper()
        equal(system.body_digest.checksum, digest)
        if not trial.system.is_java:
            equal(system.body_encoding, pb.IDENTITY)


async def delays(trial: Trial) -> None:
    client = trial.client()
    topic = await trial.topic("DELAY")
    consumer = await trial.consumer(topic)
    due = now_ms() + 6_000
    late = await client.send(topic, b"late", deliver_ms=due)
    equal(late.status.code, pb.OK)
    check(bool(late.entries[0].recall_handle), "no recall handle")
    past = await client.send(topic, b"past", deliver_ms=now_ms() - 60_000)
    equal(past.status.code, pb.OK)
    (first,) = await consumer.found(1)
    equal(first.body, b"past")
    check(now_ms() < due, "what is past waited")
    (second,) = await consumer.found(1)
    equal((second.body, second.system_properties.message_type), (b"late", pb.DELAY))
    # Java's wheel turns once a second, and this machine may be busy.
    check(-1_000 <= now_ms() - due <= 3_000, f"{now_ms() - due} ms late")
    far = await client.send(topic, b"far", deliver_ms=now_ms() + 25 * 3_600_000)
    equal(far.status.code, pb.ILLEGAL_DELIVERY_TIME)


async def recall(client: Client, topic: str, handle: str) -> Any:
    request = pb.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle=handle)
    return await client.call("RecallMessage", request)


async def recalls(trial: Trial) -> None:
    client = trial.client()
    topic, normal = await trial.topic("DELAY"), await trial.topic()
    consumer = await trial.consumer(topic)
    sent = (await client.send(topic, b"never", deliver_ms=now_ms() + 10_000)).entries[0]
    taken = await recall(client, topic, sent.recall_handle)
    equal((taken.status.code, taken.message_id), (pb.OK, sent.message_id))
    equal((await recall(client, topic, sent.recall_handle)).status.code, pb.OK)
    conflict = await recall(client, normal, sent.recall_handle)
    equal(conflict.status.code, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE)
    junk = await recall(client, topic, "junk")
    equal(junk.status.code, trial.either(pb.INTERNAL_SERVER_ERROR, pb.BAD_REQUEST))
    soon = (await client.send(topic, b"soon", deliver_ms=now_ms() + 2_000)).entries[0]
    last = (await client.send(topic, b"last", deliver_ms=now_ms() + 14_000)).entries[0]
    (message,) = await consumer.found(1)
    equal((message.body, message.system_properties.message_id), (b"soon", soon.message_id))
    await consumer.ack(topic, consumer.group, message)
    check((await recall(client, topic, soon.recall_handle)).status.code != pb.OK, "recalled late")
    (message,) = await consumer.found(1)
    equal((message.body, message.system_properties.message_id), (b"last", last.message_id))


async def priorities(trial: Trial) -> None:
    client = trial.client()
    topic = await trial.topic("PRIORITY")
    consumer = await trial.consumer(topic)
    for priority in (0, 3, 1, 5):
        answer = await client.send(topic, b"%d" % priority, priority=priority)
        equal(answer.status.code, pb.OK)
    found = await consumer.found(4, batch_size=1, invisible_s=120)
    equal([int(message.body) for message in found], [3, 5, 1, 0])
    equal([message.system_properties.priority for message in found], [3, 5, 1, 0])


async def large(trial: Trial) -> None:
    topic = await trial.topic(read=1, write=1)
    consumer = await trial.consumer(topic)
    client = trial.client()
    body = bytes(range(256)) * (16 * 1024 - 8)
    for _ in range(8):
        equal((await client.send(topic, body)).status.code, pb.OK)
    began = time.monotonic()
    for message in await consumer.found(8, 120, invisible_s=300):
        check(message.body == body, "another body")
    check(time.monotonic() - began < 120, "too slow")


CASES: dict[str, Case] = {
    "9-send-checks": checks,
    "10-properties": properties,
    "11-message-groups": groups_of_messages,
    "12-compressed": compressed,
    "27-delays": delays,
    "28-recalls": recalls,
    "29-priorities": priorities,
    "33-large-bodies": large,
}
