"""Options of a broker, under RocketMQ's own keys.

A field's name is the key of RocketMQ's `broker.conf` in Python's spelling: `listen_port` is
`listenPort`. Defaults are those of RocketMQ 5.5.0 where nothing else is said. Times are
milliseconds, sizes bytes.

A `BrokerConfig` never changes. What an administrator changes at run time replaces the whole
object inside `LiveConfig`, and processors read `live.broker` at the moment they need it.
"""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketq.broker.settings.checks import (
    check_change,
    check_values,
    counting,
    is_live,
    warn_about,
)
from rocketq.broker.tables.data_version import VersionCounter
from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.config import (
    ConfigError,
    build,
    format_lines,
    key,
    to_properties,
    to_shown,
    update,
)
from rocketq.common.files import write_atomically
from rocketq.common.metrics.settings import MetricsSettings
from rocketq.common.networks import networks
from rocketq.message.flags import Permission
from rocketq.remoting.access.settings import AccessSettings
from rocketq.remoting.link.settings import EntranceSettings
from rocketq.remoting.tls.settings import TlsSettings
from rocketq.store.config import StoreConfig

_MIB: Final = 1024 * 1024
_GIB: Final = 1024 * _MIB


def local_address() -> str:
    """The address this host is reached at: what its default route would send from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: connecting a datagram socket only looks up the route.
            probe.connect(("192.0.2.1", 9))
            address: str = probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return "127.0.0.1" if address == "0.0.0.0" else address


@dataclass(frozen=True, kw_only=True)
class BrokerConfig(AccessSettings, TlsSettings, EntranceSettings, MetricsSettings):
    """What one broker is told at start."""

    # Who it is and where it listens.
    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = field(default_factory=socket.gethostname)
    broker_id: int = 0
    broker_ip1: str = field(default_factory=local_address, metadata=key("brokerIP1"))
    broker_ip2: str = field(default="", metadata=key("brokerIP2"))
    bind_address: str = "0.0.0.0"
    listen_port: int = 10911
    rocketmq_home: str = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME", ""))

    # NameServers.
    namesrv_addr: str = field(default_factory=lambda: os.environ.get("NAMESRV_ADDR", ""))
    fetch_namesrv_addr_by_address_server: bool = False
    fetch_name_srv_addr_by_dns_lookup: bool = False
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    force_register: bool = True
    enable_split_registration: bool = False
    split_registration_size: int = 800

    # Topics and groups.
    broker_permission: int = 6
    default_topic_queue_nums: int = 8
    auto_create_topic_enable: bool = True
    # Ours: a topic made by a message is made on all masters of the cluster, not on one.
    auto_create_topic_on_all_brokers: bool = False
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    auto_create_subscription_group: bool = True
    validate_system_topic_when_update_topic: bool = True
    enable_mixed_message_type: bool = False
    clear_retry_topic_when_delete_topic: bool = True
    use_static_subscription: bool = False
    # Ours: what clients may make without being asked to, by sending and by subscribing.
    max_queue_nums: int = 16_384
    max_topics_made_unasked: int = 100_000
    max_groups_made_unasked: int = 100_000
    max_made_per_connection: int = 50_000
    max_groups_per_connection: int = 10_000
    max_consumer_offsets: int = 1_000_000

    # Sending.
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    start_accept_send_request_time_stamp: int = 0
    reject_transaction_message: bool = False
    store_reply_message_enable: bool = True
    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True
    append_topic_for_timer_delete_key: bool = False
    enable_batch_push: bool = False

    # Pulling.
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1_000
    lite_pull_message_enable: bool = True
    reject_pull_consumer_enable: bool = False
    slave_read_enable: bool = False
    disable_consume_if_consumer_read_slowly: bool = False
    consumer_fallbehind_threshold: int = 16 * _GIB
    # Ours: RocketMQ limits a pull to 32 messages; here a pull is limited by its bytes, and
    # a client that asks for many messages and many bytes gets up to this much at once.
    max_pull_bytes: int = 4 * _MIB
    max_pull_message_count: int = 65_536
    # Ours: how many pulls may wait for messages before further ones are answered at once.
    max_held_pulls: int = 200_000
    max_held_pulls_per_connection: int = 20_000

    # Filters.
    enable_property_filter: bool = False
    filter_support_retry: bool = False

    # Clients.
    channel_expired_timeout: int = 120_000
    subscription_expired_timeout: int = 600_000
    notify_consumer_ids_changed_enable: bool = True
    real_time_notify_consumer_change: bool = True
    enable_register_producer: bool = True
    lock_in_strict_mode: bool = False
    server_channel_max_idle_time_seconds: int = 120

    # Offsets.
    flush_consumer_offset_interval: int = 5_000
    use_server_side_reset_offset: bool = True

    # Transactions.
    transaction_time_out: int = 6_000
    transaction_check_max: int = 15
    transaction_check_interval: int = 30_000
    transaction_op_msg_max_size: int = 4_096
    transaction_op_batch_interval: int = 3_000

    # Delay levels.

    # Pop.
    default_message_request_mode: str = "PULL"
    default_pop_share_queue_num: int = -1
    server_load_balancer_enable: bool = True
    pop_polling_size: int = 1_024
    max_pop_polling_size: int = 100_000
    revive_queue_num: int = 8
    revive_interval: int = 1_000
    pop_from_retry_probability: int = 20
    pop_from_retry_probability_for_priority: int = 0
    priority_order_asc: bool = True
    enable_retry_topic_v2: bool = False
    retrieve_message_from_pop_retry_topic_v1: bool = field(
        default=True, metadata=key("retrieveMessageFromPopRetryTopicV1")
    )
    pop_response_return_actual_retry_topic: bool = False
    init_pop_offset_by_check_msg_in_mem: bool = True
    enable_pop_buffer_merge: bool = False
    pop_ck_stay_buffer_time: int = 10_000
    pop_ck_stay_buffer_time_out: int = 3_000
    pop_ck_max_buffer_size: int = 200_000
    pop_ck_offset_max_queue_size: int = 20_000
    use_message_filter_for_notification: bool = True
    max_message_filter_num_for_notification: int = 64
    # Ours: how many pops of one connection may wait.
    max_held_pops_per_connection: int = 4_096

    # Protection. The time a request may wait before it is served, by kind.
    # How many sends may wait for their flush or their slave before others are refused.
    send_thread_pool_queue_capacity: int = 10_000
    # Bytes a client may leave unread before nothing more is read from it; 0 is a megabyte.
    write_buffer_high_water_mark: int = 0
    # Ours: see rocketq.remoting.link.alertness.
    stay_awake_micros: int = 200

    # Roles and clusters.
    enable_slave_acting_master: bool = False
    enable_controller_mode: bool = False
    controller_addr: str = ""
    # RocketMQ's are 1 s and 10 s: a master that hangs is replaced sooner here.
    broker_heartbeat_interval: int = 500
    controller_heart_beat_timeout_mills: int = 2_000
    # Ours: how long after the controller's last answer a master acts as one; 0 is for ever.
    master_lease_timeout: int = 1_500
    broker_election_priority: int = 2**31 - 1

    # Security, statistics, administration.
    acl_enable: bool = False
    acl_plain_file: str = field(
        default="conf/plain_acl.yml", metadata=key("rocketmq.acl.plain.file")
    )
    migrate_auth_from_v1_enabled: bool = field(
        default=False, metadata=key("migrateAuthFromV1Enabled")
    )
    cold_data_flow_control_enable: bool = False
    cg_cold_read_threshold: int = 3 * _MIB
    global_cold_read_threshold: int = 100 * _MIB
    config_black_list: str = "configBlackList;brokerConfigPath"

    # Which figures there are; where they go is inherited.
    enable_connection_metrics: bool = True
    enable_lag_and_dlq_metrics: bool = True
    enable_message_store_metrics: bool = True
    enable_pop_metrics: bool = True
    enable_remoting_metrics: bool = True
    enable_request_metrics: bool = True
    enable_stats_metrics: bool = True
    enable_transaction_metrics: bool = True

    shutdown_wait_time_seconds: int = 30

    def __post_init__(self) -> None:
        if not self.broker_name:
            raise ConfigError("brokerName=: must not be empty")
        self.check_access()
        if self.acl_enable and self.authentication_enabled:
            raise ConfigError(
                "aclEnable=true: not together with authenticationEnabled; "
                "migrateAuthFromV1Enabled makes users of accounts"
            )
        if self.migrate_auth_from_v1_enabled and not self.authentication_enabled:
            raise ConfigError("migrateAuthFromV1Enabled=true: needs authenticationEnabled=true")
        networks("proxyProtocolAddresses", self.proxy_protocol_addresses)
        if self.enable_controller_mode:
            self._check_controlled()
        if not self.broker_ip2:
            object.__setattr__(self, "broker_ip2", self.broker_ip1)

    def _check_controlled(self) -> None:
        timeout = self.controller_heart_beat_timeout_mills
        if not self.controllers:
            raise ConfigError("enableControllerMode=true: needs controllerAddr")
        if self.broker_heartbeat_interval * 2 > timeout:
            raise ConfigError(
                f"controllerHeartBeatTimeoutMills={timeout}: must be at least twice "
                f"brokerHeartbeatInterval={self.broker_heartbeat_interval}"
            )
        if self.master_lease_timeout >= timeout:
            raise ConfigError(
                f"masterLeaseTimeout={self.master_lease_timeout}: must be less than "
                f"controllerHeartBeatTimeoutMills={timeout}, or there could be two masters"
            )

    @property
    def controllers(self) -> list[str]:
        return [address.strip() for address in self.controller_addr.split(";") if address.strip()]

    @property
    def is_readable(self) -> bool:
        return bool(self.broker_permission & Permission.READ)

    @property
    def is_writable(self) -> bool:
        return bool(self.broker_permission & Permission.WRITE)

    @property
    def reply_topic(self) -> str:
        """Where replies of the request-reply pattern are sent."""
        return f"{self.broker_cluster_name}_REPLY_TOPIC"

    @property
    def name_servers(self) -> list[str]:
        return [address.strip() for address in self.namesrv_addr.split(";") if address.strip()]

    @property
    def register_period_s(self) -> float:
        """Seconds between full registrations, held within RocketMQ's bounds."""
        return min(max(self.register_name_server_period, 10_000), 60_000) / 1000


