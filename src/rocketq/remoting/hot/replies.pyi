from collections.abc import Sequence

from rocketq.common.buffers import Buffer
from rocketq.remoting.wire.command import Command

class SendReplies:
    @property
    def region(self) -> str: ...
    @property
    def trace_on(self) -> bool: ...
    def __init__(self, region: str = "DefaultRegion", trace_on: bool = True) -> None: ...
    def reply(
        self,
        request: Command,
        code: int,
        store_host: bytes,
        physical_offset: int,
        queue_id: int,
        queue_offset: int,
        transaction_id: bytes | None,
    ) -> Command: ...
    def batch_reply(
        self,
        request: Command,
        store_host: bytes,
        physical_offsets: list[int],
        queue_id: int,
        queue_offset: int,
        transaction_id: bytes | None,
    ) -> Command: ...

def message_ids(store_host: bytes, physical_offsets: list[int]) -> bytes: ...
def reply_to_pull(
    request: Command,
    code: int,
    remark: bytes | None,
    suggest_which_broker_id: int,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    topic_sys_flag: int = 0,
    group_sys_flag: int = 0,
    body: Buffer | Sequence[Buffer] = b"",
) -> Command: ...
