"""Deliver a message later: after any time, or at a moment.

python examples/delay.py [NAMESRV]
"""

import asyncio
import sys
import time
from datetime import datetime, timedelta

from rocketq.aio import Message, MessageExt, Producer, PushConsumer, run

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "reminders"


async def main() -> None:
    arrived: asyncio.Queue[MessageExt] = asyncio.Queue()

    async with Producer("calendar", namesrv=NAMESRV) as producer:
        sent_at = time.monotonic()
        await producer.send(Message(TOPIC, b"tea is ready", delay=1))
        tomorrow = datetime.now() + timedelta(days=1)
        await producer.send(Message(TOPIC, b"time for tea", deliver_at=tomorrow))
        print("sent, to be delivered in a second and tomorrow")

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