# What `mqbroker -m` prints: the options RocketMQ marks as important.
IMPORTANT_KEYS: Final = frozenset(
    """namesrvAddr listenPort brokerIP1 autoCreateTopicEnable autoCreateSubscriptionGroup
    traceTopicEnable msgTraceTopicName rejectTransactionMessage fetchNamesrvAddrByAddressServer
    fetchNameSrvAddrByDnsLookup transactionTimeOut transactionCheckMax transactionCheckInterval
    aclEnable storePathRootDir storePathCommitLog brokerRole flushDiskType flushIntervalCommitLog
    commitIntervalCommitLog flushCommitLogTimed deleteWhen fileReservedTime
    cleanFileForciblyEnable deleteFileBatchMax maxTransferBytesOnMessageInMemory
    maxTransferCountOnMessageInMemory maxTransferBytesOnMessageInDisk
    maxTransferCountOnMessageInDisk accessMessageInMemoryMaxRatio messageIndexEnable
    messageIndexSafe haMasterAddress totalReplicas inSyncReplicas minInSyncReplicas
    allAckInSyncStateSet transientStorePoolEnable""".split()
)


def load_configs(properties: Mapping[str, str]) -> tuple[BrokerConfig, StoreConfig]:
    """Both halves of a `broker.conf`; raises for what cannot be had, warns of what is idle."""
    warn_about(properties)
    check_values(properties)
    return build(BrokerConfig, properties), build(StoreConfig, properties)


