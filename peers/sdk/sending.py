"""Every way of sending."""

import asyncio
import time

from peers.sdk.trial import (
    WITHIN_S,
    Feature,
    Trial,
    bodies,
    check,
    collecting,
    equal,
    numbered,
    until,
)
from rocketq.aio import (
    Message,
    MessageExt,
    RocketqError,
    SendStatus,
    TransactionProducer,
    TransactionState,
)

MESSAGE_ILLEGAL = 13


async def send_sync(trial: Trial) -> None:
    topic, producer, queues = trial.topic(), await trial.producer(), set()
    for number in range(8):
        result = await producer.send(Message(topic, b"m%d" % number))
        equal(result.status, SendStatus.SEND_OK)
        equal(len(result.offset_msg_id), 32)
        queues.add(result.queue.queue_id)
    equal(len(queues), 4)
    equal(bodies(await trial.consume(topic, "*", 8)), numbered("m", 8))


async def send_async(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer(send_timeout_s=WITHIN_S)
    await producer.send(Message(topic, b"m0"))
    sends = [producer.send_soon(Message(topic, b"m%d" % number)) for number in range(1, 200)]
    check(all(result.is_ok for result in await asyncio.gather(*sends)), "a send failed")
    equal(bodies(await trial.consume(topic, "*", 200)), numbered("m", 200))


async def send_oneway(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    await producer.send(Message(topic, b"m0"))
    for number in range(1, 50):
        await producer.send_oneway(Message(topic, b"m%d" % number))
    equal(bodies(await trial.consume(topic, "*", 50)), numbered("m", 50))


async def send_to_queue(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    await producer.send(Message(topic, b"first"))
    queue = (await producer.publish_queues(topic))[2]
    for number in range(5):
        equal((await producer.send(Message(topic, b"m%d" % number), queue=queue)).queue, queue)
    for message in await trial.consume(topic, "*", 6):
        if message.body != b"first":
            equal(message.queue_id, queue.queue_id)


async def send_batch(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    batch = [
        Message(
            topic,
            b"m%d" % number,
            tags="batch",
            keys=[f"key-{number}"],
            properties={"number": str(number)},
        )
        for number in range(32)
    ]
    results = await producer.send_batch(batch)
    equal(len({result.offset_msg_id for result in results}), 32)
    received = await trial.consume(topic, "batch", 32)
    equal(bodies(received), numbered("m", 32))
    for message in received:
        equal(f"m{message.properties['number']}", message.body.decode())


async def ordered(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    for number in range(40):
        await producer.send(
            Message(topic, b"%d:%d" % (number % 4, number // 4)),
            selector=lambda queues, message, key: queues[key % len(queues)],
            key=number % 4,
        )
    received: list[MessageExt] = []
    await trial.opened(
        trial.consumer(trial.group(), collecting(received), topics=topic, orderly=True)
    )
    await until(lambda: len(received) == 40, "ordered messages")
    for lane in range(4):
        numbers = [body.split(":")[1] for body in _texts(received) if body.startswith(f"{lane}:")]
        equal(numbers, [str(number) for number in range(10)])


def _texts(messages: list[MessageExt]) -> list[str]:
    return [message.body.decode() for message in messages]


async def delay(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    arrived: dict[bytes, float] = {}

    async def listener(message: MessageExt) -> None:
        arrived[message.body] = time.monotonic()

    await producer.send(Message(topic, b"now"))
    await trial.opened(trial.consumer(trial.group(), listener, topics=topic))
    await until(lambda: b"now" in arrived, "first message")
    sent = time.monotonic()
    await producer.send(Message(topic, b"one", delay_level=1))
    await producer.send(Message(topic, b"two", delay_level=2))
    await until(lambda: {b"one", b"two"} <= arrived.keys(), "delayed messages")
    first, second = arrived[b"one"] - sent, arrived[b"two"] - sent
    check(0.95 <= first < 2.5, f"level 1 after {first:.2f} s")
    check(4.95 <= second < 6.5, f"level 2 after {second:.2f} s")


def transaction(outcome: TransactionState) -> Feature:
    async def feature(trial: Trial) -> None:
        topic, plain = trial.topic(), await trial.producer()
        checks: list[str] = []
        seen: list[MessageExt] = []

        async def execute(message: Message, argument: object) -> TransactionState:
            return outcome

        async def look_up(message: MessageExt) -> TransactionState:
            checks.append(message.msg_id)
            return TransactionState.COMMIT

        await plain.send(Message(topic, b"plain"))
        producer = await trial.opened(
            TransactionProducer(
                trial.group(), execute=execute, check=look_up, namesrv=trial.namesrv
            )
        )
        await trial.opened(trial.consumer(trial.group(), collecting(seen), topics=topic))
        await until(lambda: "plain" in bodies(seen), "plain message")
        result = await producer.send_in_transaction(Message(topic, b"half", keys=["tx"]))
        equal(result.state, outcome)
        if outcome is TransactionState.ROLLBACK:
            await plain.send(Message(topic, b"after"))
            await until(lambda: "after" in bodies(seen), "message after the rollback")
            check("half" not in bodies(seen), "a rolled-back message was delivered")
        else:
            await until(lambda: "half" in bodies(seen), "committed message", 3 * WITHIN_S)
            equal(bool(checks), outcome is TransactionState.UNKNOWN)

    return feature


async def large_body(trial: Trial) -> None:
    topic = trial.topic()
    producer = await trial.producer(
        send_timeout_s=20, max_message_size=10_000_000, compress_above=100_000_000
    )
    large = bytes(range(256)) * 15_234
    await producer.send(Message(topic, b"small"))
    await producer.send(Message(topic, large))
    received = await trial.consume(topic, "*", 2)
    check(large in [message.body for message in received], "large body differs")
    try:
        await producer.send(Message(topic, bytes(5_000_000)))
    except RocketqError as refused:
        equal(getattr(refused, "code", None), MESSAGE_ILLEGAL)
    else:
        raise AssertionError("a body above the broker's limit was taken")


async def compressed_body(trial: Trial) -> None:
    topic, text = trial.topic(), b"x" * 100_000
    await (await trial.producer()).send(Message(topic, text))
    (message,) = await trial.consume(topic, "*", 1)
    check(message.body == text, "decompressed body differs")
    check(message.store_size < 5000, f"stored compressed: {message.store_size}")


FEATURES: dict[str, Feature] = {
    "send-sync": send_sync,
    "send-async": send_async,
    "send-oneway": send_oneway,
    "send-to-queue": send_to_queue,
    "send-batch": send_batch,
    "ordered": ordered,
    "delay": delay,
    "transaction-commit": transaction(TransactionState.COMMIT),
    "transaction-rollback": transaction(TransactionState.ROLLBACK),
    "transaction-check": transaction(TransactionState.UNKNOWN),
    "large-body": large_body,
    "compressed-body": compressed_body,
}
