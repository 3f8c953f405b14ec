"""Everything a broker says about itself in figures.

The names with `rocketmq_` and their labels are those that a RocketMQ 5.5.0 broker exports for
Prometheus (units at the end of the name included), so that dashboards made for it work. Those
with `rocketq_` are ours.
"""

from typing import Final

from rocketq.broker.pop.merge_buffer import SCAN_MS
from rocketq.broker.stats.stats import CREATION_MS, DELAY_SECONDS, FINISH_SECONDS, SIZE_BYTES
from rocketq.common.metrics.family import counter, gauge, histogram
from rocketq.remoting.link.meter import LATENCY_MS
from rocketq.store.durability.flush import FLUSH_SECONDS
from rocketq.store.replication.replicas import COPY_SECONDS

_STORAGE: Final = ("storage_type", "storage_medium")

# What it is

WATERMARK = gauge(
    "rocketmq_processor_watermark",
    "Requests that wait; here only sends wait, for the disk or for slaves.",
    "processor",
)
PERMISSION = gauge("rocketmq_broker_permission", "4 read, 2 write, 6 both.")
TOPICS = gauge("rocketmq_topic_number", "Topics.")
GROUPS = gauge("rocketmq_consumer_group_number", "Consumer groups.")
TOPIC_CREATION = histogram(
    "rocketmq_topic_create_execution_time_milliseconds",
    "How long it took to make or change topics.",
    CREATION_MS,
    "invocation_status",
    "is_system",
)
GROUP_CREATION = histogram(
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    "How long it took to make or change groups.",
    CREATION_MS,
    "invocation_status",
    "is_system",
)

# Messages

MESSAGES_IN = counter(
    "rocketmq_messages_in_total", "Messages stored.", "topic", "message_type", "is_system"
)
BYTES_IN = counter(
    "rocketmq_throughput_in_total", "Their bytes.", "topic", "message_type", "is_system"
)
MESSAGES_OUT = counter(
    "rocketmq_messages_out_total",
    "Messages handed to consumers.",
    "topic",
    "consumer_group",
    "is_system",
    "is_retry",
)
BYTES_OUT = counter(
    "rocketmq_throughput_out_total",
    "Their bytes.",
    "topic",
    "consumer_group",
    "is_system",
    "is_retry",
)
SIZES = histogram(
    "rocketmq_message_size",
    "How large messages are as they are stored; those of a batch count as equally large.",
    SIZE_BYTES,
    "topic",
    "message_type",
    "is_system",
)
TO_DLQ = counter(
    "rocketmq_send_to_dlq_messages_total",
    "Messages that a group has given up.",
    "consumer_group",
    "topic",
    "is_system",
)
SENT_BACK = counter(
    "rocketq_messages_sent_back_total",
    "Messages that a group could not consume and will get again.",
    "consumer_group",
    "topic",
)

# Clients

PRODUCERS = gauge(
    "rocketmq_producer_connections",
    "Connections of producers.",
    "language",
    "version",
    "protocol_type",
)
CONSUMERS = gauge(
    "rocketmq_consumer_connections",
    "Connections of consumers.",
    "consumer_group",
    "language",
    "version",
    "consume_mode",
    "protocol_type",
    "is_system",
)
CONNECTIONS = gauge("rocketq_connections", "Open connections.", "port")
ACCEPTED = counter("rocketq_connections_accepted_total", "Connections that were accepted.")
LATENCY = histogram(
    "rocketmq_rpc_latency_milliseconds",
    "How long requests took.",
    LATENCY_MS,
    "protocol_type",
    "request_code",
    "response_code",
    "is_long_polling",
    "result",
)
HELD = gauge(
    "rocketq_held_requests", "Requests that wait for messages: pulls, pops, notifications.", "kind"
)

# Groups and topics

_LAG: Final = ("consumer_group", "topic", "is_retry", "is_system")
LAG = gauge("rocketmq_consumer_lag_messages", "Messages stored and not consumed.", *_LAG)
LAG_MS = gauge(
    "rocketmq_consumer_lag_latency_milliseconds", "Age of the first that is not consumed.", *_LAG
)
INFLIGHT = gauge("rocketmq_consumer_inflight_messages", "Messages fetched and not consumed.", *_LAG)
QUEUEING_MS = gauge(
    "rocketmq_consumer_queueing_latency_milliseconds",
    "Age of the first that is not fetched.",
    *_LAG,
)
READY = gauge("rocketmq_consumer_ready_messages", "Messages stored and not fetched.", *_LAG)

