"""What a pull brought, in the client's terms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketq.client.cluster.rpc import PullResponse
from rocketq.client.consumer.subscription import Subscription
from rocketq.message.flags import SysFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import is_retry_topic, unwrap_namespace
from rocketq.message.properties.codec import PropertyName
from rocketq.message.queue import MessageQueue
from rocketq.message.record.batch import unwrap_inner_batch
from rocketq.message.record.reader import decode_records
from rocketq.remoting.codes import ResponseCode

# The lowest byte of a record's sysFlag: looked at in every message, so without decoding it.
_SYS_FLAG_AT: Final = 39
_INNER_BATCH: Final = int(SysFlag.INNER_BATCH)

FilterHook = Callable[[Sequence[MessageExt]], Sequence[MessageExt]]
"""Sees what passed the tag check and answers what is to be delivered."""


class PullStatus(Enum):
    """How a pull ended; the values are RocketMQ's words."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MSG"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


_STATUS: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MESSAGE,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MESSAGE,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullResult:
    """Messages, and where to go on."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: Sequence[MessageExt] = ()


def pull_result(
    response: PullResponse,
    queue: MessageQueue,
    subscription: Subscription,
    *,
    namespace: str = "",
    filters: Sequence[FilterHook] = (),
) -> PullResult:
    """Decode an answer; drop what the subscription does not want."""
    messages: Sequence[MessageExt] = ()
    if response.code == ResponseCode.SUCCESS:
        bounds = {
            PropertyName.MIN_OFFSET: str(response.min_offset),
            PropertyName.MAX_OFFSET: str(response.max_offset),
        }
        messages = pulled_messages(response.body, queue, subscription, bounds, namespace)
        for hook in filters:
            messages = hook(messages)
    return PullResult(
        _STATUS[response.code],
        response.next_offset,
        response.min_offset,
        response.max_offset,
        messages,
    )


def pulled_messages(
    body: bytes | memoryview,
    queue: MessageQueue,
    subscription: Subscription,
    added: Mapping[str, str],
    namespace: str = "",
) -> list[MessageExt]:
    """The messages in a pull's body, under the topic their consumer knows."""
    messages = decode_records(body, queue.broker_name, added)
    if any(message.record[_SYS_FLAG_AT] & _INNER_BATCH for message in messages):
        messages = [each for message in messages for each in _unwrapped(message)]
    messages = subscription.wanted(messages)
    if is_retry_topic(queue.topic):
        for message in messages:
            original = message.get_property(PropertyName.RETRY_TOPIC) or subscription.retried
            message.topic = unwrap_namespace(namespace, original or queue.topic)
    elif namespace:
        for message in messages:
            message.topic = unwrap_namespace(namespace, message.topic)
    return messages


def _unwrapped(message: MessageExt) -> list[MessageExt]:
    """A record of 5.x's batch topics holds several messages; any other is one."""
    if message.sys_flag & SysFlag.INNER_BATCH and message.sys_flag & SysFlag.NEED_UNWRAP:
        return unwrap_inner_batch(message)
    return [message]
