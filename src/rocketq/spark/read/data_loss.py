"""Messages that a query should have read and that are not there any more.

Brokers delete what is older than they are told to keep. A query that was down for longer, or a
topic that was made anew, leaves a gap, and with `failOnDataLoss` (the default) that ends the
query with an error that names it; without, with a warning.
"""

import logging

from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)


class DataLoss(RocketqError):
    """Messages of a range are not there any more."""

    def __init__(self, queue: MessageQueue, start: int, end: int | None, why: str) -> None:
        """`end` is not in the range; None when nobody can say how far it went."""
        which = f"from {start} on" if end is None else f"{start} to {end - 1}"
        super().__init__(
            f"messages {which} of topic {queue.topic!r}, broker {queue.broker_name!r}, queue "
            f"{queue.queue_id} are gone: {why}. With the option failOnDataLoss=false the query "
            "continues after them"
        )
        self.queue = queue
        self.start = start
        self.end = end


def raise_or_warn(loss: DataLoss, *, fails: bool) -> None:
    """Raise it, or let it be known and go on."""
    if fails:
        raise loss
    logger.warning("%s", loss)
