"""Options of a NameServer, under RocketMQ's own keys and with its defaults.

Options that size RocketMQ's thread pools and buffers are read, shown and stored, so that any
existing file loads without a warning; one event loop needs none of them, and they change
nothing here.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketq.common import config as config_text
from rocketq.common.config import check_ranges
from rocketq.common.files import write_atomically
from rocketq.common.metrics.settings import METRICS_RANGES, MetricsSettings
from rocketq.common.networks import networks
from rocketq.namesrv.registration import Limits
from rocketq.remoting.access.settings import AccessSettings
from rocketq.remoting.link.settings import ENTRANCE_RANGES, EntranceSettings
from rocketq.remoting.tls.settings import TlsSettings

_PROTECTING: Final = (AccessSettings, TlsSettings, EntranceSettings, MetricsSettings)
# Keys nobody may change over the wire, whatever `configBlackList` says: they name files and
# directories of the host, guard the list itself, or say who comes in.
_NEVER_UPDATED: Final = frozenset(
    {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
).union(*(config_text.settings(each) for each in _PROTECTING))


_DAY_MS: Final = 24 * 60 * 60 * 1000
_DAY_S: Final = 24 * 60 * 60
_THREADS: Final = (0, 10_000)
_CAPACITY: Final = (1, 10_000_000)
_BYTES: Final = (0, 1 << 30)
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    **ENTRANCE_RANGES,
    **METRICS_RANGES,
    "listen_port": (0, 65_535),
    "scan_not_active_broker_interval": (1, _DAY_MS),
    "un_register_broker_queue_capacity": _CAPACITY,
    "wait_seconds_for_service": (0, _DAY_S),
    "max_registered_brokers": (1, 1_000_000),
    "max_brokers_per_connection": (1, 100_000),
    "max_registered_topics": (1, 10_000_000),
    "max_route_entries": (1, 100_000_000),
    "max_kv_config_bytes": (1_024, 64 << 20),
    "server_channel_max_idle_time_seconds": (0, _DAY_S),
    "server_socket_backlog": (1, 65_535),
    "server_socket_snd_buf_size": _BYTES,
    "server_socket_rcv_buf_size": _BYTES,
    "shutdown_wait_time_seconds": (0, _DAY_S),
    "client_request_thread_pool_nums": _THREADS,
    "client_request_thread_pool_queue_capacity": _CAPACITY,
    "default_thread_pool_nums": _THREADS,
    "default_thread_pool_queue_capacity": _CAPACITY,
    "server_worker_threads": _THREADS,
    "server_selector_threads": _THREADS,
    "server_callback_executor_threads": _THREADS,
    "server_oneway_semaphore_value": _CAPACITY,
    "server_async_semaphore_value": _CAPACITY,
    "write_buffer_high_water_mark": _BYTES,
    "write_buffer_low_water_mark": _BYTES,
}


def _home(*parts: str) -> Callable[[], str]:
    return lambda: str(Path.home().joinpath("namesrv", *parts))


@dataclass(frozen=True, kw_only=True)
class NamesrvConfig(AccessSettings, TlsSettings, EntranceSettings, MetricsSettings):
    """What one NameServer is told at start."""

    # Where it listens and keeps its two files.
    bind_address: str = "0.0.0.0"
    listen_port: int = 9876
    rocketmq_home: str = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME", ""))
    kv_config_path: str = field(default_factory=_home("kvConfig.json"))
    config_store_path: str = field(default_factory=_home("namesrv.properties"))
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"

    # Brokers.
    scan_not_active_broker_interval: int = 5_000
    un_register_broker_queue_capacity: int = 3_000
    delete_topic_with_broker_registration: bool = False
    return_order_topic_config_to_broker: bool = True
    support_acting_master: bool = False
    notify_min_broker_id_changed: bool = False

    # How much brokers and operators may bring, rocketq's own: see docs/security.md.
    max_registered_brokers: int = 10_000
    max_brokers_per_connection: int = 64
    max_registered_topics: int = 200_000
    max_route_entries: int = 2_000_000
    max_kv_config_bytes: int = 4 << 20

    # Clients.
    order_message_enable: bool = False
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45

    # The network.
    server_channel_max_idle_time_seconds: int = 120
    server_socket_backlog: int = 1024
    server_socket_snd_buf_size: int = 0
    server_socket_rcv_buf_size: int = 0
    shutdown_wait_time_seconds: int = 30

    # Accepted without effect.
    cluster_test: bool = False
    product_env_name: str = "center"
    enable_controller_in_namesrv: bool = False
    enable_shutdown_gracefully: bool = False
    client_request_thread_pool_nums: int = 8
    client_request_thread_pool_queue_capacity: int = 50_000
    default_thread_pool_nums: int = 16
    default_thread_pool_queue_capacity: int = 10_000
    server_worker_threads: int = 8
    server_selector_threads: int = 3
    server_callback_executor_threads: int = 0
    server_oneway_semaphore_value: int = 256
    server_async_semaphore_value: int = 64
    server_netty_worker_group_enable: bool = True
    server_pooled_byte_buf_allocator_enable: bool = True
    use_epoll_native_selector: bool = False
    write_buffer_high_water_mark: int = 0
    write_buffer_low_water_mark: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, RANGES)
        self.check_access()
        networks("proxyProtocolAddresses", self.proxy_protocol_addresses)
        self.check_metrics()

    @property
    def limits(self) -> Limits:
        return Limits(
            brokers=self.max_registered_brokers,
            brokers_per_connection=self.max_brokers_per_connection,
            topics=self.max_registered_topics,
            entries=self.max_route_entries,
        )

    @property
    def locked_keys(self) -> frozenset[str]:
        """The keys an administrator may not change over the wire."""
        listed = (key.strip() for key in self.config_black_list.split(";"))
        return _NEVER_UPDATED.union(key for key in listed if key)


class LiveConfig:
    """The configuration in force. An update replaces the whole object, never a part of it."""

    def __init__(self, config: NamesrvConfig) -> None:
        self.current = config
        self._writing = asyncio.Lock()

    async def update(self, changes: Mapping[str, str]) -> None:
        """Take changed keys over, and write all keys to `configStorePath`."""
        self.current = config_text.update(self.current, changes)
        async with self._writing:
            kept = config_text.to_properties(self.current)
            path = Path(self.current.config_store_path)
            await asyncio.to_thread(write_atomically, path, _lines(kept).encode())

    def text(self) -> str:
        """All options as `key=value` lines, in the order of their keys."""
        return _lines(config_text.to_shown(self.current))


def _lines(options: Mapping[str, str]) -> str:
    return config_text.format_lines(dict(sorted(options.items())))
