"""The official Python client: python official.py HOST:PORT ROW ...; run in a place where it is.

Each of these programs, in whatever language, does the same and prints a line of JSON for each
row. Topics (grpc-normal, grpc-fifo, grpc-delay, grpc-transaction) are there already.
"""

import json
import sys
import threading
import time
import uuid

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

WITHIN_S = 60
RUN = uuid.uuid4().hex[:8]


def configuration():
    return ClientConfiguration(sys.argv[1], Credentials())


def message(topic, body, **more):
    made = Message()
    made.topic = topic
    made.body = body.encode()
    made.tag = "tag"
    made.keys = f"key-{body}"
    made.add_property("property", "value")
    for name, value in more.items():
        setattr(made, name, value)
    return made


def producer(topic, checker=None):
    made = Producer(configuration(), (topic,), checker)
    made.startup()
    return made


class Received:
    """A simple consumer of a new group, which is there before anything is sent."""

    def __init__(self, topic):
        self.consumer = SimpleConsumer(
            configuration(), f"grpc-{uuid.uuid4().hex}", {topic: FilterExpression()}, 5
        )
        self.consumer.startup()
        # It does not wait for its settings, without which RocketMQ's proxy fails a receive.
        for attempt in range(10):
            try:
                self.consumer.receive(1, 15)
                break
            except Exception:
                if attempt == 9:
                    raise
                time.sleep(0.5)

    def until(self, bodies):
        found, deadline = [], time.monotonic() + WITHIN_S
        while not set(bodies) <= set(found):
            assert time.monotonic() < deadline, f"only {found} of {bodies}"
            for each in self.consumer.receive(16, 15) or []:
                found.append(each.body.decode())
                assert each.tag == "tag", each.tag
                assert each.properties["property"] == "value", each.properties
                self.consumer.ack(each)
        return [body for body in found if body in bodies]

    def close(self):
        self.consumer.shutdown()


def simple():
    bodies = [f"{RUN}-{number}" for number in range(10)]
    reader, writer = Received("grpc-normal"), producer("grpc-normal")
    for body in bodies:
        writer.send(message("grpc-normal", body))
    assert sorted(reader.until(bodies)) == sorted(bodies)
    reader.close()
    writer.shutdown()


def push():
    bodies = {f"{RUN}-push-{number}" for number in range(10)}
    found, done, failed = set(), threading.Event(), set()

    class Listener(MessageListener):
        def consume(self, received):
            body = received.body.decode()
            if body in bodies and body not in failed and body.endswith("3"):
                failed.add(body)
                return ConsumeResult.FAILURE  # it comes again
            found.add(body)
            if bodies <= found:
                done.set()
            return ConsumeResult.SUCCESS

    consumer = PushConsumer(
        configuration(), f"grpc-{uuid.uuid4().hex}", Listener(), {"grpc-normal": FilterExpression()}
    )
    consumer.startup()
    writer = producer("grpc-normal")
    time.sleep(3)  # the group begins at the end of the topic
    for body in sorted(bodies):
        writer.send(message("grpc-normal", body))
    assert done.wait(WITHIN_S), f"only {found}"
    assert failed
    consumer.shutdown()
    writer.shutdown()


def fifo():
    bodies = [f"{RUN}-fifo-{number}" for number in range(20)]
    reader, writer = Received("grpc-fifo"), producer("grpc-fifo")
    for body in bodies:
        writer.send(message("grpc-fifo", body, message_group="one"))
    assert reader.until(bodies) == bodies
    reader.close()
    writer.shutdown()


def delay():
    body, reader, writer = f"{RUN}-delay", Received("grpc-delay"), producer("grpc-delay")
    due = int(time.time()) + 4
    writer.send(message("grpc-delay", body, delivery_timestamp=due))
    reader.until([body])
    assert time.time() >= due - 1
    reader.close()
    writer.shutdown()


class Checker(TransactionChecker):
    def check(self, asked):
        return TransactionResolution.COMMIT


def transaction():
    yes, no = f"{RUN}-yes", f"{RUN}-no"
    reader = Received("grpc-transaction")
    writer = producer("grpc-transaction", Checker())
    rolled_back = writer.begin_transaction()
    writer.send(message("grpc-transaction", no), rolled_back)
    rolled_back.rollback()
    committed = writer.begin_transaction()
    writer.send(message("grpc-transaction", yes), committed)
    committed.commit()
    assert reader.until([yes]) == [yes]
    reader.close()
    writer.shutdown()


def orphan():
    body = f"{RUN}-orphan"
    reader = Received("grpc-transaction")
    writer = producer("grpc-transaction", Checker())
    undecided = writer.begin_transaction()
    writer.send(message("grpc-transaction", body), undecided)
    reader.until([body])  # committed when the broker asks
    reader.close()
    writer.shutdown()


ROWS = {each.__name__: each for each in (simple, push, fifo, delay, transaction, orphan)}

for row in sys.argv[2:] or ROWS:
    began, detail = time.monotonic(), ""
    try:
        ROWS[row]()
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"
    elapsed_ms = round((time.monotonic() - began) * 1000)
    line = {"feature": row, "ok": not detail, "ms": elapsed_ms, "detail": detail}
    print(json.dumps(line), flush=True)
