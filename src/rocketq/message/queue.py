"""A message queue: one shard of a topic, on one broker."""

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """Names one queue. Sorts by topic, broker and queue id, as every client must.

    Clients of a group share out the sorted list without talking to each other, so all
    have to see the same order.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
