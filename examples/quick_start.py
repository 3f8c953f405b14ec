"""Send messages and consume them.

rocketq up                          # in another terminal: NameServer and broker
python examples/quick_start.py [NAMESRV]
"""

import sys
import threading

from rocketq import Message, MessageExt, Producer, PushConsumer

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "quick-start"
COUNT = 10

all_arrived = threading.Event()
arrived: list[str] = []


def on_message(message: MessageExt) -> None:
    """Returning means the message is consumed; raising means it comes again later."""
    arrived.append(message.body.decode())
    print(f"got {message.body.decode()!r} with tag {message.tags}, keys {message.keys}")
    if len(arrived) >= COUNT:
        all_arrived.set()


with Producer("quick-start-producer", namesrv=NAMESRV) as producer:
    for number in range(COUNT):
        result = producer.send(
            Message(TOPIC, f"hello {number}".encode(), tags="greeting", keys=[str(number)])
        )
        print(f"sent {result.msg_id} to {result.queue}, offset {result.queue_offset}")

with PushConsumer(
    "quick-start-consumer",
    namesrv=NAMESRV,
    topics={TOPIC: "greeting"},
    listener=on_message,
    consume_from="first",
):
    all_arrived.wait(timeout=30)

print(f"{len(arrived)} messages consumed")
