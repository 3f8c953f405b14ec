"""Below the calls: TLS and plaintext, proxies before the proxy, pings, thousands of clients."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

import grpc
import grpc.aio
from tests.proxy.bare_client import Client

from peers.grpc.cases.trial import Case, Trial, check, equal
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.protocol.pool import SERVICE

STREAMS, RECEIVES, A_CHANNEL = 1_000, 1_000, 100


def trusting(*protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


@asynccontextmanager
async def relay(
    target: str, preamble: bytes = b"", tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """What stands between: it writes a preamble, or speaks TLS, and passes on the rest."""
    host, _, port = target.rpartition(":")
    pumps: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far, near = await asyncio.open_connection(host, int(port), ssl=tls)
        near.write(preamble)
        for each in (pump(reader, near), pump(far, writer)):
            pumps.add(asyncio.ensure_future(each))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def tls(trial: Trial) -> None:
    topic = await trial.topic()
    equal((await trial.client().send(topic)).status.code, pb.OK)
    async with relay(trial.system.target, tls=trusting("h2")) as address:
        client = Client(address)
        equal((await client.send(topic)).status.code, pb.OK)
        await client.close()
    host, _, port = trial.system.target.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=trusting())
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        async with asyncio.timeout(20):
            await reader.read(-1)
        writer.close()
    except OSError:
        pass  # hung up on, either way


async def preambles(trial: Trial) -> None:
    """PROXY protocol of both versions; the address in it is where the message was born."""
    topic = await trial.topic()
    consumer = await trial.consumer(topic)
    addresses = socket.inet_aton("10.9.8.7") + socket.inet_aton("127.0.0.1")
    second = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11" + struct.pack(">H", 12)
    for preamble in (
        b"PROXY TCP4 10.9.8.7 127.0.0.1 4321 8081\r\n",
        second + addresses + struct.pack(">HH", 4321, 8081),
    ):
        async with relay(trial.system.target, preamble) as address:
            client = Client(address)
            equal((await client.send(topic)).status.code, pb.OK)
            await client.close()
        (message,) = await consumer.found(1)
        equal(message.system_properties.born_host, "10.9.8.7:4321")
        await consumer.ack(topic, consumer.group, message)


async def pings(trial: Trial) -> None:
    """A minute of keep-alive pings with nothing but a stream; RocketMQ's proxy hangs up."""
    options = [
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    client = trial.client()
    await client.channel.close()
    client.channel = grpc.aio.insecure_channel(trial.system.target, options=options)
    introduced = await client.introduce(client.producer_settings())
    try:
        async with asyncio.timeout(60):
            await introduced.stream.read()
    except TimeoutError:
        return
    except grpc.aio.AioRpcError:
        check(trial.system.is_java, "the connection was closed")
        return
    check(trial.system.is_java, "the stream ended")


async def many(trial: Trial) -> None:
    """A thousand streams and as many waiting receives: sends of others do not notice."""
    topic, other = await trial.topic(), await trial.topic()
    groups = [await trial.group() for _ in range(10)]
    client = trial.client()

    async def a_send_s() -> float:
        times = []
        for _ in range(200):
            began = time.perf_counter()
            equal((await client.send(other)).status.code, pb.OK)
            times.append(time.perf_counter() - began)
        return median(times)

    await a_send_s()
    alone_s = await a_send_s()
    options = [("grpc.use_local_subchannel_pool", 1)]
    request_class, response_class = pb.rpcs["ReceiveMessage"]
    waiting = []
    for first in range(0, STREAMS, A_CHANNEL):
        channel = grpc.aio.insecure_channel(trial.system.target, options=options)
        await trial.opened(channel)
        for number in range(first, first + A_CHANNEL):
            each = trial.client()
            await each.channel.close()
            each.channel = channel
            group = groups[number % len(groups)]
            await each.introduce(each.consumer_settings(group, topic))
            receive = channel.unary_stream(
                f"/{SERVICE}/ReceiveMessage",
                request_serializer=request_class.SerializeToString,
                response_deserializer=response_class.FromString,
            )
            request = each.receive_request(topic, group, poll_s=20, invisible_s=60)
            call = receive(request, timeout=60, metadata=list(each.metadata.items()))
            waiting.append(asyncio.ensure_future(call.read()))
    equal(len(waiting), RECEIVES)
    among_s = await a_send_s()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    check(
        among_s < max(alone_s * 5, 0.05),
        f"a send takes {alone_s * 1e3:.1f} ms alone, {among_s * 1e3:.1f} ms among many",
    )


CASES: dict[str, Case] = {
    "31-tls": tls,
    "31-preambles": preambles,
    "34-pings": pings,
    "35-many-clients": many,
}
