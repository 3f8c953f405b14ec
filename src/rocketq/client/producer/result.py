"""What came of a send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from rocketq.common.language.signatures import SourceSignature
from rocketq.message.queue import MessageQueue


class SendStatus(Enum):
    """How safe a message is that the broker has taken. All but SEND_OK are worth a log line."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    """Stored, but not known to be on disk yet (SYNC_FLUSH)."""
    SLAVE_NOT_AVAILABLE = 11
    """Stored, but no slave keeps up (SYNC_MASTER)."""
    FLUSH_SLAVE_TIMEOUT = 12
    """Stored, but not known to be on a slave yet (SYNC_MASTER)."""


class SendResult:
    """The broker's receipt for one message."""

    __slots__ = (
        "msg_id",
        "offset_msg_id",
        "queue",
        "queue_offset",
        "recall_handle",
        "region_id",
        "status",
        "trace_on",
        "transaction_id",
    )
    __signature__ = SourceSignature()

    def __init__(
        self,
        status: SendStatus,
        msg_id: str,
        offset_msg_id: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        transaction_id: str = "",
        region_id: str = "",
        trace_on: bool = True,
        recall_handle: str = "",
    ) -> None:
        self.status = status
        self.msg_id = msg_id
        """The unique id the producer gave the message."""
        self.offset_msg_id = offset_msg_id
        """Where the broker stored it."""
        self.queue = queue
        self.queue_offset = queue_offset
        self.transaction_id = transaction_id
        self.region_id = region_id
        self.trace_on = trace_on
        self.recall_handle = recall_handle
        """Calls a timed message back (`Producer.recall`)."""

    @property
    def is_ok(self) -> bool:
        return self.status is SendStatus.SEND_OK

    def __repr__(self) -> str:
        return (
            f"SendResult({self.status.name}, msg_id={self.msg_id!r}, queue={self.queue}, "
            f"queue_offset={self.queue_offset})"
        )


def receipt(
    status: SendStatus, msg_id: str, queue: MessageQueue, fields: Mapping[str, str]
) -> SendResult:
    """The result that a broker's answer to a send stands for, out of the answer's fields."""
    queue_id = int(fields.get("queueId", "0"))
    if queue_id != queue.queue_id:  # the broker chose
        queue = queue._replace(queue_id=queue_id)
    result = SendResult.__new__(SendResult)
    result.status = status
    result.msg_id = msg_id
    result.offset_msg_id = fields.get("msgId", "")
    result.queue = queue
    result.queue_offset = int(fields.get("queueOffset", "0"))
    result.transaction_id = fields.get("transactionId", "")
    result.region_id = fields.get("MSG_REGION", "")
    result.trace_on = fields.get("TRACE_ON") != "false"
    result.recall_handle = fields.get("recallHandle", "")
    return result


def split_result(result: SendResult, msg_ids: Sequence[str]) -> list[SendResult]:
    """A batch's receipt as one for each message: ids are joined, offsets follow each other."""
    offset_ids = result.offset_msg_id.split(",")
    if len(offset_ids) != len(msg_ids):
        # Kept as one record by the broker (a batch index): all share its id.
        offset_ids = [offset_ids[0]] * len(msg_ids)
    parts = []
    queue_offset = result.queue_offset
    for msg_id, offset_id in zip(msg_ids, offset_ids, strict=True):
        part = SendResult.__new__(SendResult)
        part.status = result.status
        part.msg_id = msg_id
        part.offset_msg_id = offset_id
        part.queue = result.queue
        part.queue_offset = queue_offset
        part.transaction_id = part.recall_handle = ""
        part.region_id = result.region_id
        part.trace_on = result.trace_on
        parts.append(part)
        queue_offset += 1
    return parts
