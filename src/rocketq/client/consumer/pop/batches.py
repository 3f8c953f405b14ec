"""Acknowledgements of many popped messages in one request."""

import base64
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from rocketq.client.consumer.pop.receipt import PopReceipt
from rocketq.remoting.bodies.assignment import BatchAck

# A bit set says which offsets above the first are meant; far ones go by themselves.
BIT_SET_SPAN: Final = 4096


def batch_acks(group: str, done: Iterable[tuple[str, PopReceipt]]) -> list[BatchAck]:
    """One for each queue of each pop, with a bit for each message, from topics and receipts."""
    bits: dict[tuple[str, PopReceipt], int] = defaultdict(int)
    for topic, receipt in done:
        bits[topic, receipt._replace(offset=0)] |= 1 << max(
            receipt.offset - receipt.start_offset, 0
        )
    return [
        BatchAck(
            consumer_group=group,
            topic=topic,
            retry=pop.retry_kind,
            start_offset=pop.start_offset,
            queue_id=pop.queue_id,
            revive_queue_id=pop.revive_queue,
            pop_time=pop.pop_time,
            invisible_time=pop.invisible_time,
            bit_set=base64.b64encode(
                set_bits.to_bytes((set_bits.bit_length() + 7) // 8, "little")
            ).decode(),
        )
        for (topic, pop), set_bits in bits.items()
    ]
