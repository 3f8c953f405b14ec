"""Settings of everything that listens, ours all of them: what strangers may take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class EntranceSettings:
    """Limits at the entrance of a server; servers' configurations inherit them."""

    max_connections: int = 100_000
    max_connections_per_address: int = 50_000
    max_tls_handshakes: int = 256
    tls_handshake_timeout_millis: int = 10_000
    max_frame_length_before_login: int = 4 * _MIB + 256 * 1024
    proxy_protocol_addresses: str = ""


ENTRANCE_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "max_connections": (1, 1_000_000),
    "max_connections_per_address": (1, 1_000_000),
    "max_tls_handshakes": (1, 100_000),
    "tls_handshake_timeout_millis": (100, 600_000),
    "max_frame_length_before_login": (4096, 16 * _MIB),
}
