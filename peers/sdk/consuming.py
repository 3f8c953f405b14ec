"""Every way of consuming."""

import itertools

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
    ConsumeLater,
    LitePullConsumer,
    Message,
    MessageExt,
    PullConsumer,
    RocketqError,
    Sql,
    reply_to,
)


async def push_concurrent(trial: Trial) -> None:
    topic = trial.topic()
    await trial.fill(topic, 300)
    equal(bodies(await trial.consume(topic, "*", 300)), numbered("m", 300))


async def push_orderly(trial: Trial) -> None:
    topic, attempts = trial.topic(), itertools.count()
    received: list[MessageExt] = []

    async def listener(message: MessageExt) -> None:
        if next(attempts) == 0:
            raise ConsumeLater("once more", suspend_ms=100)
        received.append(message)

    await trial.fill(topic, 100)
    await trial.opened(trial.consumer(trial.group(), listener, topics=topic, orderly=True))
    await until(lambda: len(received) >= 100, "messages")
    for queue_id in range(4):
        offsets = [each.queue_offset for each in received if each.queue_id == queue_id]
        equal(offsets, list(range(25)))


async def two_instances(trial: Trial) -> None:
    topic, group, producer = trial.topic(), trial.group(), await trial.producer()
    await producer.send(Message(topic, b"m0"))
    by_first: list[MessageExt] = []
    by_second: list[MessageExt] = []
    first = trial.consumer(group, collecting(by_first), topics=topic)
    await first.start()
    try:
        second = await trial.opened(trial.consumer(group, collecting(by_second), topics=topic))
        await until(
            lambda: len(_of(first, topic)) == 2 and len(_of(second, topic)) == 2,
            "two queues each",
        )
        for number in range(1, 101):
            await producer.send(Message(topic, b"m%d" % number))
        await until(lambda: len(bodies(by_first + by_second)) == 101, "messages to both")
        check(bool(by_first and by_second), f"shared {len(by_first)}/{len(by_second)}")
    finally:
        await first.close()
    await until(lambda: len(_of(second, topic)) == 4, "take-over")
    for number in range(101, 151):
        await producer.send(Message(topic, b"m%d" % number))
    await until(lambda: len(bodies(by_first + by_second)) == 151, "messages after the take-over")


def _of(consumer: object, topic: str) -> list[object]:
    return [queue for queue in consumer.assignment if queue.topic == topic]  # type: ignore[attr-defined]


async def broadcasting(trial: Trial) -> None:
    topic, group, producer = trial.topic(), trial.group(), await trial.producer()
    await producer.send(Message(topic, b"m0"))
    seen: list[list[MessageExt]] = [[], []]
    for number, mine in enumerate(seen):
        await trial.opened(
            trial.consumer(
                group,
                collecting(mine),
                topics=topic,
                message_model="broadcasting",
                instance_name=f"{group}{number}",
            )
        )
    for number in range(1, 20):
        await producer.send(Message(topic, b"m%d" % number))
    await until(lambda: [len(bodies(mine)) for mine in seen] == [20, 20], "everything to both")


async def retry(trial: Trial) -> None:
    topic = trial.topic()
    attempts: list[tuple[int, str]] = []

    async def listener(message: MessageExt) -> None:
        attempts.append((message.reconsume_times, message.topic))
        if len(attempts) < 3:
            raise ConsumeLater("again", delay_level=1)

    await (await trial.producer()).send(Message(topic, b"again"))
    await trial.opened(trial.consumer(trial.group(), listener, topics=topic))
    await until(lambda: len(attempts) == 3, "third attempt", 3 * WITHIN_S)
    equal(attempts, [(0, topic), (1, topic), (2, topic)])


async def dead_letter(trial: Trial) -> None:
    topic, group, attempts = trial.topic(), trial.group(), []

    async def listener(message: MessageExt) -> None:
        attempts.append(message)
        raise ConsumeLater("never", delay_level=1)

    await (await trial.producer()).send(Message(topic, b"never"))
    await trial.opened(trial.consumer(group, listener, topics=topic, max_reconsume_times=1))
    await until(lambda: len(attempts) == 2, "second attempt", 3 * WITHIN_S)
    (dead,) = await trial.consume(f"%DLQ%{group}", "*", 1)
    equal((dead.body, dead.get_property("RETRY_TOPIC")), (b"never", topic))


