"""Which queues there can be.

A record that names another kind of queue is taken for damage when the log is read again, so a
message for one must not be accepted in the first place.
"""

from typing import Final

QUEUE_ID_LIMIT: Final = 1 << 20
"""Ids are below this. A damaged one is most likely above, and would cost as many directories."""


def can_be_queue(topic: str, queue_id: int) -> bool:
    """Whether a queue of this name can exist; a topic is the name of a directory too."""
    return (
        0 <= queue_id < QUEUE_ID_LIMIT
        and topic != ""
        and topic[0] != "."
        and "/" not in topic
        and "\0" not in topic
    )
