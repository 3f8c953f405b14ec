"""Take messages, work on them, and say which are done.

python examples/simple_consumer.py [NAMESRV]
"""

import sys

from rocketq import Message, Producer, SimpleConsumer

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "parcels"

with (
    Producer("warehouse", namesrv=NAMESRV) as producer,
    SimpleConsumer("couriers", namesrv=NAMESRV, topics=TOPIC, consume_from="first") as consumer,
):
    for number in range(10):
        producer.send(Message(TOPIC, f"parcel {number}".encode()))

    delivered = 0
    failed_once = False
    while delivered < 10:
        messages = consumer.receive(max_messages=4, invisible_s=30, wait_s=10)
        if not failed_once:
            # Nobody is at home: this one comes again in half a second, to whoever asks.
            failed_once = True
            consumer.change_invisible(messages.pop(), 0.5)
        consumer.ack(messages)
        delivered += len(messages)
        for message in messages:
            print(f"{message.body.decode()}, attempt {message.reconsume_times + 1}")

    print(f"{delivered} parcels delivered")
