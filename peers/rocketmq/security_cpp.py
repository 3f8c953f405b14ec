"""What users of all kinds are let do, through the official C++ client of the remoting protocol.

    security_cpp.py NAMESRV plain CASE ...     CASE: row=action,user,secret,topic,group,expected

The package `rocketmq` brings librocketmq.so of Apache's rocketmq-client-cpp and calls it. Actions:
send, push. Expected: ok, fails. The client is not told to encrypt. Each case has a process of its
own. One line of JSON a case, as Features.java prints them.
"""

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

CHANNEL = "local"
WAIT_S = 40.0


def name(kind: str) -> str:
    return f"{kind}-{os.getpid()}-{time.monotonic_ns()}"


def send(namesrv: str, user: str, secret: str, topic: str, body: str) -> None:
    from rocketmq.client import Message, Producer, SendStatus

    producer: Any = Producer(name("producers"), timeout=10_000)
    producer.set_namesrv_addr(namesrv)
    if user:
        producer.set_session_credentials(user, secret, CHANNEL)
    producer.start()
    try:
        message: Any = Message(topic)
        message.set_body(body)
        result = producer.send_sync(message)
        if result.status != SendStatus.OK:
            raise RuntimeError(f"{result}")
    finally:
        producer.shutdown()


def push(namesrv: str, user: str, secret: str, topic: str, group: str) -> None:
    from rocketmq.client import PushConsumer

    body, arrived = name("consumed"), threading.Event()

    def listen(message: Any) -> None:
        if message.body == body.encode():
            arrived.set()

    consumer: Any = PushConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.set_instance_name(name("instance"))
    if user:
        consumer.set_session_credentials(user, secret, CHANNEL)
    consumer.subscribe(topic, listen)
    consumer.start()
    try:
        send(namesrv, user, secret, topic, body)
        if not arrived.wait(WAIT_S):
            raise RuntimeError("it has not come")
    finally:
        consumer.shutdown()


def run(namesrv: str, case: str) -> None:
    """One case: its end says what came of it, whatever the library does on the way out."""
    action, user, secret, topic, group, _ = case.split(",")
    try:
        if action == "push":
            push(namesrv, user, secret, topic, group)
        else:
            send(namesrv, user, secret, topic, name("sent"))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def main(namesrv: str, cases: list[str]) -> None:
    for each in cases:
        row, _, case = each.partition("=")
        words = [sys.executable, __file__, "--one", namesrv, case]
        try:
            ended = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S * 3)
            works, said = ended.returncode == 0, ended.stderr
        except subprocess.TimeoutExpired:
            works, said = False, "it has not ended"
        expected = case.rpartition(",")[2]
        ok = works == (expected == "ok")
        detail = "" if ok else f"{expected} expected, found {said[-300:]}"
        print(json.dumps({"feature": row, "ok": ok, "ms": 0, "detail": detail}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        run(*sys.argv[2:])
    else:
        main(sys.argv[1], sys.argv[3:])
