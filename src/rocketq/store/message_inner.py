# cython: annotation_typing=False
"""A message on its way into the store: what the broker hands to `append`.

Everything is as it will lie in the record: hosts and properties encoded, the topic as bytes
besides its text. The class is compiled where that is possible, and a compiled caller can
fill its fields without going through Python objects (see message_inner.pxd).
"""

import cython

from rocketq.common.memory import Buffer


@cython.freelist(64)
@cython.cclass
class MessageInner:
    """Made by the broker for one append; the store keeps no reference to it."""

    def __init__(
        self,
        *,
        topic: str,
        queue_id: int,
        body: Buffer | None,
        properties: bytes = b"",
        born_timestamp: int = 0,
        born_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00",
        store_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00",
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        topic_bytes: bytes | None = None,
        wait_store: bool = True,
    ) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode() if topic_bytes is None else topic_bytes
        self.queue_id = queue_id
        self.flag = flag
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.born_host = born_host
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        self.body = body
        self.properties = properties
        self.wait_store = wait_store

    def move_to(self, topic: str, queue_id: int) -> None:
        """Send it to another queue than the one it was meant for."""
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id

    def __repr__(self) -> str:
        return (
            f"MessageInner(topic={self.topic!r}, queue_id={self.queue_id}, "
            f"body=<{0 if self.body is None else len(self.body)} bytes>, "
            f"properties={self.properties!r})"
        )
