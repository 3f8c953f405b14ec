"""gRPC sends and receives, with the CPU that all server processes spend for a message.

    python -m benchmarks.grpc [--quick] [--without-java]

One load alone, against whatever serves gRPC at an address, in one line of JSON:

    python -m benchmarks.grpc load send --target 127.0.0.1:8081 --topic bench --count 100000

The client costs little, so that the servers are what is measured: its requests are made once,
as frames of HTTP/2, and of the answers it reads what tells them apart.
"""

import argparse
import asyncio
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rocketq.proxy.http2.connection import PREFACE
from rocketq.proxy.http2.hpack import literal
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.protocol.pool import SERVICE

BODY: Final = b"x" * 128
IN_FLIGHT: Final = 64
CONNECTIONS: Final = 4
_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def header_block(rpc: str, client_id: str, timeout: str = "30S") -> bytes:
    """What an official client sends with each call, uncompressed."""
    values = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{SERVICE}/{rpc}",
        ":authority": "benchmark",
        "te": "trailers",
        "content-type": "application/grpc",
        "grpc-timeout": timeout,
        "x-mq-client-id": client_id,
        "x-mq-language": "GO",
        "x-mq-client-version": "5.1.3",
        "x-mq-protocol": "v2",
        "x-mq-request-id": "00000000-0000-0000-0000-000000000000",
        "x-mq-date-time": "20260101T000000Z",
    }
    return b"".join(literal(name, value) for name, value in values.items())


