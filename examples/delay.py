"""Deliver a message later: by RocketMQ's delay levels (level 1 is one second).

python examples/delay.py [NAMESRV]
"""

import asyncio
import sys
import time

from rocketq.aio import Message, MessageExt, Producer, PushConsumer, run

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "reminders"


async def main() -> None:
    arrived: asyncio.Queue[MessageExt] = asyncio.Queue()

    async with Producer("calendar", namesrv=NAMESRV) as producer:
        sent_at = time.monotonic()
        await producer.send(Message(TOPIC, b"tea is ready", delay_level=1))
        print("sent, to be delivered in a second")

        async with PushConsumer(
            "reminder-service",
            namesrv=NAMESRV,
            topics=TOPIC,
            listener=arrived.put,
            consume_from="first",
        ):
            message = await asyncio.wait_for(arrived.get(), 30)
            print(f"{message.body.decode()} after {time.monotonic() - sent_at:.1f} s")


run(main())
