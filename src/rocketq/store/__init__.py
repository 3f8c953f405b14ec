"""The message store: a broker's messages on disk, in RocketMQ's own files."""

from rocketq.store.config import BrokerRole, FlushDiskType, StoreConfig
from rocketq.store.errors import CorruptStore, StoreError, StoreLocked, StoreMismatch
from rocketq.store.files.disk import Disk
from rocketq.store.message_inner import MessageInner
from rocketq.store.message_store import MessageStore, QueryResult
from rocketq.store.queues.consume_queue import QueueEntry
from rocketq.store.queues.time_search import Boundary
from rocketq.store.results import AppendResult, GetResult, GetStatus, PutStatus

__all__ = [
    "AppendResult",
    "Boundary",
    "BrokerRole",
    "CorruptStore",
    "Disk",
    "FlushDiskType",
    "GetResult",
    "GetStatus",
    "MessageInner",
    "MessageStore",
    "PutStatus",
    "QueryResult",
    "QueueEntry",
    "StoreConfig",
    "StoreError",
    "StoreLocked",
    "StoreMismatch",
]
