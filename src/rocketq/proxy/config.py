"""What a proxy may be told; the defaults are RocketMQ's, under its names in rmq-proxy.json."""

from dataclasses import dataclass, field

from rocketq.common.config import ConfigError, key
from rocketq.remoting.access.settings import AccessSettings
from rocketq.remoting.link.settings import EntranceSettings
from rocketq.remoting.tls.settings import TlsSettings


@dataclass(frozen=True, kw_only=True)
class ProxyConfig(AccessSettings, TlsSettings, EntranceSettings):
    """The settings of one proxy, in a broker's process or before brokers."""

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
        if not 0 <= self.grpc_server_port <= 65_535:
            raise ConfigError(f"grpcServerPort={self.grpc_server_port}: must be a port")
        for name in (
            "max_user_property_size",
            "user_property_max_num",
            "max_message_group_size",
            "max_invisible_time_mills",
            "grpc_client_consumer_long_polling_batch_size",
            "grpc_max_inbound_message_size",
            "grpc_max_concurrent_calls_per_connection",
            "max_clients",
            "max_waiting_receives",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name}: must be more than 0")