# Transactions

COMMITS = counter("rocketmq_commit_messages_total", "Transactions committed.", "topic")
ROLLBACKS = counter("rocketmq_rollback_messages_total", "Transactions rolled back.", "topic")
FINISH = histogram(
    "rocketmq_finish_message_latency_milliseconds",
    "From half message to decision; seconds, whatever RocketMQ's name for it says.",
    FINISH_SECONDS,
    "topic",
)
HALF_MESSAGES = gauge(
    "rocketmq_half_messages", "Transactions that nobody has decided, by topic.", "topic"
)
OPEN_TRANSACTIONS = gauge("rocketq_open_transactions", "Transactions that nobody has decided.")

# Pop

REVIVE_LAG = gauge(
    "rocketmq_pop_revive_lag_milliseconds",
    "Records of a revive queue not dealt with; messages, whatever RocketMQ's name says.",
    "queue_id",
)
REVIVE_MS = gauge(
    "rocketmq_pop_revive_latency_milliseconds",
    "How long the first of them has been due.",
    "queue_id",
)
CHECK_POINT_BUFFER = gauge(
    "rocketmq_pop_checkpoint_buffer_size", "Pops that are neither acknowledged nor brought back."
)
OFFSET_BUFFER = gauge(
    "rocketmq_pop_offset_buffer_size", "Queues whose offset waits for pops in memory."
)
REVIVE_IN = counter(
    "rocketmq_pop_revive_in_message_total",
    "Check points (CK) and acks (ACK) written to the revive log.",
    "consumer_group",
    "topic",
    "revive_message_type",
    "put_status",
)
REVIVE_OUT = counter(
    "rocketmq_pop_revive_out_message_total",
    "Check points and acks read from it when they were due.",
    "consumer_group",
    "topic",
    "queue_id",
    "revive_message_type",
)
BUFFER_SCAN = histogram(
    "rocketmq_pop_buffer_scan_time_consume_milliseconds",
    "How long it took to write what had stayed in memory long enough.",
    SCAN_MS,
)
REVIVED = counter(
    "rocketmq_pop_revive_retry_messages_total",
    "Messages brought back because nobody acknowledged them.",
    "consumer_group",
    "topic",
    "put_status",
)

# Timers

TIMER_UNPLACED = gauge("rocketmq_timer_enqueue_lag", "Timers without a slot yet.", *_STORAGE)
TIMER_UNPLACED_MS = gauge(
    "rocketmq_timer_enqueue_latency_milliseconds",
    "How long the first of them has been waiting for one.",
    *_STORAGE,
)
TIMER_LATE = gauge("rocketmq_timer_dequeue_lag", "Timers due and not delivered.", *_STORAGE)
TIMER_LATE_MS = gauge(
    "rocketmq_timer_dequeue_latency_milliseconds", "How late deliveries are.", *_STORAGE
)
TIMING = gauge("rocketmq_timing_messages", "Timers that wait, by topic.", *_STORAGE, "topic")
TIMER_SNAPSHOT = gauge(
    "rocketmq_timer_message_snapshot",
    "Timers that are due within this many seconds.",
    *_STORAGE,
    "timer_bound_s",
)
TIMERS_PLACED = counter(
    "rocketmq_timer_enqueue_total", "Timers that were given a slot.", *_STORAGE, "topic"
)
TIMERS_DELIVERED = counter(
    "rocketmq_timer_dequeue_total", "Timers that were delivered.", *_STORAGE, "topic"
)
DELAYS = histogram(
    "rocketmq_delay_message_latency_seconds",
    "How long messages waited that were to come later.",
    DELAY_SECONDS,
    *_STORAGE,
    "topic",
)
DELAY_LAG = gauge("rocketq_delayed_messages", "Messages that wait, by delay level.", "level")

# Storage

