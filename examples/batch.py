"""Many messages in few requests, three ways.

python examples/batch.py [NAMESRV]
"""

import asyncio
import sys

from rocketq.aio import Message, Producer, run

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "measurements"


async def main() -> None:
    readings = [f"sensor-{number % 7}: {number / 10}".encode() for number in range(1000)]

    # A list at once: split into requests by size, a receipt for each message.
    async with Producer("sensors", namesrv=NAMESRV) as producer:
        results = await producer.send_batch(Message(TOPIC, reading) for reading in readings)
        queues = {result.queue.queue_id for result in results}
        print(f"batch: {len(results)} messages in queues {sorted(queues)}")

        # Without waiting for each: many requests under way at a time.
        futures = [producer.send_soon(Message(TOPIC, reading)) for reading in readings]
        results = await asyncio.gather(*futures)
        print(f"pipelined: {len(results)} messages, all ok: {all(r.is_ok for r in results)}")

    # Message by message, collected into batches behind the scenes.
    async with Producer("sensors", namesrv=NAMESRV, linger_ms=5) as producer:
        results = await asyncio.gather(
            *(producer.send(Message(TOPIC, reading)) for reading in readings)
        )
        print(f"collected: {len(results)} messages, each with its own id: {results[0].msg_id}")


run(main())