def message(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return b"\0" + struct.pack(">I", len(data)) + data


class Wire(asyncio.Protocol):
    """One connection: calls by number, `on_end` told of each that has ended, with its data."""

    def __init__(self, on_end: Callable[["Wire", int, bytes], None]) -> None:
        self._on_end = on_end
        self._next = 1
        self._rest = b""
        self._data: dict[int, bytes] = {}
        self._unread = 0
        self.failed = 0
        self.transport: Any = None
        self.on_data: Callable[[Wire, int, bytes], None] | None = None

    @classmethod
    async def open(cls, target: str, on_end: Callable[["Wire", int, bytes], None]) -> "Wire":
        host, port = target.rsplit(":", 1)
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(lambda: cls(on_end), host, int(port))
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        window = struct.pack(">HI", 4, 1 << 30)
        self.transport.write(
            PREFACE
            + frame(_SETTINGS, 0, 0, window)
            + frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
        )

    def start(self, headers: bytes, body: bytes, *, ends: bool = True) -> int:
        number, self._next = self._next, self._next + 2
        self._data[number] = b""
        self.transport.write(
            frame(_HEADERS, 4, number, headers) + frame(_DATA, int(ends), number, body)
        )
        return number

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while len(data) - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            stop = at + 9 + size
            if stop > len(data):
                break
            self._take(
                data[at + 3],
                data[at + 4],
                int.from_bytes(data[at + 5 : at + 9], "big"),
                data[at + 9 : stop],
            )
            at = stop
        self._rest = data[at:]

    def _take(self, kind: int, flags: int, number: int, body: bytes) -> None:
        if kind == _DATA:
            self._data[number] = self._data.get(number, b"") + body
            self._unread += len(body)
            if self._unread > 1 << 24:
                self.transport.write(frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", self._unread)))
                self._unread = 0
            if self.on_data is not None:
                self.on_data(self, number, body)
        elif kind == _HEADERS and flags & 1:
            self._on_end(self, number, self._data.pop(number, b""))
        elif kind == _SETTINGS and not flags & 1:
            self.transport.write(frame(_SETTINGS, 1, 0, b""))
        elif kind == _PING and not flags & 1:
            self.transport.write(frame(_PING, 1, 0, body))
        elif kind == _GOAWAY:
            self.failed += 1

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


def send_request(topic: str, number: int) -> bytes:
    request = pb.SendMessageRequest()
    made = request.messages.add(topic=pb.Resource(name=topic), body=BODY)
    made.system_properties.message_id = f"01000000000000000000000000{number:08X}"
    made.system_properties.message_type = pb.NORMAL
    made.system_properties.born_timestamp.FromMilliseconds(round(time.time() * 1000))
    made.system_properties.born_host = "benchmark"
    return message(request)


async def send(target: str, topic: str, count: int, in_flight: int) -> dict[str, Any]:
    """Send `count` messages, `in_flight` at a time."""
    done, sent, failed = 0, 0, 0
    over = asyncio.get_running_loop().create_future()
    headers = header_block("SendMessage", "bench@1@0@x")
    latencies: list[float] = []
    began: dict[tuple[int, int], float] = {}
    response = pb.SendMessageResponse

    def again(wire: Wire) -> None:
        nonlocal sent
        if sent < count:
            sent += 1
            number = wire.start(headers, send_request(topic, sent))
            began[id(wire), number] = time.perf_counter()

    def ended(wire: Wire, number: int, data: bytes) -> None:
        nonlocal done, failed
        latencies.append(time.perf_counter() - began.pop((id(wire), number)))
        done += 1
        if len(data) < 5 or response.FromString(data[5:]).status.code != pb.OK:
            failed += 1
        again(wire)
        if done >= count and not over.done():
            over.set_result(None)

    wires = [await Wire.open(target, ended) for _ in range(CONNECTIONS)]
    start = time.perf_counter()
    for number in range(in_flight):
        again(wires[number % len(wires)])
    await over
    elapsed_s = time.perf_counter() - start
    for wire in wires:
        wire.close()
    latencies.sort()
    return {
        "messages": done - failed,
        "failed": failed,
        "seconds": elapsed_s,
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p99_ms": latencies[len(latencies) * 99 // 100] * 1000,
    }


async def receive(target: str, topic: str, count: int, in_flight: int) -> dict[str, Any]:
    """Receive and acknowledge `count` messages that are there, batches of 32."""
    group = f"bench-{os.getpid()}-{time.time_ns()}"
    done, waiting_acks, failed = 0, 0, 0
    over = asyncio.get_running_loop().create_future()
    receives = header_block("ReceiveMessage", "bench@1@0@x")
    acks = header_block("AckMessage", "bench@1@0@x")
    request = pb.ReceiveMessageRequest(
        group=pb.Resource(name=group),
        message_queue=pb.MessageQueue(topic=pb.Resource(name=topic)),
        filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
        batch_size=32,
    )
    request.invisible_duration.FromSeconds(60)
    request.long_polling_timeout.FromSeconds(5)
    wanted = message(request)
    kinds: dict[tuple[int, int], str] = {}

    def ended(wire: Wire, number: int, data: bytes) -> None:
        nonlocal done, waiting_acks, failed
        if kinds.pop((id(wire), number)) == "ack":
            waiting_acks -= 1
            code = pb.AckMessageResponse.FromString(data[5:]).status.code
            failed += code != pb.OK
        else:
            found = list(messages_of(data))
            if found:
                ack = pb.AckMessageRequest(
                    group=pb.Resource(name=group), topic=pb.Resource(name=topic)
                )
                for each in found:
                    ack.entries.add(
                        message_id=each.system_properties.message_id,
                        receipt_handle=each.system_properties.receipt_handle,
                    )
                done += len(found)
                waiting_acks += 1
                kinds[id(wire), wire.start(acks, message(ack))] = "ack"
            if done < count:
                kinds[id(wire), wire.start(receives, wanted)] = "receive"
        if done >= count and not waiting_acks and not over.done():
            over.set_result(None)

    wires = [await Wire.open(target, ended) for _ in range(CONNECTIONS)]
    start = time.perf_counter()
    for number in range(in_flight):
        wire = wires[number % len(wires)]
        kinds[id(wire), wire.start(receives, wanted)] = "receive"
    await over
    elapsed_s = time.perf_counter() - start
    for wire in wires:
        wire.close()
    return {"messages": done, "failed": failed, "seconds": elapsed_s}


def messages_of(data: bytes) -> Any:
    """The messages of a receive's answer."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 5], "big")
        element = pb.ReceiveMessageResponse.FromString(data[at + 5 : at + 5 + size])
        if element.WhichOneof("content") == "message":
            yield element.message
        at += 5 + size


LOADS: Final = {"send": send, "receive": receive}


# Servers


def cpu_s(pids: Sequence[int]) -> float:
    """CPU that processes have used, with their threads."""
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) * _TICK_S
    return total


def measured(target: str, topic: str, pids: Sequence[int], count: int) -> dict[str, Any]:
    """Both loads against one system, by a client in a process of its own."""
    found: dict[str, Any] = {}
    for name in LOADS:
        before = cpu_s(pids)
        words = [sys.executable, "-m", "benchmarks.grpc", "load", name, "--target", target]
        words += ["--topic", topic, "--count", str(count)]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        result = json.loads(output)
        spent_s = cpu_s(pids) - before
        result["per_second"] = round(result["messages"] / result["seconds"])
        result["server_cpu_us"] = round(spent_s / max(result["messages"], 1) * 1e6, 1)
        found[name] = result
    return found


def of_rocketq(count: int) -> dict[str, Any]:
    """`rocketq up`: NameServer, broker and gRPC in one process."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "rocketq.cli", "up", "--dir", folder]
        words += ["--namesrv-port", "0", "--broker-port", "0", "--grpc-port", "0"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            facts = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
            make_topic(facts["namesrv"], "bench")
            return measured(facts["grpc"], "bench", [process.pid], count)
        finally:
            process.terminate()
            process.wait()


def make_topic(namesrv: str, topic: str) -> None:
    words = [sys.executable, "-m", "rocketq.cli", "admin", "updateTopic", "-n", namesrv]
    words += ["-c", "DefaultCluster", "-t", topic, "-r", "8", "-w", "8"]
    words += ["-a", "+message.type=NORMAL"]
    subprocess.run(words, check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument(
        "--java", metavar="HOST:PORT", help="a Java proxy that runs already, to measure as well"
    )
    parser.add_argument("--java-namesrv", metavar="HOST:PORT", default="127.0.0.1:19876")
    parser.add_argument("--java-pids", nargs="+", type=int, default=[], metavar="PID")
    loads = parser.add_subparsers(dest="what")
    load = loads.add_parser("load")
    load.add_argument("name", choices=sorted(LOADS))
    load.add_argument("--target", required=True)
    load.add_argument("--topic", default="bench")
    load.add_argument("--count", type=int, default=100_000)
    load.add_argument("--in-flight", type=int, default=IN_FLIGHT)
    options = parser.parse_args()
    if options.what == "load":
        work = LOADS[options.name](options.target, options.topic, options.count, options.in_flight)
        print(json.dumps(asyncio.run(work)))
        return
    count = 10_000 if options.quick else 100_000
    print(json.dumps({"rocketq": of_rocketq(count)}, indent=2))
    if options.java:
        make_topic(options.java_namesrv, "bench")
        found = measured(options.java, "bench", options.java_pids, count)
        print(json.dumps({"java": found}, indent=2))


if __name__ == "__main__":
    main()
