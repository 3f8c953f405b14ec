"""What a proxy may be told; the defaults are RocketMQ's, under its names in rmq-proxy.json."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rocketq.common.config import check_ranges, key
from rocketq.common.metrics.settings import METRICS_RANGES, MetricsSettings
from rocketq.remoting.access.settings import AccessSettings
from rocketq.remoting.link.settings import ENTRANCE_RANGES, EntranceSettings
from rocketq.remoting.tls.settings import TlsSettings

_DAY_MS: Final = 24 * 60 * 60 * 1000
_TIME_MS: Final = (0, 365 * _DAY_MS)
_TIME_S: Final = (1, 365 * 24 * 60 * 60)
_BYTES: Final = (1, 1 << 30)
_COUNT: Final = (1, 10_000_000)
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    **ENTRANCE_RANGES,
    **METRICS_RANGES,
    "grpc_server_port": (0, 65_535),
    "max_message_size": _BYTES,
    "max_user_property_size": _BYTES,
    "user_property_max_num": _COUNT,
    "max_message_group_size": _COUNT,
    "max_delay_time_mills": _TIME_MS,
    "max_transaction_recovery_second": _TIME_S,
    "default_invisible_time_mills": _TIME_MS,
    "min_invisible_time_mills_for_recv": _TIME_MS,
    "max_invisible_time_mills": (1, 365 * _DAY_MS),
    "grpc_client_consumer_min_long_polling_timeout_millis": _TIME_MS,
    "grpc_client_consumer_max_long_polling_timeout_millis": _TIME_MS,
    "grpc_client_consumer_long_polling_batch_size": _COUNT,
    "renew_ahead_time_millis": _TIME_MS,
    "renew_max_time_millis": _TIME_MS,
    "max_renew_retry_times": (0, 1_000),
    "invisible_time_millis_when_clear": _TIME_MS,
    "grpc_client_producer_max_attempts": (1, 1_000),
    "grpc_client_producer_backoff_initial_millis": _TIME_MS,
    "grpc_client_producer_backoff_max_millis": _TIME_MS,
    "grpc_client_producer_backoff_multiplier": (1, 1_000),
    "channel_expired_timeout": (1, 365 * _DAY_MS),
    "grpc_proxy_relay_request_timeout_in_seconds": _TIME_S,
    "transaction_heartbeat_period_second": _TIME_S,
    "grpc_max_inbound_message_size": _BYTES,
    "grpc_client_idle_time_mills": (1, 365 * _DAY_MS),
    "grpc_max_concurrent_calls_per_connection": _COUNT,
    "max_clients": _COUNT,
    "max_waiting_receives": _COUNT,
}


@dataclass(frozen=True, kw_only=True)
class ProxyConfig(AccessSettings, TlsSettings, EntranceSettings, MetricsSettings):
    """The settings of one proxy, in a broker's process or before brokers."""

    proxy_cluster_name: str = "DefaultCluster"
    proxy_name: str = field(default_factory=socket.gethostname)
    grpc_server_port: int = 8081
    bind_address: str = "0.0.0.0"
    namesrv_addr: str = ""
    rocketmq_cluster_name: str = field(
        default="DefaultCluster", metadata=key("rocketMQClusterName")
    )
    use_endpoint_port_from_request: bool = True
    """Whether routes name the port that the client asked at, rather than ours."""

    # Messages
    max_message_size: int = 4 * 1024 * 1024
    enable_message_body_empty_check: bool = True
    max_user_property_size: int = 16 * 1024
    user_property_max_num: int = 128
    max_message_group_size: int = 64
    max_delay_time_mills: int = 24 * 3_600_000
    max_transaction_recovery_second: int = 3_600
    enable_topic_message_type_check: bool = True

    # Consuming
    default_invisible_time_mills: int = 60_000
    min_invisible_time_mills_for_recv: int = 10_000
    max_invisible_time_mills: int = 12 * 3_600_000
    grpc_client_consumer_min_long_polling_timeout_millis: int = 5_000
    grpc_client_consumer_max_long_polling_timeout_millis: int = 20_000
    grpc_client_consumer_long_polling_batch_size: int = 32
    enable_proxy_auto_renew: bool = True
    renew_ahead_time_millis: int = 10_000
    renew_max_time_millis: int = 3 * 3_600_000
    max_renew_retry_times: int = 3
    invisible_time_millis_when_clear: int = 1_000

    # Clients
    grpc_client_producer_max_attempts: int = 3
    grpc_client_producer_backoff_initial_millis: int = 10
    grpc_client_producer_backoff_max_millis: int = 1_000
    grpc_client_producer_backoff_multiplier: int = 2
    channel_expired_timeout: int = 120_000
    grpc_proxy_relay_request_timeout_in_seconds: int = 5
    transaction_heartbeat_period_second: int = 20

    # Limits
    grpc_max_inbound_message_size: int = 32 * 1024 * 1024
    grpc_client_idle_time_mills: int = 120_000
    grpc_max_concurrent_calls_per_connection: int = 8_192
    max_clients: int = 50_000
    max_waiting_receives: int = 20_000

    def __post_init__(self) -> None:
        check_ranges(self, RANGES)
        self.check_metrics()
