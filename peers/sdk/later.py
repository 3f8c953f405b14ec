"""What only brokers of RocketMQ 5 can do: pop, messages of any delay, recall, priorities."""

import time

from peers.sdk.trial import Feature, Trial, bodies, check, collecting, equal, numbered, until
from rocketq.admin import groups, topics
from rocketq.admin.session import connected
from rocketq.aio import ConsumeLater, Message, MessageExt, SimpleConsumer
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig


async def timer(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    arrived: dict[bytes, float] = {}

    async def listener(message: MessageExt) -> None:
        arrived[message.body] = time.time()

    await producer.send(Message(topic, b"now"))
    await trial.opened(trial.consumer(trial.group(), listener, topics=topic))
    await until(lambda: b"now" in arrived, "first message")
    sent = time.time()
    await producer.send(Message(topic, b"delay", delay=2.5))
    await producer.send(Message(topic, b"moment", deliver_at_ms=int((sent + 4) * 1000)))
    await until(lambda: {b"delay", b"moment"} <= arrived.keys(), "timed messages")
    for body, wanted in ((b"delay", 2.5), (b"moment", 4.0)):
        after = arrived[body] - sent
        check(wanted - 0.1 <= after < wanted + 2.5, f"{body.decode()} after {after:.2f} s")


async def recall(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    received: list[MessageExt] = []
    await producer.send(Message(topic, b"now"))
    await trial.opened(trial.consumer(trial.group(), collecting(received), topics=topic))
    at_ms = int((time.time() + 6) * 1000)
    taken_back = await producer.send(Message(topic, b"taken back", deliver_at_ms=at_ms))
    await producer.send(Message(topic, b"kept", deliver_at_ms=at_ms))
    equal(await producer.recall(topic, taken_back.recall_handle), taken_back.msg_id)
    await until(lambda: "kept" in bodies(received), "the message that was kept")
    equal(bodies(received), {"now", "kept"})


async def simple_consumer(trial: Trial) -> None:
    topic, group = trial.topic(), trial.group()
    await trial.fill(topic, 40)
    consumer: SimpleConsumer = await trial.opened(
        SimpleConsumer(group, namesrv=trial.namesrv, topics=topic, consume_from="first")
    )
    received: list[MessageExt] = []

    async def has_all() -> bool:
        found = await consumer.receive(max_messages=8, invisible_s=60, wait_s=5)
        await consumer.ack(found)
        received.extend(found)
        return len(received) >= 40

    await until(has_all, "messages")
    equal(sorted(message.body for message in received), sorted(b"m%d" % n for n in range(40)))
    equal(await consumer.receive(wait_s=0), [])


async def simple_again(trial: Trial) -> None:
    """What is not acknowledged comes again, later if more time was asked for."""
    topic, group = trial.topic(), trial.group()
    await trial.fill(topic, 3)
    consumer: SimpleConsumer = await trial.opened(
        SimpleConsumer(group, namesrv=trial.namesrv, topics=topic, consume_from="first")
    )
    received: dict[str, MessageExt] = {}

    async def has_all() -> bool:
        for message in await consumer.receive(invisible_s=12, wait_s=5):
            received[message.body.decode()] = message
        return len(received) == 3

    await until(has_all, "messages")
    await consumer.ack(received["m0"])
    await consumer.change_invisible(received["m1"], 2)
    again: list[tuple[str, int]] = []

    async def came_again() -> bool:
        for message in await consumer.receive(invisible_s=60, wait_s=5):
            await consumer.ack(message)
            again.append((message.body.decode(), message.reconsume_times))
        return len(again) >= 2

    await until(came_again, "both again")
    equal(again, [("m1", 1), ("m2", 1)])


async def _popping(trial: Trial, topic: str, group: str) -> None:
    """Have a group pop a topic."""
    async with connected(trial.namesrv) as api:
        route = await topics.route(api, topic)
        for broker in route.broker_datas:
            address = broker.broker_addrs[0]
            await groups.create(api, SubscriptionGroupConfig(group_name=group), [address])
            await groups.set_mode(api, address, topic, group, "POP", 0)


async def pop_push(trial: Trial) -> None:
    topic, group = trial.topic(), trial.group()
    await trial.fill(topic, 100)
    await _popping(trial, topic, group)
    received: list[MessageExt] = []
    consumer = trial.consumer(group, collecting(received), topics=topic, rebalance="broker")
    async with consumer:
        await until(lambda: len(received) >= 100, "messages")
    equal(bodies(received), numbered("m", 100))
    popped = [message for message in received if message.get_property("POP_CK")]
    equal(len(popped), 100)


async def pop_retry(trial: Trial) -> None:
    topic, group = trial.topic(), trial.group()
    await trial.fill(topic, 1)
    await _popping(trial, topic, group)
    times: list[int] = []

    async def listener(message: MessageExt) -> None:
        times.append(message.reconsume_times)
        if len(times) == 1:
            raise ConsumeLater("once more")

    async with trial.consumer(group, listener, topics=topic, rebalance="broker"):
        await until(lambda: len(times) >= 2, "a second attempt", 60)
    equal(times, [0, 1])


async def priority(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    await producer.send(Message(topic, b"first"))
    urgent = await producer.send(Message(topic, b"urgent", priority=2))
    equal(urgent.queue.queue_id, 2)
    most = await producer.send(Message(topic, b"most", priority=1_000))
    queues = await producer.publish_queues(topic)
    equal(most.queue.queue_id, len(queues) - 1)


FEATURES: dict[str, Feature] = {
    "timer": timer,
    "recall": recall,
    "simple-consumer": simple_consumer,
    "simple-again": simple_again,
    "pop-push": pop_push,
    "pop-retry": pop_retry,
    "priority": priority,
}
