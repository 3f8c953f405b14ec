"""What a transactional message looks like at each stage of its life.

half        stored in RMQ_SYS_TRANS_HALF_TOPIC queue 0, its real topic and queue in
            REAL_TOPIC and REAL_QID; no consumer sees it
copy        the half message appended once more, its TRANSACTION_CHECK_TIMES one higher
real        what consumers get after a commit: back under its own topic, the commit bit
            in its flag, and the place of the half message beside it
abandoned   in TRANS_CHECK_MAX_TIME_TOPIC, after its producer was asked often enough
"""

from typing import Final

from rocketq.common.numbers import INT32_MAX, parse_natural
from rocketq.message.flags import SysFlag, with_transaction_type
from rocketq.message.message import MessageExt
from rocketq.message.names import TRANSACTION_CHECK_MAX_TOPIC, TRANSACTION_HALF_TOPIC
from rocketq.message.properties.codec import (
    PropertyName,
    get_property,
    remove_property,
    set_property,
)
from rocketq.message.record.writer import new_record
from rocketq.store import AppendResult, MessageInner
from rocketq.store.message_inner import stored_again

HALF_QUEUE: Final = 0

_REAL_TOPIC: Final = PropertyName.REAL_TOPIC.encode()
_REAL_QUEUE_ID: Final = PropertyName.REAL_QUEUE_ID.encode()
_UNIQUE_KEY: Final = PropertyName.UNIQUE_KEY.encode()
_TRANSACTION_ID: Final = PropertyName.TRANSACTION_ID.encode()
_CHECK_TIMES: Final = PropertyName.TRANSACTION_CHECK_TIMES.encode()


def prepare(message: MessageInner) -> None:
    """Turn a message a producer sent into a half message, in place."""
    properties = message.properties
    unique_key = get_property(properties, _UNIQUE_KEY)
    if unique_key is not None:
        properties = set_property(properties, _TRANSACTION_ID, unique_key)
    properties = set_property(properties, _REAL_TOPIC, message.topic.encode())
    properties = set_property(properties, _REAL_QUEUE_ID, b"%d" % message.queue_id)
    message.properties = properties
    # In the half queue it is an ordinary message: indexed, and counted by its offset.
    message.sys_flag = with_transaction_type(message.sys_flag, SysFlag.TRANSACTION_NONE)
    message.move_to(TRANSACTION_HALF_TOPIC, HALF_QUEUE)


def real_queue(half: MessageExt) -> tuple[str, int] | None:
    """Topic and queue a half message is meant for; None if it does not say."""
    topic = half.get_property(PropertyName.REAL_TOPIC)
    queue_id = _number(half, PropertyName.REAL_QUEUE_ID)
    return None if topic is None or queue_id is None else (topic, queue_id)


def real_message(half: MessageExt, topic: str, queue_id: int) -> MessageInner:
    """What a commit stores."""
    message = stored_again(half)
    message.move_to(topic, queue_id)
    message.sys_flag = with_transaction_type(message.sys_flag, SysFlag.TRANSACTION_COMMIT)
    message.prepared_transaction_offset = half.physical_offset
    properties = remove_property(message.properties, _REAL_TOPIC)
    message.properties = remove_property(properties, _REAL_QUEUE_ID)
    message.wait_store = half.wait_store_ok
    return message


def checked_copy(half: MessageExt, check_times: int) -> MessageInner:
    """What stands for a half message after its producer was asked."""
    message = stored_again(half)
    message.move_to(TRANSACTION_HALF_TOPIC, HALF_QUEUE)
    message.properties = set_property(message.properties, _CHECK_TIMES, b"%d" % check_times)
    return message


def abandoned(half: MessageExt) -> MessageInner:
    """What is kept of a half message nobody decided."""
    message = stored_again(half)
    message.move_to(TRANSACTION_CHECK_MAX_TOPIC, 0)
    return message


def check_times(half: MessageExt) -> int:
    """How often its producer was asked already."""
    return _number(half, PropertyName.TRANSACTION_CHECK_TIMES) or 0


def immunity_ms(half: MessageExt, timeout_ms: int) -> int | None:
    """How long the message itself wants not to be asked about; None if it does not say."""
    seconds = _number(half, PropertyName.CHECK_IMMUNITY_TIME)
    return None if seconds is None else max(seconds * 1000, timeout_ms)


def prepared_offset(half: MessageExt) -> int:
    """Where a copy's first half message lay, if RocketMQ made the copy while it was immune."""
    name = PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET
    offset = parse_natural(half.get_property(name))
    return -1 if offset is None else offset


def question_body(copy: MessageInner, at: AppendResult, topic: str, queue_id: int) -> bytes:
    """The record a producer is asked about: the stored copy, under its real queue."""
    return new_record(
        topic.encode(),
        body=copy.body or b"",
        properties=copy.properties,
        queue_id=queue_id,
        flag=copy.flag,
        queue_offset=at.queue_offset,
        physical_offset=at.physical_offset,
        sys_flag=copy.sys_flag,
        born_timestamp=copy.born_timestamp,
        born_host=copy.born_host,
        store_timestamp=at.store_timestamp,
        store_host=copy.store_host,
        reconsume_times=copy.reconsume_times,
        prepared_transaction_offset=0,
    )


def _number(half: MessageExt, name: str) -> int | None:
    return parse_natural(half.get_property(name), highest=INT32_MAX)
