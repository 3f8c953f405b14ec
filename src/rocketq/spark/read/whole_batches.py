"""`wholeBatches=true`: transactional batches are read as a whole or not at all.

Brokers end half messages one by one, so while a batch is being ended a part of it can be seen. Its
ledger says where the queues ended before it, and behind it: a reader that would stop in between
stops before it.

    queue     ......[ batch 17 ]..[ batch 18 , half of it visible
    read                         ^
"""

from collections.abc import Mapping

from rocketq.client.cluster.instance import ClientInstance
from rocketq.message.names import TOOLS_CONSUMER_GROUP
from rocketq.message.queue import MessageQueue
from rocketq.spark.read.offsets import Offsets
from rocketq.spark.write.whole.ledger import Ends, find_home


async def cut_to_whole(client: ClientInstance, ends: Offsets) -> Offsets:
    """Ends that no transactional batch goes across. They were asked for before."""
    out = dict(ends)
    for topic in {queue.topic for queue in ends}:
        home = await find_home(client, topic, TOOLS_CONSUMER_GROUP)
        if home is None:
            continue
        # In this order: a batch that is done in between is found as done.
        left = (await home.tail()).left
        done = await home.done()
        if left is not None and all(each.attempt != left.attempt for each in done):
            _stop_before(out, topic, left.before)
        for record in done:  # the newest first; they follow each other
            if _reaches(out, topic, record.after):
                break
            _stop_before(out, topic, record.before)
    return out


def _stop_before(ends: Offsets, topic: str, before: Ends) -> None:
    for queue, offset in _queues(topic, before).items():
        if queue in ends:
            ends[queue] = min(ends[queue], offset)


def _reaches(ends: Offsets, topic: str, after: Ends) -> bool:
    """Whether all of a batch lies before these ends."""
    return all(ends.get(queue, offset) >= offset for queue, offset in _queues(topic, after).items())


def _queues(topic: str, said: Ends) -> Mapping[MessageQueue, int]:
    return {
        MessageQueue(topic, broker, int(number)): offset
        for broker, numbers in said.items()
        for number, offset in numbers.items()
    }