def check_configs(broker: BrokerConfig, store: StoreConfig) -> None:
    """Raise unless a broker can be all that its configuration says."""
    check_values(to_properties(broker) | to_properties(store))


class LiveConfig:
    """The options in force now. Changed by administrators only, read by everybody."""

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        *,
        path: Path | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.broker = broker
        self.store = store
        self.path = path
        # Changes that are in the file and in force from the next start on.
        self._later: dict[str, str] = {}
        self._version = VersionCounter(clock)
        self._listeners: list[Callable[[BrokerConfig, BrokerConfig], None]] = []

    @property
    def version(self) -> VersionCounter:
        return self._version

    @property
    def black_list(self) -> frozenset[str]:
        """Keys that may not be changed at run time; the list itself is always one of them."""
        listed = (key.strip() for key in self.broker.config_black_list.split(";"))
        return frozenset(key for key in listed if key) | {"configBlackList", "brokerConfigPath"}

    def on_change(self, callback: Callable[[BrokerConfig, BrokerConfig], None]) -> None:
        self._listeners.append(callback)

    def update(self, properties: Mapping[str, str]) -> list[str]:
        """Put new values in force, all or none of them, and keep them in the file.

        Returns the keys that count from the next start on only.
        """
        check_change(properties)
        check_values(properties)
        now = {key: value for key, value in properties.items() if is_live(key)}
        later = self._later | {key: value for key, value in properties.items() if key not in now}
        broker, store = update(self.broker, now), update(self.store, now)
        # Also what counts later has to be something that can be had then.
        next_broker, next_store = update(broker, later), update(store, later)
        in_force = to_properties(broker) | to_properties(store)
        at_start = to_properties(next_broker) | to_properties(next_store)
        later = {key: at_start[key] for key in later if at_start.get(key) != in_force.get(key)}
        waiting = [key for key in properties if key in later]
        if waiting and self.path is None:
            raise ConfigError(
                f"{waiting[0]} counts from the next start on, and there is no file to keep it in"
            )
        before, self.broker, self.store, self._later = self.broker, broker, store, later
        self._version.advance()
        if self.path is not None:
            write_atomically(self.path, format_lines(counting(at_start)).encode())
        for listener in self._listeners:
            listener(before, broker)
        return waiting

    def text(self) -> str:
        """All options that count as `key=value` lines, sorted by key."""
        return format_lines(counting(to_shown(self.broker) | to_shown(self.store)))
