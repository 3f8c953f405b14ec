"""Ports for brokers of one machine that are started together."""

import socket
from typing import Final

# A broker uses the port itself, the second below it and the one above it.
PORT_DISTANCE: Final = 10
_OWN_PORTS: Final = (0, -2, 1)


def ports_from(first: int, count: int) -> list[int]:
    """The ports of brokers when the first one's is given."""
    return [first + PORT_DISTANCE * number for number in range(count)]


def free_ports(host: str, count: int) -> list[int]:
    """Ports that the system has to spare, with those that a broker uses beside its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found: list[int] = []
    # All are held until all are found: no two brokers get the same.
    with _Sockets(family, host) as taken:
        while len(found) < count:
            port = taken.any()
            if all(taken.take(port + distance) for distance in _OWN_PORTS[1:]):
                found.append(port)
    return found


class _Sockets:
    """Ports kept from others for the length of a block."""

    def __init__(self, family: socket.AddressFamily, host: str) -> None:
        self._family = family
        self._host = host
        self._held: list[socket.socket] = []

    def any(self) -> int:
        held = self._hold()
        held.bind((self._host, 0))
        port: int = held.getsockname()[1]
        return port

    def take(self, port: int) -> bool:
        try:
            self._hold().bind((self._host, port))
        except (OSError, OverflowError):
            return False
        return True

    def _hold(self) -> socket.socket:
        held = socket.socket(self._family, socket.SOCK_STREAM)
        self._held.append(held)
        return held

    def __enter__(self) -> "_Sockets":
        return self

    def __exit__(self, *_: object) -> None:
        for held in self._held:
            held.close()
