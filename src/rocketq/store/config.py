"""The store's settings, under RocketMQ's own names.

Fields are the keys of `broker.conf` in snake_case; `rocketq.common.config.load` builds a
`StoreConfig` from such a file. Times are in milliseconds and sizes in bytes unless the name
says otherwise.
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from rocketq.common.config import ConfigError, key
from rocketq.common.networks import networks
from rocketq.message.record.layout import ENTRY_SIZE

INDEX_HEADER_SIZE: Final = 40

_LARGEST_TRANSFER: Final = 4_194_304 - 64

_DELAY_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class FlushDiskType(Enum):
    """When an acknowledgement is given: before or after the message is on the disk."""

    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


class BrokerRole(Enum):
    """Whether a broker takes messages, and whether it waits for its slaves."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """Everything that can be set about a store."""

    # Where files lie, and how large they are. Sizes are part of the format: a directory can
    # only be opened with the sizes it was written with.
    store_path_root_dir: str = field(default_factory=lambda: str(Path.home() / "store"))
    store_path_commit_log: str | None = None
    read_only_commit_log_store_paths: str | None = None
    mapped_file_size_commit_log: int = 1_073_741_824
    mapped_file_size_consume_queue: int = 6_000_000
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000

    # What is accepted.
    max_message_size: int = 4_194_304
    max_topic_length: int = 127
    auto_message_version_on_topic_len: bool = True
    enabled_append_prop_crc: bool = field(default=False, metadata=key("enabledAppendPropCRC"))
    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER

    # Durability.
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_commit_log_timed: bool = True
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    sync_flush_timeout: int = 5_000
    put_message_timeout: int = 8_000

    # Accepted for the sake of existing configuration files: records are always written into
    # the mapped file, which has neither a pool of buffers nor a separate commit.
    transient_store_pool_enable: bool = False
    transient_store_pool_size: int = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    commit_interval_commit_log: int = 200
    commit_commit_log_least_pages: int = 4
    commit_commit_log_thorough_interval: int = 200
    use_reentrant_lock_when_put_message: bool = True
    write_without_mmap: bool = False

    # Page cache.
    warm_maped_file_enable: bool = False
    os_page_cache_busy_time_out_mills: int = field(
        default=1_000, metadata=key("osPageCacheBusyTimeOutMills")
    )

    # Index by key.
    message_index_enable: bool = True
    message_index_safe: bool = False
    max_msgs_num_batch: int = 64
    default_query_max_num: int = 32

    # Reading.
    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 65_536
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    max_filter_message_size: int = 16_000
    offset_check_in_slave: bool = False
    disk_fall_record: bool = True

    # Recovery.
    check_crc_on_recover: bool = field(default=True, metadata=key("checkCRCOnRecover"))
    force_verify_prop_crc: bool = field(default=False, metadata=key("forceVerifyPropCRC"))
    commit_log_recover_max_num: int = 10
    check_commit_log_offset_on_recover: bool = False

    # Retention and disk space.
    clean_resource_interval: int = 10_000
    delete_when: str = "04"
    file_reserved_time: int = 72
    delete_file_batch_max: int = 10
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    clean_file_forcibly_enable: bool = True
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    destroy_maped_file_interval_forcibly: int = 120_000
    redelete_hanged_file_interval: int = 120_000

    # Delay levels: what the schedule topic's queues mean.
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: int = 10_000

    # Replication.
    ha_listen_port: int = 0
    ha_master_address: str | None = None
    ha_allowed_addresses: str = ""
    ha_send_heartbeat_interval: int = 5_000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = 32_768
    ha_max_gap_not_in_sync: int = 268_435_456
    ha_flow_control_enable: bool = False
    max_ha_transfer_byte_in_second: int = 104_857_600
    # Of RocketMQ 4: with fewer slaves than needed within so many bytes nobody waits, and the
    # answer is SLAVE_NOT_AVAILABLE. 0, as in RocketMQ 5: wait for as long as slaveTimeout.
    ha_slave_fallbehind_max: int = 0
    # A slave that has nothing gets the file that is being written, or all there is.
    sync_from_last_file: bool = False
    slave_timeout: int = 3_000
    total_replicas: int = 1
    in_sync_replicas: int = 1
    min_in_sync_replicas: int = 1
    all_ack_in_sync_state_set: bool = False
    enable_auto_in_sync_replicas: bool = False
    # Where a controller elects masters.
    ha_max_time_slave_not_catchup: int = 15_000
    async_learner: bool = False
    duplication_enable: bool = False

    # Kinds of storage that RocketMQ offers besides; only the default one exists here.
    enable_d_leger_commit_log: bool = field(default=False, metadata=key("enableDLegerCommitLog"))
    store_type: str = "default"
    enable_consume_queue_ext: bool = False
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False

    # Messages of any delay.
    timer_wheel_enable: bool = True
    timer_precision_ms: int = 1_000
    timer_max_delay_sec: int = 259_200
    timer_roll_window_slot: int = 172_800
    timer_congest_num_each_slot: int = 2**31 - 1
    timer_flush_interval_ms: int = 1_000
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    mapped_file_size_timer_log: int = 100 * 1024 * 1024

    # rocketq's own.
    max_mapped_queue_files: int = 16_384
    """Consume queue files mapped at once; those beyond are opened again when used."""
    max_pull_bytes: int = 4_194_304
    """What one read may ask for at most; RocketMQ's own limits hold for those who do not ask."""

    def __post_init__(self) -> None:
        for name, lowest in (
            ("mapped_file_size_commit_log", 1_024),
            ("mapped_file_size_consume_queue", ENTRY_SIZE),
            ("max_hash_slot_num", 1),
            ("max_index_num", 2),
            ("max_message_size", 1),
            ("flush_interval_commit_log", 1),
            ("flush_interval_consume_queue", 1),
            ("clean_resource_interval", 1),
            ("max_mapped_queue_files", 16),
            ("ha_listen_port", 0),
            ("ha_send_heartbeat_interval", 100),
            ("ha_housekeeping_interval", 1_000),
            ("ha_transfer_batch_size", 1),
            ("ha_max_gap_not_in_sync", 1),
            ("ha_slave_fallbehind_max", 0),
            ("max_ha_transfer_byte_in_second", 1),
            ("slave_timeout", 1),
            ("total_replicas", 1),
            ("in_sync_replicas", 0),
            ("min_in_sync_replicas", 0),
            ("timer_flush_interval_ms", 10),
            ("timer_max_delay_sec", 1),
            ("timer_congest_num_each_slot", 1),
            ("mapped_file_size_timer_log", 68),
        ):
            if getattr(self, name) < lowest:
                raise ConfigError(f"{name}={getattr(self, name)}: must be at least {lowest}")
        # A Java slave takes a piece only if it and its head fit into 4 MiB.
        if self.ha_transfer_batch_size > _LARGEST_TRANSFER:
            raise ConfigError(
                f"haTransferBatchSize={self.ha_transfer_batch_size}: "
                f"must be at most {_LARGEST_TRANSFER}"
            )
        networks("haAllowedAddresses", self.ha_allowed_addresses)
        if self.ha_listen_port > 65_535:
            raise ConfigError(f"haListenPort={self.ha_listen_port}: must be at most 65535")
        if self.timer_precision_ms not in (10, 20, 50, 100, 200, 500, 1_000):
            raise ConfigError(
                f"timerPrecisionMs={self.timer_precision_ms}: must be 10, 20, 50, 100, 200, 500 "
                "or 1000"
            )
        if self.enable_d_leger_commit_log or self.store_type.lower() not in ("default", ""):
            raise ConfigError("storeType and enableDLegerCommitLog: only the default store exists")
        if not re.fullmatch(r"\s*\d{1,2}(\s*;\s*\d{1,2})*\s*", self.delete_when):
            raise ConfigError(f"deleteWhen={self.delete_when}: must be hours such as 04;16")
        self.delay_times_ms()

    @property
    def root(self) -> Path:
        return Path(self.store_path_root_dir)

    @property
    def commit_log_folders(self) -> list[Path]:
        """Where log files may be made; several directories spread them over disks."""
        return _paths(self.store_path_commit_log) or [self.root / "commitlog"]

    @property
    def read_only_commit_log_folders(self) -> list[Path]:
        return _paths(self.read_only_commit_log_store_paths)

    @property
    def queue_file_size(self) -> int:
        """Rounded up to whole entries."""
        entries = -(-self.mapped_file_size_consume_queue // ENTRY_SIZE)
        return entries * ENTRY_SIZE

    @property
    def index_file_size(self) -> int:
        return INDEX_HEADER_SIZE + self.max_hash_slot_num * 4 + self.max_index_num * 20

    @property
    def is_sync_flush(self) -> bool:
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def delete_hours(self) -> frozenset[int]:
        return frozenset(int(hour) for hour in self.delete_when.split(";"))

    @property
    def warning_ratio(self) -> float:
        """Above this part of the disk in use nothing is accepted any more."""
        return _clamped_ratio(self.disk_space_warning_level_ratio, 35, 90)

    @property
    def forced_ratio(self) -> float:
        """Above this part of the disk in use files go whatever their age."""
        return _clamped_ratio(self.disk_space_clean_forcibly_ratio, 30, 85)

    @property
    def cleaning_ratio(self) -> float:
        """Above this part of the disk in use expired files go at any hour."""
        return _clamped_ratio(self.disk_max_used_space_ratio, 10, 95)

    def delay_times_ms(self) -> tuple[int, ...]:
        """How long each delay level waits; level 1 comes first."""
        times = []
        for word in self.message_delay_level.split():
            unit = _DELAY_UNITS.get(word[-1:])
            if unit is None or not word[:-1].isdigit():
                raise ConfigError(
                    f"messageDelayLevel={self.message_delay_level}: {word} must be a number "
                    "followed by s, m, h or d"
                )
            times.append(int(word[:-1]) * unit)
        return tuple(times)


def _paths(text: str | None) -> list[Path]:
    return [Path(part.strip()) for part in (text or "").split(",") if part.strip()]


def _clamped_ratio(percent: int, lowest: int, highest: int) -> float:
    return max(lowest, min(percent, highest)) / 100
