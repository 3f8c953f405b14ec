"""Settings that every kind of client shares.

Public classes take them as keyword arguments (`Producer("group", namesrv=..., namespace=...)`)
and hand them on as one frozen `ClientConfig`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from rocketq.client.errors import InvalidSettings
from rocketq.message.ids import local_address

DEFAULT_INSTANCE_NAME = "DEFAULT"


class ClientOptions(TypedDict, total=False):
    """The keyword arguments every client accepts; `ClientConfig` explains them."""

    namesrv: str | Sequence[str] | None
    client_ip: str | None
    instance_name: str
    unit_name: str
    namespace: str
    access_key: str
    secret_key: str
    security_token: str
    vip_channel: bool
    route_interval_s: float
    heartbeat_interval_s: float
    persist_interval_s: float
    api_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How one client reaches its cluster, and what it calls itself there."""

    namesrv: str | Sequence[str] | None = None
    """`host:port`, several joined by `;` or in a list. None: environment `NAMESRV_ADDR`."""
    client_ip: str | None = None
    """What the client id starts with. None: this host's own address."""
    instance_name: str = DEFAULT_INSTANCE_NAME
    """Clients with the same name share one instance (connections, routes, heartbeats)."""
    unit_name: str = ""
    namespace: str = ""
    """Put before every topic and group on the wire, and taken off again."""
    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""
    vip_channel: bool = False
    """Send to the broker's port − 2, which serves no pulls."""
    route_interval_s: float = 30.0
    heartbeat_interval_s: float = 30.0
    persist_interval_s: float = 5.0
    api_timeout_s: float = 3.0

    def __post_init__(self) -> None:
        if bool(self.access_key) != bool(self.secret_key):
            raise InvalidSettings("access_key and secret_key go together: one of them is missing")
        for name in ("route_interval_s", "heartbeat_interval_s", "persist_interval_s"):
            if getattr(self, name) <= 0:
                raise InvalidSettings(f"{name} must be above 0, not {getattr(self, name)}")
        if self.api_timeout_s <= 0:
            raise InvalidSettings(f"api_timeout_s must be above 0, not {self.api_timeout_s}")

    def client_id(self, *, unique_name: bool = True, stream: bool = False) -> str:
        """`ip@instance[@unit][@STREAM]`.

        The default name becomes `pid#nanoseconds`, so that every client has an instance of its
        own; broadcasting consumers keep it (`unique_name=False`), since their stored offsets
        belong to the id.
        """
        name = self.instance_name
        if name == DEFAULT_INSTANCE_NAME and unique_name:
            name = f"{os.getpid()}#{time.monotonic_ns()}"
        host = self.client_ip or socket.inet_ntoa(local_address())
        parts = [host, name]
        if self.unit_name:
            parts.append(self.unit_name)
        if stream:
            parts.append("STREAM")
        return "@".join(parts)
