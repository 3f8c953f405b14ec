# cython: annotation_typing=False
# (compiled as it stands, with the types in ids.pxd)
"""The two ids of a message.

The *offset id* says where a broker stored the message. It is the hexadecimal form of

    store address   4 or 16 bytes + int32 port
    offset          int64           position in the commit log

The *unique id* is made by the producer, before sending, and stays with the message through
retries. It is the hexadecimal form of

    address    4 or 16 bytes   of the client's host
    pid        2 bytes         low bits of the process id
    constant   4 bytes         tells generators of one process apart
    time       4 bytes         milliseconds since the month began, local time
    counter    2 bytes         wraps around

Both take 32 digits with an IPv4 address and 56 with an IPv6 one. Tools take the time of a
unique id as a hint where to search; otherwise any unique text would do.
"""

import itertools
import os
import socket
from collections.abc import Callable
from datetime import datetime
from typing import Final

from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.common.errors import RocketqError
from rocketq.message import hosts

_V4_DIGITS: Final = 32
_V6_DIGITS: Final = 56

# Formatting a number takes half of the time an id takes.
_BYTES: Final = [f"{byte:02X}" for byte in range(256)]


class InvalidMessageId(RocketqError):
    """Text that is not a message id of the expected kind."""


def offset_message_id(store_host: bytes, physical_offset: int) -> str:
    """The offset id of a message, its store host encoded as in `rocketq.message.hosts`."""
    return f"{store_host.hex().upper()}{physical_offset:016X}"


def parse_offset_message_id(message_id: str) -> tuple[str, int, int]:
    """Host, port and physical offset out of an offset id."""
    raw = _unhex(message_id)
    host, port = hosts.decode_host(raw[:-8])
    return host, port, int.from_bytes(raw[-8:], "big", signed=True)


class UniqueIds:
    """Makes unique ids. Any thread may call `next`, and it stays unique after a fork."""

    def __init__(
        self,
        *,
        address: bytes | None = None,
        constant: bytes | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """All three have sensible defaults; tests give their own."""
        self._address = address if address is not None else local_address()
        assert len(self._address) in (4, 16), self._address
        self._constant = constant
        self._now_ms = SYSTEM_CLOCK.now_ms if now_ms is None else now_ms
        self._counter = itertools.count()
        self._prefix = ""
        self._prefix_generation = -1
        self._month = (0, 0)
        self._stem = (-1, 0, "")

    def next(self) -> str:
        """One more id."""
        now_ms = self._now_ms()
        generation, made_ms, stem = self._stem
        if made_ms != now_ms or generation != _generation:
            stem = self._stem_at(now_ms)
        number = next(self._counter) & 0xFFFF
        return f"{stem}{_BYTES[number >> 8]}{_BYTES[number & 0xFF]}"

    def _stem_at(self, now_ms: int) -> str:
        """All but the counter: the same for every id of one millisecond."""
        if self._prefix_generation != _generation:
            constant = os.urandom(4) if self._constant is None else self._constant
            pid = (os.getpid() & 0xFFFF).to_bytes(2, "big")
            self._prefix = (self._address + pid + constant).hex().upper()
            self._prefix_generation = _generation
        start_ms, end_ms = self._month
        if not start_ms <= now_ms < end_ms:
            start_ms, _ = self._month = month_around(now_ms)
        stem = f"{self._prefix}{now_ms - start_ms:08X}"
        self._stem = (_generation, now_ms, stem)  # at once, for other threads
        return stem


def unique_id_time(message_id: str, now_ms: int | None = None) -> int:
    """When a unique id was made, in ms: the latest such moment that is past."""
    raw = _unhex(message_id)
    address_size = 4 if len(message_id) == _V4_DIGITS else 16
    span = int.from_bytes(raw[address_size + 6 : address_size + 10], "big")
    if now_ms is None:
        now_ms = SYSTEM_CLOCK.now_ms()
    month_start_ms, _ = month_around(now_ms)
    if month_start_ms + span > now_ms:
        month_start_ms, _ = month_around(month_start_ms - 1)
    return month_start_ms + span


def unique_id_host(message_id: str) -> str:
    """The address of the host on which a unique id was made."""
    raw = _unhex(message_id)
    if len(message_id) == _V4_DIGITS:
        return socket.inet_ntop(socket.AF_INET, raw[:4])
    return socket.inet_ntop(socket.AF_INET6, raw[:16])


def is_offset_message_id(message_id: str) -> bool:
    """Whether text has the shape both kinds of id share."""
    try:
        _unhex(message_id)
    except InvalidMessageId:
        return False
    return True


def month_around(now_ms: int) -> tuple[int, int]:
    """Start of the month, and of the next one, around a moment, in local time."""
    first = datetime.fromtimestamp(now_ms / 1000).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    following = (
        first.replace(year=first.year + 1, month=1)
        if first.month == 12
        else first.replace(month=first.month + 1)
    )
    return round(first.timestamp() * 1000), round(following.timestamp() * 1000)


def local_address() -> bytes:
    """The address by which this host meets others, or the loopback address.

    Connecting a datagram socket sends nothing: it only asks for the route.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation, never answers
            host: str = probe.getsockname()[0]
        except OSError:
            host = "127.0.0.1"
    return socket.inet_pton(socket.AF_INET, host)


def _unhex(message_id: str) -> bytes:
    if len(message_id) not in (_V4_DIGITS, _V6_DIGITS):
        raise InvalidMessageId(f"a message id has 32 or 56 digits, {message_id!r} has not")
    try:
        return bytes.fromhex(message_id)
    except ValueError as cause:
        raise InvalidMessageId(f"{message_id!r} is not hexadecimal") from cause


_generation = 0


def _after_fork() -> None:
    # The child has another pid, and must not go on with its parent's constant either.
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_after_fork)
