"""The PROXY protocol: a proxy's word about whose connection it passes on.

It comes before anything else, in one of two forms:

    version 1   PROXY TCP4 192.0.2.7 10.0.0.1 56324 10911\\r\\n     at most 107 bytes
    version 2   12 bytes of signature, version and command, family, length, addresses, extras

Whoever may say so decides who somebody is, so it is read only from addresses that were named.
"""

import ipaddress
import struct
from typing import Final, NamedTuple

from rocketq.common.numbers import parse_natural

_V1: Final = b"PROXY "
_V1_LIMIT: Final = 107
_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_HEAD: Final = struct.Struct(">12sBBH")
_V2_LIMIT: Final = 4096
_LOCAL: Final = 0x20
_PROXY: Final = 0x21
_TCP4: Final = 0x11
_TCP6: Final = 0x21
_TCP4_ADDRESSES: Final = struct.Struct(">4s4sHH")
_TCP6_ADDRESSES: Final = struct.Struct(">16s16sHH")


class BadPreamble(ValueError):
    """It began as a preamble and went on as none."""


class Preamble(NamedTuple):
    """What was found: how long it is, and whose connection it is, if that is said."""

    size: int
    source: tuple[str, int] | None


def may_begin(data: bytes) -> bool:
    """Whether these bytes begin a preamble, as far as they go."""
    return _V2.startswith(data[:12]) or _V1.startswith(data[:6])


def read_preamble(data: bytes) -> Preamble | None:
    """The preamble at the beginning; None while there are too few bytes. Raises BadPreamble."""
    if data[:1] == _V1[:1]:
        return _version_1(data)
    return _version_2(data)


def _version_1(data: bytes) -> Preamble | None:
    line, end, _ = data[:_V1_LIMIT].partition(b"\r\n")
    if not end:
        if len(data) >= _V1_LIMIT:
            raise BadPreamble("a line of a proxy without an end")
        return None
    words = line.decode("latin-1").split(" ")
    size = len(line) + 2
    if words[0] != "PROXY" or len(words) < 2:
        raise BadPreamble("not a line of a proxy")
    if words[1] == "UNKNOWN":
        return Preamble(size, None)
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise BadPreamble("a line of a proxy with other than six words")
    port = parse_natural(words[4], 65_535)
    try:
        source = ipaddress.ip_address(words[2])
    except ValueError:
        raise BadPreamble("a line of a proxy without an address") from None
    if port is None or source.version != int(words[1][3]):
        raise BadPreamble("a line of a proxy with a wrong address or port")
    return Preamble(size, (str(source), port))


def _version_2(data: bytes) -> Preamble | None:
    if len(data) < _V2_HEAD.size:
        return None
    signature, command, family, length = _V2_HEAD.unpack_from(data)
    size = _V2_HEAD.size + length
    if signature != _V2 or command not in (_LOCAL, _PROXY) or size > _V2_LIMIT:
        raise BadPreamble("a head of a proxy that cannot be")
    if len(data) < size:
        return None
    if command == _LOCAL:
        return Preamble(size, None)
    layout = {_TCP4: _TCP4_ADDRESSES, _TCP6: _TCP6_ADDRESSES}.get(family)
    if layout is None:
        return Preamble(size, None)  # a family that has no addresses for us
    if length < layout.size:
        raise BadPreamble("a head of a proxy that is too short for its addresses")
    source, _, port, _ = layout.unpack_from(data, _V2_HEAD.size)
    return Preamble(size, (str(ipaddress.ip_address(source)), port))