STORAGE_SIZE = gauge(
    "rocketmq_storage_size_bytes", "Used bytes of the disk the store is on.", *_STORAGE
)
FLUSH_BEHIND = gauge(
    "rocketmq_storage_flush_behind_bytes", "Bytes of the log not on the disk yet.", *_STORAGE
)
DISPATCH_BEHIND = gauge(
    "rocketmq_storage_dispatch_behind_bytes", "Bytes stored that cannot be read yet.", *_STORAGE
)
RESERVED_MS = gauge(
    "rocketmq_storage_message_reserve_time_milliseconds", "Age of the oldest message.", *_STORAGE
)
DISK_RATIO = gauge("rocketq_disk_used_ratio", "How full the log's disk is, 0 to 1.")
LOG_BYTES = gauge("rocketq_log_bytes", "Bytes between the first and the last message of the log.")
FLUSH_S = histogram(
    "rocketq_flush_seconds", "Time a flush of the log took, fsync included.", FLUSH_SECONDS
)
APPENDED = counter("rocketq_store_messages_total", "Messages appended to the log.")
APPENDED_BYTES = counter("rocketq_store_bytes_total", "Bytes appended to the log.")
REFUSED = counter("rocketq_store_refused_total", "Messages that the store did not take.")
UNACKNOWLEDGED = gauge(
    "rocketq_unacknowledged_messages", "Messages stored that wait for the disk or for slaves."
)

# Replication

IS_MASTER = gauge("rocketq_is_master", "1 for a master, 0 for a slave.")
SLAVES = gauge("rocketq_slaves", "Slaves connected, and those of them in sync.", "state")
SLAVE_LAG = gauge("rocketq_slave_lag_bytes", "How far a slave is behind.", "slave")
SLAVE_RATE = gauge("rocketq_slave_bytes_per_second", "How fast a slave is sent the log.", "slave")
SLAVE_DELAY = histogram(
    "rocketq_slave_delay_seconds",
    "Time until a slave that keeps pace has said that it has what was stored.",
    COPY_SECONDS,
)
FOLLOWS = gauge("rocketq_follows_master", "On a slave: 1 while it copies its master's log.")

NODE: Final = (WATERMARK, PERMISSION, TOPICS, GROUPS)
CREATIONS: Final = (TOPIC_CREATION, GROUP_CREATION)
MESSAGES: Final = (MESSAGES_IN, BYTES_IN, MESSAGES_OUT, BYTES_OUT, SIZES, TO_DLQ, SENT_BACK)
CLIENTS: Final = (PRODUCERS, CONSUMERS, CONNECTIONS, ACCEPTED, HELD)
REMOTING: Final = (LATENCY,)
LAGS: Final = (LAG, LAG_MS, INFLIGHT, QUEUEING_MS, READY)
TRANSACTIONS: Final = (COMMITS, ROLLBACKS, FINISH, HALF_MESSAGES, OPEN_TRANSACTIONS)
POP: Final = (
    REVIVE_LAG,
    REVIVE_MS,
    CHECK_POINT_BUFFER,
    OFFSET_BUFFER,
    BUFFER_SCAN,
    REVIVE_IN,
    REVIVE_OUT,
    REVIVED,
)
TIMER: Final = (
    TIMER_UNPLACED,
    TIMER_UNPLACED_MS,
    TIMER_LATE,
    TIMER_LATE_MS,
    TIMING,
    TIMER_SNAPSHOT,
    TIMERS_PLACED,
    TIMERS_DELIVERED,
    DELAYS,
    DELAY_LAG,
)
STORAGE: Final = (
    STORAGE_SIZE,
    FLUSH_BEHIND,
    DISPATCH_BEHIND,
    RESERVED_MS,
    DISK_RATIO,
    LOG_BYTES,
    FLUSH_S,
    APPENDED,
    APPENDED_BYTES,
    REFUSED,
    UNACKNOWLEDGED,
)
REPLICATION: Final = (IS_MASTER, SLAVES, SLAVE_LAG, SLAVE_RATE, SLAVE_DELAY, FOLLOWS)

FAMILIES: Final = (
    *NODE,
    *CREATIONS,
    *MESSAGES,
    *CLIENTS,
    *REMOTING,
    *LAGS,
    *TRANSACTIONS,
    *POP,
    *TIMER,
    *STORAGE,
    *REPLICATION,
)
