class MessageInner:
    topic: str
    topic_bytes: bytes
    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes | bytearray | memoryview | None
    properties: bytes
    wait_store: bool
    def __init__(
        self,
        *,
        topic: str,
        queue_id: int,
        body: bytes | bytearray | memoryview | None,
        properties: bytes = b"",
        born_timestamp: int = 0,
        born_host: bytes = ...,
        store_host: bytes = ...,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        topic_bytes: bytes | None = None,
        wait_store: bool = True,
    ) -> None: ...
    def move_to(self, topic: str, queue_id: int) -> None: ...
