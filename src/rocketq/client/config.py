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
from typing import Final, TypedDict

from rocketq.client.errors import InvalidSettings
from rocketq.client.options import check_ranges, option
from rocketq.message.ids import local_address

DEFAULT_INSTANCE_NAME: Final = "DEFAULT"


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
    tls: bool
    tls_trust: str
    tls_certificate: str
    tls_key: str
    tls_key_password: str
    tls_check_hostname: bool
    vip_channel: bool
    route_interval_s: float
    heartbeat_interval_s: float
    persist_interval_s: float
    api_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How one client reaches its cluster, and what it calls itself there."""

    namesrv: str | Sequence[str] | None = option(
        None,
        "Where the NameServers are: `host:port`, several joined by `;` or in a list. Without it, "
        "NAMESRV_ADDR of the environment, else 127.0.0.1:9876.",
    )
    client_ip: str | None = option(
        None, "What the client id starts with, if not this host's own address."
    )
    instance_name: str = option(
        DEFAULT_INSTANCE_NAME,
        "Clients with the same name share one instance (connections, routes, heartbeats).",
    )
    unit_name: str = option("", "The unit that the client id names, where there are units.")
    namespace: str = option(
        "", "Put before every topic and group on the wire, and taken off again."
    )
    access_key: str = option(
        "",
        "The user that requests are signed for; with `secret_key`. Without both, "
        "ROCKETQ_ACCESS_KEY and ROCKETQ_SECRET_KEY of the environment, else the file that "
        "ROCKETQ_CLIENT_CONFIG names.",
    )
    secret_key: str = option("", "What requests are signed with; never sent.", secret=True)
    security_token: str = option(
        "", "A temporary user's token, sent along with the signature.", secret=True
    )
    tls: bool = option(False, "Encrypt connections. Without it, ROCKETQ_TLS, else the file.")
    tls_trust: str = option(
        "", "A file of certificates; servers have to show one that these vouch for."
    )
    tls_certificate: str = option("", "A file with the certificate shown to servers.")
    tls_key: str = option("", "A file with its key.")
    tls_key_password: str = option("", "What the key is locked with.", secret=True)
    tls_check_hostname: bool = option(
        False, "A server's certificate has to name the host or the address that is called."
    )
    vip_channel: bool = option(False, "Send to the broker's port minus 2, which serves no pulls.")
    route_interval_s: float = option(
        30.0, "How often the routes in use are asked for again.", above=0
    )
    heartbeat_interval_s: float = option(
        30.0, "How often brokers are told that the client is still there.", above=0
    )
    persist_interval_s: float = option(5.0, "How often consumers' offsets are stored.", above=0)
    api_timeout_s: float = option(
        3.0, "How long the answer to a request other than sends and pulls may take.", above=0
    )

    def __post_init__(self) -> None:
        if bool(self.access_key) != bool(self.secret_key):
            raise InvalidSettings("access_key and secret_key go together: one of them is missing")
        if not self.tls and (self.tls_trust or self.tls_certificate or self.tls_check_hostname):
            raise InvalidSettings("certificates are given, and connections are not encrypted: tls")
        check_ranges(self)

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
