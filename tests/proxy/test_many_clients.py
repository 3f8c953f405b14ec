"""Thousands of clients in one process: what each costs, and whether others notice."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.grpc import make_topic
from benchmarks.grpc_frames import Wire, header_block, message, send_request

from rocketq.proxy.protocol import messages as pb
from tests.waiting import eventually

STREAMS, RECEIVES, A_CONNECTION = 5_000, 2_000, 250


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [each for each in status.splitlines() if each.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def settings_of(group: str) -> bytes:
    command = pb.TelemetryCommand()
    settings = command.settings
    settings.client_type = pb.PUSH_CONSUMER
    settings.subscription.group.name = group
    entry = settings.subscription.subscriptions.add()
    entry.topic.name = "t"
    entry.expression.expression = "*"
    return message(command)


@pytest.mark.slow
def test_five_thousand_streams_and_two_thousand_waiting_receives(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rocketq.cli", "up", "--dir", str(tmp_path)]
    words += ["--namesrv-port", "0", "--broker-port", "0", "--grpc-port", "0"]
    words += ["--set", "popPollingSize=4096"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            facts = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
            make_topic(facts["namesrv"], "t")
            make_topic(facts["namesrv"], "other")
            asyncio.run(measure(facts["grpc"], process.pid))
        finally:
            process.terminate()


async def measure(target: str, pid: int) -> None:
    answered = 0

    def on_data(wire: Wire, number: int, data: bytes) -> None:
        nonlocal answered
        answered += 1

    latencies: list[float] = []
    ended: dict[int, asyncio.Future[bytes]] = {}

    def on_end(wire: Wire, number: int, data: bytes) -> None:
        if wire is other and number in ended:
            ended.pop(number).set_result(data)

    other = await Wire.open(target, on_end)
    headers = header_block("SendMessage", "other@1@0@x")

    async def send_some(count: int) -> float:
        """The median time of a send, one after the other."""
        latencies.clear()
        for at in range(count):
            waiting = asyncio.get_running_loop().create_future()
            began = time.perf_counter()
            number = other.start(headers, send_request("other", at))
            ended[number] = waiting
            async with asyncio.timeout(30):
                data = await waiting
            assert pb.SendMessageResponse.FromString(data[5:]).status.code == pb.OK
            latencies.append(time.perf_counter() - began)
        return sorted(latencies)[count // 2]

    alone_s = await send_some(300)
    before = resident_bytes(pid)
    wires = [await Wire.open(target, on_end) for _ in range(STREAMS // A_CONNECTION)]
    for at in range(STREAMS):
        wire = wires[at // A_CONNECTION]
        wire.on_data = on_data
        wire.start(
            header_block("Telemetry", f"c@1@{at}@x", "1H"), settings_of(f"g{at % 50}"), ends=False
        )
        if at % 100 == 99:
            await eventually(lambda: answered >= at - 400, within_s=120)  # noqa: B023
    await eventually(lambda: answered >= STREAMS, within_s=120)
    with_streams = resident_bytes(pid)
    a_stream = (with_streams - before) / STREAMS

    request = pb.ReceiveMessageRequest(
        message_queue=pb.MessageQueue(topic=pb.Resource(name="t")), batch_size=32
    )
    request.invisible_duration.FromSeconds(60)
    request.long_polling_timeout.FromSeconds(20)
    for at in range(RECEIVES):
        request.group.name = f"g{at % 50}"
        wire = wires[at // A_CONNECTION]
        wire.start(header_block("ReceiveMessage", f"c@1@{at}@x", "60S"), message(request))
    await asyncio.sleep(1)
    a_receive = (resident_bytes(pid) - with_streams) / RECEIVES
    among_many_s = await send_some(300)
    print(
        f"\n{a_stream:,.0f} bytes for a stream, {a_receive:,.0f} for a waiting receive; a send "
        f"takes {alone_s * 1e6:,.0f} us alone, {among_many_s * 1e6:,.0f} us among {STREAMS} clients"
    )
    assert a_stream < 40_000
    assert a_receive < 40_000
    assert among_many_s < max(alone_s * 5, 0.02)
    for wire in [other, *wires]:
        wire.close()
