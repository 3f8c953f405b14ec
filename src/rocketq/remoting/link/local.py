"""Two connections of one process that talk to each other without a socket.

What one of them writes the other one reads in the next turn of the loop, as if it had come over
the network: the same frames, the same limits and handlers, and nobody above sees a difference.
"""

import asyncio
from typing import Any

from rocketq.common.buffers import Buffer
from rocketq.remoting.link.connection import Connection


def join(client: Connection, server: Connection, *, peer: tuple[str, int]) -> None:
    """Connect two connections; `peer` is where the client's side pretends to be."""
    near, far = LocalTransport(client), LocalTransport(server)
    near.other, far.other = far, near
    near.names = {"peername": ("local", 0), "sockname": peer}
    far.names = {"peername": peer, "sockname": ("local", 0)}
    server.connection_made(far)
    client.connection_made(near)


class LocalTransport(asyncio.Transport):
    """One end. Writing hands bytes to the other end; nothing is ever left unsent."""

    other: "LocalTransport"
    names: dict[str, Any]

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._is_closing = False
        self._is_paused = False
        self._arrived: list[bytes] = []
        self._is_planned = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.names.get(name, default)

    def is_closing(self) -> bool:
        return self._is_closing

    # Writing

    def write(self, data: Buffer) -> None:
        if not self._is_closing:
            self.other.arrive(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._loop.call_soon(self.other.close)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is nothing that could wait."""

    # Reading

    def arrive(self, data: bytes) -> None:
        self._arrived.append(data)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned and not self._is_paused and not self._is_closing:
            self._is_planned = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_planned = False
        if self._arrived and not self._is_paused and not self._is_closing:
            arrived, self._arrived = self._arrived, []
            self._connection.data_received(arrived[0] if len(arrived) == 1 else b"".join(arrived))

    def is_reading(self) -> bool:
        return not self._is_paused

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._arrived:
            self._plan()

    # The end

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._connection.connection_lost, None)
            self._loop.call_soon(self.other.close)

    def abort(self) -> None:
        self.close()
