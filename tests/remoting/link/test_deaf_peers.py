"""Peers that take what they are sent slowly, or not at all."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rocketq.remoting import Command, Connection, RemotingServer, ServerConfig
from tests.waiting import eventually

NOTICE = 40
BODY = b"x" * 10_000


class Deaf:
    """A socket that says hello and does not read by itself."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(b"".join(Command(1, opaque=1).encode()))


@asynccontextmanager
async def deaf_peer(config: ServerConfig) -> AsyncIterator[tuple[Deaf, Connection]]:
    met: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    def hello(request: Command, connection: Connection) -> None:
        if not met.done():
            met.set_result(connection)

    server = RemotingServer({1: hello}, config=config)
    await server.start("127.0.0.1", 0)
    peer = Deaf(server.port)
    try:
        yield peer, await met
    finally:
        peer.socket.close()
        await server.stop(grace_s=5)


async def fill(connection: Connection) -> None:
    """Send replies until the peer counts as one that does not read."""
    for _ in range(1000):
        if connection.is_write_paused:
            return
        connection.send(Command(0, flag=1, body=BODY))
        await asyncio.sleep(0)
    raise AssertionError("it reads")


async def test_notices_to_a_peer_that_does_not_read_do_not_pile_up() -> None:
    config = ServerConfig(write_buffer_high_water_mark=50_000)
    async with deaf_peer(config) as (_, connection):
        await fill(connection)
        unsent = connection.unsent
        for _ in range(1000):
            connection.call_oneway(Command.request(NOTICE, BODY))
            await asyncio.sleep(0)
        assert connection.unsent <= unsent + len(BODY)
        assert not connection.is_closing


async def test_a_peer_that_leaves_too_much_unread_is_hung_up_on() -> None:
    config = ServerConfig(write_buffer_high_water_mark=50_000, unsent_max_length=500_000)
    async with deaf_peer(config) as (_, connection):
        most = 0
        while not connection.is_closing:
            connection.send(Command(0, flag=1, body=BODY))
            await asyncio.sleep(0)
            most = max(most, connection.unsent)
        assert most <= 500_000
        await connection.closed()


async def test_what_a_peer_is_sent_is_no_sign_of_its_life() -> None:
    config = ServerConfig(
        write_buffer_high_water_mark=50_000, server_channel_max_idle_time_seconds=1
    )
    async with deaf_peer(config) as (_, connection):
        await fill(connection)

        async def pester() -> None:
            while not connection.is_closing:
                connection.send(Command(0, flag=1, body=b"x"))
                await asyncio.sleep(0.005)

        async with asyncio.timeout(30):
            await pester()
            await connection.closed()  # although it never reads what is left for it


async def test_a_peer_that_reads_slowly_is_waited_for() -> None:
    config = ServerConfig(
        write_buffer_high_water_mark=50_000, server_channel_max_idle_time_seconds=1
    )
    async with deaf_peer(config) as (peer, connection):
        connection.send(Command(0, flag=1, body=b"x" * 16_000_000))
        peer.socket.setblocking(False)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await eventually(lambda: connection.unsent > 0)
        # Three times as long as a silent connection may live, and always a little less to read.
        while loop.time() < started + 3:
            assert await loop.sock_recv(peer.socket, 200_000)
            await asyncio.sleep(0.02)
            if connection.unsent == 0:
                break
        assert not connection.is_closing
        assert loop.time() > started + 1.5
