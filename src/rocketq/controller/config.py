"""Options of a controller, under RocketMQ's own keys where it has them.

RocketMQ's controllers share their state by a Raft of their own; here etcd does. Of the keys of
that Raft the group's name, the peers and the own id are heeded, so that an existing file says
the same here: which controllers there are and where this one listens.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rocketq.common import config as config_text
from rocketq.common.config import ConfigError, check_ranges, key
from rocketq.common.files import write_atomically
from rocketq.common.metrics.settings import METRICS_RANGES, MetricsSettings
from rocketq.common.networks import networks
from rocketq.remoting.access.settings import AccessSettings
from rocketq.remoting.link.client import split_address
from rocketq.remoting.link.settings import ENTRANCE_RANGES, EntranceSettings
from rocketq.remoting.tls.settings import TlsSettings

_DAY_MS: Final = 24 * 60 * 60 * 1000
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    **ENTRANCE_RANGES,
    **METRICS_RANGES,
    "listen_port": (0, 65_535),
    "etcd_lease_seconds": (1, 60),
    "scan_not_active_broker_interval": (10, _DAY_MS),
    "scan_inactive_master_interval": (10, _DAY_MS),
    "controller_thread_pool_nums": (0, 10_000),
    "controller_request_thread_pool_queue_capacity": (1, 10_000_000),
    "elect_master_max_retry_count": (0, 1_000_000),
}

# Keys that take effect when they are changed while a controller runs. The others are read at
# the start, and refused then.
LIVE_KEYS: Final = frozenset(
    {
        "enableElectUncleanMaster",
        "notifyBrokerRoleChanged",
        "scanNotActiveBrokerInterval",
        "scanInactiveMasterInterval",
    }
)
_PROTECTION: Final = frozenset(
    name
    for each in (AccessSettings, TlsSettings, EntranceSettings, MetricsSettings)
    for name in config_text.settings(each)
)


def _home(*parts: str) -> Callable[[], str]:
    return lambda: str(Path.home().joinpath("controller", *parts))


@dataclass(frozen=True, kw_only=True)
class ControllerConfig(AccessSettings, TlsSettings, EntranceSettings, MetricsSettings):
    """What one controller is told at start."""

    # Where it listens, and what others call it.
    bind_address: str = "0.0.0.0"
    listen_port: int = 19876
    advertised_host: str = ""
    rocketmq_home: str = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME", ""))
    config_store_path: str = field(default_factory=_home("controller.properties"))
    config_black_list: str = "configBlackList;configStorePath"
    controller_group: str = field(
        default="rocketq-controllers", metadata=key("controllerDLegerGroup")
    )
    controller_peers: str = field(default="", metadata=key("controllerDLegerPeers"))
    controller_id: str = field(default="", metadata=key("controllerDLegerSelfId"))

    # Where the state is kept: in etcd, or in a file below this folder.
    controller_store_path: str = field(default_factory=_home())
    etcd_endpoints: str = ""
    etcd_prefix: str = "/rocketq/controller"
    etcd_lease_seconds: int = 2
    etcd_user: str = ""
    etcd_password: str = field(default="", repr=False)
    etcd_ca_file: str = ""
    etcd_cert_file: str = ""
    etcd_key_file: str = ""

    # Elections.
    enable_elect_unclean_master: bool = False
    notify_broker_role_changed: bool = True
    scan_not_active_broker_interval: int = 100
    scan_inactive_master_interval: int = 1_000

    # Accepted without effect.
    controller_type: str = "DLedger"
    is_process_read_event: bool = False
    elect_master_max_retry_count: int = 3
    controller_thread_pool_nums: int = 16
    controller_request_thread_pool_queue_capacity: int = 50_000

    def __post_init__(self) -> None:
        check_ranges(self, RANGES)
        self.check_access()
        networks("proxyProtocolAddresses", self.proxy_protocol_addresses)
        self.check_metrics()
        if not self.etcd_prefix.strip("/"):
            raise ConfigError("etcdPrefix: must be a name for the keys, as /rocketq/controller")
        if self.etcd_user and not self.etcd_password:
            raise ConfigError("etcdUser: must have an etcdPassword, too")
        if bool(self.etcd_cert_file) != bool(self.etcd_key_file):
            raise ConfigError("etcdCertFile and etcdKeyFile: must be both there or none")
        for each in self.endpoints:
            try:
                split_address(each)
            except ValueError:
                raise ConfigError(f"etcdEndpoints={each}: must be HOST:PORT[,...]") from None
        if len(self.peers) > 1 and not self.endpoints:
            raise ConfigError(
                "controllerDLegerPeers: several controllers need etcd, see --etcd (etcdEndpoints)"
            )
        if self.peers and self.controller_id and self.controller_id not in self.peers:
            raise ConfigError(
                f"controllerDLegerSelfId={self.controller_id}: must be one of controllerDLegerPeers"
            )

    @property
    def endpoints(self) -> list[str]:
        """etcd's nodes."""
        words = [word.strip() for word in self.etcd_endpoints.split(",")]
        return [word.removeprefix("http://").removeprefix("https://") for word in words if word]

    @property
    def peers(self) -> dict[str, str]:
        """RocketMQ's `n0-host:port;n1-host:port`: addresses by id."""
        peers = {}
        for word in self.controller_peers.split(";"):
            name, dash, address = word.strip().partition("-")
            if word.strip() and (not dash or not name):
                raise ConfigError(f"controllerDLegerPeers={word}: must be n0-HOST:PORT;...")
            if dash:
                peers[name] = address
        return peers

    @property
    def locked_keys(self) -> frozenset[str]:
        """The keys an administrator may not change over the wire."""
        listed = (word.strip() for word in self.config_black_list.split(";"))
        always = ("configBlackList", "configStorePath", "rocketmqHome", *_PROTECTION)
        return frozenset({*always, *(word for word in listed if word)})


def as_peer(config: ControllerConfig) -> ControllerConfig:
    """Listen where the peers of a RocketMQ file say that this controller is."""
    address = config.peers.get(config.controller_id or "n0")
    if address is None:
        return config
    try:
        host, port = split_address(address)
    except ValueError:
        raise ConfigError(f"controllerDLegerPeers: {address} is not HOST:PORT") from None
    return replace(config, advertised_host=config.advertised_host or host, listen_port=port)


class LiveConfig:
    """The configuration in force. An update replaces the whole object, never a part of it."""

    def __init__(self, config: ControllerConfig) -> None:
        self.current = config

    def update(self, changes: Mapping[str, str]) -> None:
        """Take changed keys over, and write all keys to `configStorePath`."""
        known = config_text.settings(ControllerConfig)
        for name in changes:
            if name in known and name not in LIVE_KEYS:
                raise ConfigError(f"{name} is read at the start; change the file and start again")
        changed = config_text.update(self.current, changes)
        options = dict(sorted(config_text.to_properties(changed).items()))
        text = config_text.format_lines(options).encode()
        try:
            write_atomically(Path(changed.config_store_path), text)
        except OSError as error:
            raise ConfigError(f"cannot write {changed.config_store_path}: {error}") from None
        self.current = changed

    def text(self) -> str:
        """All options as `key=value` lines, in the order of their keys; nobody reads secrets."""
        shown = config_text.to_shown(self.current)
        return config_text.format_lines(dict(sorted(shown.items())))
