"""Messages that cannot be shown as they were sent.

Anybody may send a message that says it is compressed and is not, or one whose few bytes become
gigabytes. With `failOnDamage` (the default) such a message ends the query with an error that
names it; without, its body is null, and the column `body_error` says why.
"""

from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue


class DamagedMessage(RocketqError):
    """A message whose body cannot be had."""

    def __init__(self, queue: MessageQueue, offset: int, why: str) -> None:
        super().__init__(
            f"message {offset} of topic {queue.topic!r}, broker {queue.broker_name!r}, queue "
            f"{queue.queue_id} cannot be shown: {why}. With the option failOnDamage=false its "
            "body is null, and the column body_error says why"
        )
        self.queue = queue
        self.offset = offset


class DamagedRecord(RocketqError):
    """A record in the files of a broker that cannot be read."""

    def __init__(
        self, queue: MessageQueue, offset: int, root: str, position: int, why: str
    ) -> None:
        super().__init__(
            f"message {offset} of topic {queue.topic!r}, queue {queue.queue_id} is damaged at "
            f"position {position} of {root}: {why}. With the option failOnDamage=false its body is "
            "null, and the column body_error says this"
        )
        self.queue = queue
        self.offset = offset
        self.position = position
