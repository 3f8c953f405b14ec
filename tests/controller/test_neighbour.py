"""A process that ended is told from one that is only away."""

import asyncio

from rocketq.controller.keeper.neighbour import process_gone
from tests.waiting import PATIENCE_S, eventually


class Listener:
    """Accepts connections, and can close them without going away."""

    def __init__(self) -> None:
        self.accepted: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.append(writer)

    def hang_up(self) -> None:
        for each in self.accepted:
            each.transport.abort()

    def end(self) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()


async def test_only_a_process_that_was_there_can_be_gone() -> None:
    listener = Listener()
    port = await listener.start()
    watching = asyncio.create_task(process_gone(f"127.0.0.1:{port}"))
    await eventually(lambda: len(listener.accepted) == 1)
    listener.hang_up()  # and listens on
    await eventually(lambda: len(listener.accepted) == 2)
    assert not watching.done()
    listener.end()
    await asyncio.wait_for(watching, PATIENCE_S)


async def test_who_was_never_there_is_not_gone() -> None:
    listener = Listener()
    port = await listener.start()
    listener.end()
    watching = asyncio.create_task(process_gone(f"127.0.0.1:{port}"))
    done, _ = await asyncio.wait([watching], timeout=0.3)
    assert not done
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
