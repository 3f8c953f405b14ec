"""Sends orders for the pipeline to work on: python send_orders.py [NAMESRV] [COUNT]"""

import json
import random
import sys
from datetime import UTC, datetime, timedelta

from rocketq import Message, Producer

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "@NAMESRV@"
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
CITIES = ("Berlin", "Hangzhou", "Lagos", "Lima", "Oslo")

# The last of them are from now, the first from a day ago: most hours are over.
now = datetime.now(UTC)
step = timedelta(days=1) / COUNT

with Producer("orders-pipeline-sample", namesrv=NAMESRV, send_timeout_s=30) as producer:
    pending = []
    for number in range(COUNT):
        order = {
            "order": number,
            "city": random.choice(CITIES),
            "cents": random.randrange(100, 10_000),
            "ordered_at": (now - (COUNT - number) * step).isoformat(),
        }
        pending.append(producer.send_soon(Message("@SOURCE@", json.dumps(order).encode())))
        if number % 1000 == 0:
            pending.pop().result()  # the first one makes the topic, where there is none yet
    for sent in pending:
        sent.result()
print(f"{COUNT:,} orders sent to topic @SOURCE@")
