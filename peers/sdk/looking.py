"""Finding messages and offsets again; trace and namespaces."""

import asyncio
import time

from peers.sdk.trial import Feature, Trial, bodies, check, collecting, equal, numbered, until
from rocketq.admin import messages, offsets
from rocketq.admin.session import connected
from rocketq.aio import Message, MessageExt, PullConsumer

# Java's clients keep offsets back for a while after a reset; the groups are told so, and wait.
RESET_WITHIN_S = 90.0


async def offsets_by_time(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    await producer.send(Message(topic, b"first"))
    queue = (await producer.publish_queues(topic))[0]
    for _ in range(3):
        await producer.send(Message(topic, b"early"), queue=queue)
    consumer: PullConsumer = await trial.opened(PullConsumer(trial.group(), namesrv=trial.namesrv))
    boundary = await consumer.max_offset(queue)
    await asyncio.sleep(0.02)
    now = time.time_ns() // 1_000_000
    await asyncio.sleep(0.02)
    for _ in range(3):
        await producer.send(Message(topic, b"late"), queue=queue)
    equal(await consumer.search_offset(queue, now), boundary)
    equal(await consumer.search_offset(queue, 0), 0)
    equal(await consumer.min_offset(queue), 0)


async def offset_reset(trial: Trial) -> None:
    topic, group = trial.topic(), trial.group()
    received: list[MessageExt] = []
    await trial.fill(topic, 20)
    await trial.opened(
        trial.consumer(group, collecting(received), topics=topic, persist_interval_s=0.2)
    )
    await until(lambda: len(received) == 20, "first delivery")

    async def is_committed() -> bool:
        async with connected(trial.namesrv) as api:
            result = await offsets.reset_to_time(api, group, topic, 0)
        return set(result.offsets.values()) == {0}

    await until(is_committed, "reset")
    await until(lambda: len(received) >= 40, "second delivery", RESET_WITHIN_S)
    equal(bodies(received), numbered("m", 20))


async def query_by_id(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    result = await producer.send(Message(topic, b"findable"))
    async with connected(trial.namesrv) as api:
        found = await messages.by_id(api, topic, result.offset_msg_id)
    equal(found and found.body, b"findable")


async def query_by_unique_key(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    result = await producer.send(Message(topic, b"findable"))
    found: list[MessageExt] = []

    async def is_found() -> bool:
        async with connected(trial.namesrv) as api:
            found.extend(await messages.by_unique_key(api, topic, result.msg_id))
        return bool(found)

    await until(is_found, "message by unique key")
    equal(bodies(found), {"findable"})


async def query_by_key(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    for number in range(3):
        keys = ["order-7", f"line-{number}"]
        await producer.send(Message(topic, b"k%d" % number, keys=keys))

    async def found(key: str) -> set[str]:
        async with connected(trial.namesrv) as api:
            return bodies(await messages.by_key(api, topic, key))

    async def all_are_found() -> bool:
        return await found("order-7") == numbered("k", 3)

    await until(all_are_found, "messages by key")
    equal(await found("line-1"), {"k1"})


async def trace(trial: Trial) -> None:
    topic, trace_topic = trial.topic(), trial.topic()
    producer = await trial.producer(trace=True, trace_topic=trace_topic)
    result = await producer.send(Message(topic, b"traced"))

    async def is_recorded() -> bool:
        async with connected(trial.namesrv) as api:
            found = await messages.by_key(api, trace_topic, result.msg_id)
        return any(body.startswith("Pub") for body in bodies(found))

    await until(is_recorded, "trace record")


async def namespace(trial: Trial) -> None:
    topic, space = trial.topic(), trial.group()
    received: list[MessageExt] = []
    inside = await trial.producer(namespace=space)
    await inside.send(Message(topic, b"inside"))
    await (await trial.producer()).send(Message(topic, b"outside"))
    await trial.opened(
        trial.consumer(trial.group(), collecting(received), topics=topic, namespace=space)
    )
    await until(lambda: bool(received), "message in the namespace")
    equal(bodies(received), {"inside"})
    check(all(message.topic == topic for message in received), "topic with its namespace")
    equal(bodies(await trial.consume(f"{space}%{topic}", "*", 1)), {"inside"})


FEATURES: dict[str, Feature] = {
    "offsets-by-time": offsets_by_time,
    "offset-reset": offset_reset,
    "query-by-id": query_by_id,
    "query-by-unique-key": query_by_unique_key,
    "query-by-key": query_by_key,
    "trace": trace,
    "namespace": namespace,
}
