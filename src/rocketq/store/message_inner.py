# cython: annotation_typing=False
"""A message on its way into the store: what the broker hands to `append`.

Everything is as it will lie in the record: hosts and properties encoded, the topic as bytes
besides its text. The class is compiled where that is possible, and a compiled caller can
fill its fields without going through Python objects (see message_inner.pxd).
"""

import cython

from rocketq.common.memory import Buffer
from rocketq.message.message import MessageExt


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


def stored_again(message: MessageExt) -> MessageInner:
    """A message to append that equals a stored one; nobody waits for its flush.

    Timers, delayed messages, half messages and messages sent back all go through the store
    twice. What the second record keeps of the first is everything its producer said: body,
    flags, born time, born host and properties, as bytes, without decoding any of them.
    """
    again = MessageInner.__new__(MessageInner)
    again.topic = message.topic
    again.topic_bytes = message.raw_topic
    again.queue_id = message.queue_id
    again.flag = message.flag
    again.sys_flag = message.sys_flag
    again.born_timestamp = message.born_timestamp
    again.born_host = message.raw_born_host
    again.store_host = message.raw_store_host
    again.reconsume_times = message.reconsume_times
    again.prepared_transaction_offset = 0
    again.body = message.raw_body
    again.properties = message.raw_properties
    again.wait_store = False
    return again
