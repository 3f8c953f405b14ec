"""Several members of a group: shared queues, take-over, nothing lost."""

import asyncio
import itertools

from rocketq.client.consumer.allocation import AverageByCircle
from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.producer.producer import Producer
from rocketq.message.message import MessageExt
from tests.client.consuming import QUICK, Broker, Received, bodies, consuming, send_all
from tests.waiting import eventually


def queue_count(consumer: PushConsumer, topic: str) -> int:
    return sum(queue.topic == topic for queue in consumer.assignment)


async def test_members_share_the_queues_and_take_over(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(queues=6), broker.new_group()
    received = Received()

    def member() -> PushConsumer:
        return consuming(broker, topic, received, group=group, **QUICK)

    sent = bodies(300)
    sending = asyncio.create_task(send_all(producer, topic, sent))
    async with member() as one:
        assert queue_count(one, topic) == 6
        two, three = member(), member()
        await asyncio.gather(two.start(), three.start())
        await eventually(
            lambda: [queue_count(each, topic) for each in (one, two, three)] == [2, 2, 2],
            "two queues each",
        )
        shares = [set(each.assignment) for each in (one, two, three)]
        assert all(not a & b for a, b in itertools.pairwise(shares))
        await two.close()
        await three.close()
        await eventually(lambda: queue_count(one, topic) == 6, "all queues back")
        await sending
        await received.wait_for(sent)


async def test_what_a_member_leaves_undone_is_done_by_the_next(
    broker: Broker, producer: Producer
) -> None:
    topic, group = await broker.new_topic(queues=2), broker.new_group()
    done = Received()
    stuck = Received()

    async def never_returns(message: MessageExt) -> None:
        stuck(message)
        await asyncio.Event().wait()

    sent = bodies(10)
    await send_all(producer, topic, sent)
    first = consuming(broker, topic, never_returns, group=group, close_timeout_s=0.01)
    async with first:
        await stuck.wait_for(sent)
    async with consuming(broker, topic, done, group=group):
        await done.wait_for(sent)


async def test_a_strategy_can_be_chosen(broker: Broker) -> None:
    topic, group = await broker.new_topic(queues=4), broker.new_group()

    def member() -> PushConsumer:
        return consuming(
            broker,
            topic,
            Received(),
            group=group,
            consume_from="last",
            allocation=AverageByCircle(),
            **QUICK,
        )

    async with member() as one, member() as two:
        await eventually(
            lambda: [queue_count(each, topic) for each in (one, two)] == [2, 2], "two queues each"
        )
        first = min((one, two), key=lambda each: each.client_id)
        assert [q.queue_id for q in first.assignment if q.topic == topic] == [0, 2]
