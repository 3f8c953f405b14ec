class SendTemplate:
    def __init__(
        self,
        code: int,
        group: str,
        topic: str,
        template_topic: str,
        template_queues: int,
        queue_id: int,
        broker_name: str,
    ) -> None: ...
    def head(
        self,
        opaque: int,
        sys_flag: int,
        born_ms: int,
        flag: int,
        properties: bytes,
        body_size: int,
    ) -> bytes: ...

def batch_item(flag: int, body: bytes, properties: bytes, new_id: str) -> bytes: ...
