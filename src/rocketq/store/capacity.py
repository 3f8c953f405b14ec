"""How much of a store this machine can hold at once."""

import os
import resource

from rocketq.store.config import StoreConfig


def memory_bytes(config: StoreConfig) -> int:
    """How far behind the end of the log messages still count as being in memory."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        total = 8 << 30
    return total * config.access_message_in_memory_max_ratio // 100


def mapped_limit(config: StoreConfig) -> int:
    """How many queue files are mapped at once; each takes a descriptor, and others need some."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return config.max_mapped_queue_files
    return max(16, min(config.max_mapped_queue_files, allowed // 2))
