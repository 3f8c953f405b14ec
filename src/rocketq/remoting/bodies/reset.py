"""Sending consumers to other offsets."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rocketq.common import json
from rocketq.common.light_dataclass import dataclass
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.body import BadBody, Body, read_int, read_queue


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetBody(Body):
    """The offset at which to go on, by queue."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)

    def encode_as_list(self) -> bytes:
        """The form for C++ consumers, who cannot read objects as keys."""
        rows = [
            {
                "brokerName": queue.broker_name,
                "offset": offset,
                "queueId": queue.queue_id,
                "topic": queue.topic,
            }
            for queue, offset in self.offset_table.items()
        ]
        return json.dumps({"offsetTable": rows})

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "ResetOffsetBody":
        """From a map, or from either form of a list."""
        table = plain.get("offsetTable")
        if not isinstance(table, list):
            return super(ResetOffsetBody, cls).from_json(plain)  # noqa: UP008, slots
        offsets = {}
        for row in table:
            try:
                queue, offset = row if isinstance(row, list) else (row, row.get("offset", 0))
                offsets[read_queue(queue)] = read_int(offset)
            except (ValueError, TypeError, AttributeError):
                raise BadBody(f"not a queue and its offset: {str(row)[:200]}") from None
        return cls(offset_table=offsets)
