"""Ask for messages when there is time for them; go back and read again.

python examples/lite_pull.py [NAMESRV]
"""

import asyncio
import sys

from rocketq.aio import LitePullConsumer, Message, Producer, run

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "audit"


async def main() -> None:
    async with Producer("services", namesrv=NAMESRV) as producer:
        await producer.send_batch(Message(TOPIC, f"event {n}".encode()) for n in range(20))

    async with LitePullConsumer(
        "auditors", namesrv=NAMESRV, topics=TOPIC, consume_from="first"
    ) as consumer:
        events = []
        async for message in consumer:
            events.append(message)
            if len(events) == 20:
                break
        print(f"{len(events)} events, the last one: {events[-1].body.decode()}")

        # The same queue once more, batch by batch.
        await consumer.seek_to_begin(events[-1].queue)
        again = 0
        while again < 20:
            again += len(await consumer.poll(timeout_s=10))
        print(f"{again} events read again")
        await consumer.commit()


run(asyncio.wait_for(main(), 60))
