from rocketq.remoting.headers.pull import PullMessage
from rocketq.remoting.wire.command import Command

class SendFields:
    topic: str
    topic_bytes: bytes
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: bytes
    reconsume_times: int
    unit_mode: bool
    max_reconsume_times: int
    batch: bool
    @property
    def producer_group(self) -> str: ...
    @property
    def default_topic(self) -> str: ...
    @property
    def broker_name(self) -> str: ...

class PullFields:
    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    subscription: str | None
    sub_version: int
    expression_type: str | None
    max_msg_bytes: int
    lite_topic: str | None
    broker_name: str | None

def scan_send_v2(command: Command) -> SendFields | None: ...
def scan_pull(command: Command) -> PullFields | None: ...
def pull_fields(header: PullMessage) -> PullFields: ...
