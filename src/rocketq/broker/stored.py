"""A stored message, to be stored once more: under another topic, or with another counter.

Delayed messages, half messages and messages sent back all go through the store twice. What
the second record keeps of the first is everything its producer said: body, flags, born
time, born host and properties, as bytes, without decoding any of them.
"""

from rocketq.message.message import MessageExt
from rocketq.store import MessageInner


def stored_again(message: MessageExt) -> MessageInner:
    """A message to append that equals a stored one; nobody waits for its flush."""
    return MessageInner(
        topic=message.topic,
        topic_bytes=message.raw_topic,
        queue_id=message.queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.raw_born_host,
        store_host=message.raw_store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=0,
        body=message.raw_body,
        properties=message.raw_properties,
        wait_store=False,
    )