async def tag_filter(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    for tag in ("red", "green", "blue", None, "Aa", "BB"):  # Java hashes Aa and BB to the same
        await producer.send(Message(topic, f"m-{tag}".encode(), tags=tag))
    equal(bodies(await trial.consume(topic, "red || blue", 2)), {"m-red", "m-blue"})
    equal(bodies(await trial.consume(topic, "Aa", 1)), {"m-Aa"})
    equal(len(bodies(await trial.consume(topic, "*", 6))), 6)


async def sql_filter(trial: Trial) -> None:
    topic, producer = trial.topic(), await trial.producer()
    for number in range(10):
        tag = "odd" if number % 2 else "even"
        message = Message(topic, b"m%d" % number, tags=tag, properties={"price": str(number)})
        await producer.send(message)
    wanted = Sql("price >= 3 AND TAGS = 'odd' AND price <> 7")
    equal(bodies(await trial.consume(topic, wanted, 3)), {"m3", "m5", "m9"})
    try:
        await trial.opened(
            trial.consumer(trial.group(), collecting([]), topics={topic: Sql("price >")})
        )
    except RocketqError:
        return
    raise AssertionError("a bad expression was accepted")


async def pull(trial: Trial) -> None:
    topic, seen = trial.topic(), set()
    await trial.fill(topic, 40)
    consumer: PullConsumer = await trial.opened(PullConsumer(trial.group(), namesrv=trial.namesrv))
    for queue in await consumer.message_queues(topic):
        offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
        while offset < end:
            result = await consumer.pull(queue, offset)
            equal(result.status.value, "FOUND")
            seen |= bodies(result.messages)
            offset = result.next_offset
        equal((await consumer.pull(queue, offset)).status.value, "NO_NEW_MSG")
        beyond = await consumer.pull(queue, offset + 1000)
        equal((beyond.status.value, beyond.next_offset), ("OFFSET_ILLEGAL", end))
        consumer.update_consume_offset(queue, offset)
    equal(seen, numbered("m", 40))


async def lite_pull_subscribe(trial: Trial) -> None:
    topic = trial.topic()
    await trial.fill(topic, 40)
    consumer = await trial.opened(
        LitePullConsumer(trial.group(), topics=topic, consume_from="first", namesrv=trial.namesrv)
    )
    equal(bodies(await _poll(consumer, 40)), numbered("m", 40))


async def lite_pull_assign(trial: Trial) -> None:
    topic = trial.topic()
    await trial.fill(topic, 40)
    consumer = await trial.opened(
        LitePullConsumer(trial.group(), auto_commit=False, namesrv=trial.namesrv)
    )
    queues = await consumer.message_queues(topic)
    await consumer.assign(queues)
    for queue in queues:
        await consumer.seek_to_begin(queue)
    equal(bodies(await _poll(consumer, 40)), numbered("m", 40))
    await consumer.commit()
    one = queues[0]
    consumer.pause(one)
    await consumer.seek(one, 3)
    consumer.resume(one)
    equal(len(await _poll(consumer, 7)), 7)
    equal(await consumer.committed(one), 10)


async def _poll(consumer: LitePullConsumer, count: int) -> list[MessageExt]:
    received: list[MessageExt] = []

    async def enough() -> bool:
        received.extend(await consumer.poll(timeout_s=0.5))
        return len(received) >= count

    await until(enough, f"{count} messages")
    return received


async def request_reply(trial: Trial) -> None:
    topic = trial.topic()
    requester, replier = await trial.producer(), await trial.producer()

    async def listener(message: MessageExt) -> None:
        if message.get_property("CORRELATION_ID"):
            await replier.send(reply_to(message, b"re: " + message.body))

    await requester.send(Message(topic, b"first"))
    consumer = await trial.opened(trial.consumer(trial.group(), listener, topics=topic))
    await until(lambda: len(_of(consumer, topic)) == 4, "assignment")
    reply = await requester.request(Message(topic, b"question"), timeout_s=20)
    equal(reply.body, b"re: question")


FEATURES: dict[str, Feature] = {
    "push-concurrent": push_concurrent,
    "push-orderly": push_orderly,
    "two-instances": two_instances,
    "broadcasting": broadcasting,
    "retry": retry,
    "dead-letter": dead_letter,
    "tag-filter": tag_filter,
    "sql-filter": sql_filter,
    "pull": pull,
    "lite-pull-subscribe": lite_pull_subscribe,
    "lite-pull-assign": lite_pull_assign,
    "request-reply": request_reply,
}
