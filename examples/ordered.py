"""Keep the steps of each order in their order.

Messages with the same sharding key go to the same queue, and an orderly consumer takes the
messages of a queue one after the other.

    python examples/ordered.py [NAMESRV]
"""

import asyncio
import sys
from collections import defaultdict

from rocketq.aio import Message, MessageExt, Producer, PushConsumer, run

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "order-steps"
STEPS = ["created", "paid", "shipped", "delivered"]
ORDERS = [f"order-{number}" for number in range(5)]


async def main() -> None:
    seen: dict[str, list[str]] = defaultdict(list)
    done = asyncio.Event()

    async def on_step(message: MessageExt) -> None:
        order = message.keys[0]
        seen[order].append(message.body.decode())
        if sum(map(len, seen.values())) >= len(ORDERS) * len(STEPS):
            done.set()

    async with Producer("order-service", namesrv=NAMESRV) as producer:
        for step in STEPS:
            for order in ORDERS:
                # Each is awaited: the next step of an order is sent after the one before.
                await producer.send(Message(TOPIC, step.encode(), keys=order, sharding_key=order))

    async with PushConsumer(
        "order-watch",
        namesrv=NAMESRV,
        topics=TOPIC,
        listener=on_step,
        orderly=True,
        consume_from="first",
    ):
        await asyncio.wait_for(done.wait(), 30)

    for order, steps in sorted(seen.items()):
        assert steps == STEPS, steps
        print(f"{order}: {' -> '.join(steps)}")


run(main())
