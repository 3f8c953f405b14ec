"""A flood of one-way messages, over one connection to each broker: how many are stored?

    python -m benchmarks.flood --namesrv 127.0.0.1:9876 [--count 500000]

Nobody answers one-way messages, so a sender learns of trouble only by being made to wait: its
socket fills up. Here every byte goes through a blocking socket, so all messages did reach the
broker; what is missing afterwards was dropped by it. (The official Java client is of no use for
this: its one-way sends gather in its own memory, and few of a flood ever leave the process.)
"""

import argparse
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from peers.rocketmq import probe

from benchmarks.frames import send_frame

_GET_MAX_OFFSET = 30
_PIECE = 500  # messages in one write
_PATIENCE_S = 10.0  # without a new message before the rest counts as lost


def flood(namesrv: str, count: int, size: int = 128) -> dict[str, float]:
    """Send, wait until no more arrives, and say what was stored."""
    topic = f"flood{time.time_ns() // 1_000_000}"
    probe.wait_until_acknowledged(namesrv, topic, 30)  # which also makes the topic
    brokers = probe.master_addresses(namesrv, topic)
    pieces = [_piece(topic, size) for _ in range(20)]
    share = count // len(brokers) // _PIECE * _PIECE
    sent = share * len(brokers)

    def pour(connection: socket.socket) -> None:
        for number in range(share // _PIECE):
            connection.sendall(pieces[number % len(pieces)])

    def stored_in_all() -> int:
        return sum(stored(broker, topic) for broker in brokers)

    before, began = stored_in_all(), time.monotonic()
    with ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(probe.parse_address(broker)))
            for broker in brokers
        ]
        with ThreadPoolExecutor(len(brokers)) as threads:
            list(threads.map(pour, connections))
        arrived, last_change = 0, time.monotonic()
        while arrived < sent and time.monotonic() - last_change < _PATIENCE_S:
            now = stored_in_all() - before
            if now != arrived:
                arrived, last_change = now, time.monotonic()
    return {
        "sent": sent,
        "stored": arrived,
        "stored_percent": round(100 * arrived / sent, 3),
        "tps": round(arrived / (last_change - began)),
    }


def stored(broker: str, topic: str) -> int:
    """How many messages the broker says the topic has."""
    total = 0
    for queue_id in range(4):
        fields = {"topic": topic, "queueId": str(queue_id)}
        code, remark, answer = probe.ask(broker, _GET_MAX_OFFSET, fields, timeout=30)
        if code != probe.SUCCESS:
            raise RuntimeError(f"max offset of {topic}/{queue_id}: {code} {remark}")
        total += int(answer["offset"])
    return total


def _piece(topic: str, size: int) -> bytes:
    body = bytes(size)
    return b"".join(send_frame(topic, number % 4, body, is_oneway=True) for number in range(_PIECE))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--count", type=int, default=500_000)
    options = parser.parse_args()
    print(json.dumps(flood(options.namesrv, options.count)))


if __name__ == "__main__":
    main()
