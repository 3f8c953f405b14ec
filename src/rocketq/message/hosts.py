"""Socket addresses as the store and message ids hold them.

address   4 or 16 bytes   IPv4 or IPv6
port      int32
"""

import socket
import struct
from functools import lru_cache
from typing import Final

from rocketq.common.errors import RocketqError

V4_SIZE: Final = 8
V6_SIZE: Final = 20

_PORT = struct.Struct(">i")
_MAPPED_V4 = bytes(10) + b"\xff\xff"


class InvalidHost(RocketqError):
    """Not a numeric address and port, or not the bytes of one."""


@lru_cache(maxsize=4096)  # a broker meets the same peers again and again
def encode_host(host: str, port: int) -> bytes:
    """8 bytes for an IPv4 address, 20 for an IPv6 one; names are not looked up.

    An IPv4 address in IPv6 clothes, as a socket open to both families shows it, is IPv4.
    """
    try:
        if ":" not in host:
            return socket.inet_pton(socket.AF_INET, host) + _PORT.pack(port)
        address = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
        if address.startswith(_MAPPED_V4):
            address = address[12:]
        return address + _PORT.pack(port)
    except (OSError, ValueError, struct.error) as cause:
        raise InvalidHost(f"{host!r} with port {port} is no numeric address") from cause


@lru_cache(maxsize=4096)
def decode_host(encoded: bytes) -> tuple[str, int]:
    """The address as text, and the port."""
    if len(encoded) == V4_SIZE:
        family = socket.AF_INET
    elif len(encoded) == V6_SIZE:
        family = socket.AF_INET6
    else:
        raise InvalidHost(f"a host has {V4_SIZE} or {V6_SIZE} bytes, not {len(encoded)}")
    (port,) = _PORT.unpack_from(encoded, len(encoded) - 4)
    return socket.inet_ntop(family, encoded[:-4]), port


def format_host(host: str, port: int) -> str:
    """`host:port`, the form in which addresses travel in headers and JSON."""
    return f"{host}:{port}"
