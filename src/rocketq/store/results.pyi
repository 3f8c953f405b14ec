from enum import IntEnum

class PutStatus(IntEnum):
    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1
    FLUSH_SLAVE_TIMEOUT = 2
    SLAVE_NOT_AVAILABLE = 3
    SERVICE_NOT_AVAILABLE = 4
    CREATE_MAPPED_FILE_FAILED = 5
    MESSAGE_ILLEGAL = 6
    PROPERTIES_SIZE_EXCEEDED = 7
    OS_PAGE_CACHE_BUSY = 8
    UNKNOWN_ERROR = 9
    IN_SYNC_REPLICAS_NOT_ENOUGH = 10
    PUT_TO_REMOTE_BROKER_FAIL = 11
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = 12
    WHEEL_TIMER_FLOW_CONTROL = 13
    WHEEL_TIMER_MSG_ILLEGAL = 14
    WHEEL_TIMER_NOT_ENABLE = 15

class GetStatus(IntEnum):
    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8

class AppendResult:
    @property
    def status_code(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def store_timestamp(self) -> int: ...
    @property
    def count(self) -> int: ...
    def __init__(
        self,
        status: int,
        physical_offset: int = -1,
        size: int = 0,
        queue_offset: int = -1,
        store_timestamp: int = 0,
        count: int = 0,
        physical_offsets: list[int] | None = None,
    ) -> None: ...
    @property
    def status(self) -> PutStatus: ...
    @property
    def is_stored(self) -> bool: ...
    @property
    def end(self) -> int: ...
    @property
    def physical_offsets(self) -> list[int]: ...

class GetResult:
    status_code: int
    next_offset: int
    min_offset: int
    max_offset: int
    buffers: list[memoryview]
    message_count: int
    size: int
    suggest_slave: bool
    is_cold: bool
    last_position: int
    def __init__(self, status: int, next_offset: int, min_offset: int, max_offset: int) -> None: ...
    @property
    def status(self) -> GetStatus: ...
    def release(self) -> None: ...
