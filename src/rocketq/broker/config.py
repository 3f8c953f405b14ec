"""Options of a broker, under RocketMQ's own keys.

A field's name is the key of RocketMQ's `broker.conf` in Python's spelling: `listen_port` is
`listenPort`. Defaults are those of RocketMQ 5.5.0. Times are milliseconds, sizes bytes.

A `BrokerConfig` never changes. What an administrator changes at run time replaces the whole
object inside `LiveConfig`, and processors read `live.broker` at the moment they need it.
"""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketq.broker.tables.data_version import VersionCounter
from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.config import ConfigError, key, load_all, to_properties, update
from rocketq.common.files import write_atomically
from rocketq.message.flags import Permission
from rocketq.store.config import StoreConfig

_MIB = 1024 * 1024
_GIB = 1024 * _MIB


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
class BrokerConfig:
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
    fetch_namesrv_addr_interval: int = 10_000
    update_name_server_addr_period: int = 120_000
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    force_register: bool = True
    compressed_register: bool = False
    enable_single_topic_register: bool = False
    enable_split_registration: bool = False
    split_registration_size: int = 800
    broker_heartbeat_interval: int = 1_000
    broker_not_active_timeout_millis: int = 10_000

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
    enable_split_metadata: bool = True
    split_metadata_size: int = 2_000

    # Sending.
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    async_send_enable: bool = True
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
    transfer_msg_by_heap: bool = True
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
    filter_data_clean_time_span: int = 24 * 3_600_000
    enable_calc_filter_bit_map: bool = False
    expect_consumer_num_use_filter: int = 32
    max_error_rate_of_bloom_filter: int = 20
    bit_map_length_consume_queue_ext: int = 112

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
    flush_consumer_offset_history_interval: int = 60_000
    consumer_offset_update_version_step: int = 500
    use_server_side_reset_offset: bool = True
    enable_broadcast_offset_store: bool = True
    broadcast_offset_expire_second: int = 120
    broadcast_offset_expire_max_second: int = 300

    # Transactions.
    transaction_time_out: int = 6_000
    transaction_check_max: int = 15
    transaction_check_interval: int = 30_000
    transaction_op_msg_max_size: int = 4_096
    transaction_op_batch_interval: int = 3_000
    transaction_metric_flush_interval: int = 10_000

    # Delay levels.
    enable_schedule_async_deliver: bool = False
    schedule_async_deliver_max_pending_limit: int = 2_000
    schedule_async_deliver_max_resend_num2_blocked: int = 3

    # Pop.
    default_message_request_mode: str = "PULL"
    default_pop_share_queue_num: int = -1
    pop_polling_size: int = 1_024
    max_pop_polling_size: int = 100_000
    revive_queue_num: int = 8
    revive_interval: int = 1_000
    pop_from_retry_probability: int = 20
    enable_retry_topic_v2: bool = False

    # Protection. The time a request may wait before it is served, by kind.
    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: int = 200
    wait_time_mills_in_pull_queue: int = 5_000
    wait_time_mills_in_lite_pull_queue: int = 5_000
    wait_time_mills_in_heartbeat_queue: int = 31_000
    wait_time_mills_in_transaction_queue: int = 3_000
    wait_time_mills_in_ack_queue: int = 3_000
    wait_time_mills_in_admin_broker_queue: int = 5_000
    # How many sends may wait for their flush or their slave before others are refused.
    send_thread_pool_queue_capacity: int = 10_000
    # Bytes a client may leave unread before nothing more is read from it; 0 is a megabyte.
    write_buffer_high_water_mark: int = 0

    # Roles and clusters.
    enable_slave_acting_master: bool = False
    enable_controller_mode: bool = False
    controller_addr: str = ""

    # Security, statistics, administration.
    acl_enable: bool = False
    account_stats_enable: bool = True
    enable_detail_stat: bool = True
    cold_data_flow_control_enable: bool = False
    cg_cold_read_threshold: int = 3 * _MIB
    global_cold_read_threshold: int = 100 * _MIB
    metrics_exporter_type: str = "DISABLE"
    metrics_prom_exporter_port: int = 5_557
    config_black_list: str = "configBlackList;brokerConfigPath"
    shutdown_wait_time_seconds: int = 30

    def __post_init__(self) -> None:
        if not 0 <= self.broker_permission <= 7:
            raise ConfigError(
                f"brokerPermission={self.broker_permission}: must lie between 0 and 7"
            )
        if not 0 <= self.listen_port <= 65_535:
            raise ConfigError(f"listenPort={self.listen_port}: must lie between 0 and 65535")
        if not self.broker_name:
            raise ConfigError("brokerName=: must not be empty")
        if self.default_topic_queue_nums < 1:
            raise ConfigError(
                f"defaultTopicQueueNums={self.default_topic_queue_nums}: must be at least 1"
            )
        if not self.broker_ip2:
            object.__setattr__(self, "broker_ip2", self.broker_ip1)

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


# Keys of RocketMQ that size its thread pools, its native memory and its RocksDB. There is
# nothing here for them to size: a file that has them is right, and they change nothing.
WITHOUT_EFFECT: Final = frozenset(
    """sendMessageThreadPoolNums putMessageFutureThreadPoolNums pullMessageThreadPoolNums
    litePullMessageThreadPoolNums ackMessageThreadPoolNums processReplyMessageThreadPoolNums
    queryMessageThreadPoolNums adminBrokerThreadPoolNums clientManageThreadPoolNums
    consumerManageThreadPoolNums loadBalanceProcessorThreadPoolNums heartbeatThreadPoolNums
    recoverThreadPoolNums endTransactionThreadPoolNums putThreadPoolQueueCapacity
    pullThreadPoolQueueCapacity litePullThreadPoolQueueCapacity ackThreadPoolQueueCapacity
    replyThreadPoolQueueCapacity queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
    consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity
    endTransactionPoolQueueCapacity adminBrokerThreadPoolQueueCapacity
    loadBalanceThreadPoolQueueCapacity serverWorkerThreads serverCallbackExecutorThreads
    serverSelectorThreads serverOnewaySemaphoreValue serverAsyncSemaphoreValue
    serverPooledByteBufAllocatorEnable useEpollNativeSelector clientWorkerThreads
    clientCallbackExecutorThreads clientPooledByteBufAllocatorEnable""".split()
)


def load_configs(properties: Mapping[str, str]) -> tuple[BrokerConfig, StoreConfig]:
    """Both halves of a `broker.conf`; warns of keys that neither knows."""
    known = {key: value for key, value in properties.items() if key not in WITHOUT_EFFECT}
    broker, store = load_all(known, BrokerConfig, StoreConfig)
    return broker, store


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

    def update(self, properties: Mapping[str, str]) -> None:
        """Put new values in force, all or none of them, and keep them in the file."""
        broker, store = update(self.broker, properties), update(self.store, properties)
        before, self.broker, self.store = self.broker, broker, store
        self._version.advance()
        if self.path is not None:
            write_atomically(self.path, self.text().encode())
        for listener in self._listeners:
            listener(before, broker)

    def text(self) -> str:
        """All options as `key=value` lines, sorted by key."""
        merged = to_properties(self.broker) | to_properties(self.store)
        return "".join(f"{key}={value}\n" for key, value in sorted(merged.items()))
