"""The other end of a connection, byte by byte: what tests say to a server themselves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from rocketq.remoting import Command, Handlers, RemotingServer
from rocketq.remoting.link.handlers import RpcHook
from rocketq.remoting.link.server import ServerConfig
from rocketq.remoting.wire.frame import FrameSplitter, decode_frame


class Peer:
    """A connection without any of this package's manners."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._splitter = FrameSplitter()
        self._received: list[Command] = []

    async def say(self, *commands: Command | bytes) -> None:
        """Send frames, or bytes as they are, in one write."""
        parts = [
            command if isinstance(command, bytes) else b"".join(command.encode())
            for command in commands
        ]
        self.writer.write(b"".join(parts))
        await self.writer.drain()

    async def hear(self) -> Command:
        """The next frame."""
        async with asyncio.timeout(10):
            while not self._received:
                data = await self.reader.read(65536)
                assert data, "closed"
                self._received += self._splitter.feed(data)
        return self._received.pop(0)

    async def is_hung_up_on(self) -> bool:
        """Whether the other end closes, after whatever it still has to say."""
        async with asyncio.timeout(10):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                pass
        return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


@asynccontextmanager
async def serving(
    routes: Handlers, config: ServerConfig | None = None, *hooks: RpcHook
) -> AsyncIterator[tuple[RemotingServer, Callable[[], Awaitable[Peer]]]]:
    """A server, and a way to connect to it."""
    server = RemotingServer(routes, config=config, hooks=hooks)
    await server.start("127.0.0.1", 0)
    peers: list[Peer] = []

    async def connect() -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        peers.append(peer)
        return peer

    try:
        yield server, connect
    finally:
        for peer in peers:
            await peer.close()
        await server.stop(grace_s=5)


def over_the_wire(command: Command) -> Command:
    """A command as the other end sees it."""
    return decode_frame(b"".join(command.encode()))
