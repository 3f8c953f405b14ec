"""What names, tags and times may be; everything else is refused with a code of its own."""

import unicodedata
from typing import Any

from rocketq.message import names
from rocketq.message.names import InvalidName
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import Refused


def topic_of(resource: Any) -> str:
    """The name of a topic that clients may use."""
    name: str = resource.name
    try:
        names.validate_topic(name)
    except InvalidName as error:
        raise Refused(pb.ILLEGAL_TOPIC, str(error)) from None
    if names.is_system_topic(name):
        raise Refused(pb.ILLEGAL_TOPIC, f"topic {name} is the system's own")
    return name


def group_of(resource: Any) -> str:
    name: str = resource.name
    try:
        names.validate_group(name)
    except InvalidName as error:
        raise Refused(pb.ILLEGAL_CONSUMER_GROUP, str(error)) from None
    if name.startswith(names.SYSTEM_GROUP_PREFIX):
        raise Refused(pb.ILLEGAL_CONSUMER_GROUP, f"group {name} is the system's own")
    return name


def has_control_characters(text: str) -> bool:
    # Most texts are printable, and that is quick to see.
    return not text.isprintable() and any(unicodedata.category(each) == "Cc" for each in text)


def check_tag(tag: str) -> None:
    """Empty is allowed."""
    if tag and (not tag.strip() or "|" in tag or has_control_characters(tag)):
        raise Refused(
            pb.ILLEGAL_MESSAGE_TAG, "a tag must not be blank, and has no '|' or control character"
        )


def check_key(key: str) -> None:
    if key and (not key.strip() or has_control_characters(key)):
        raise Refused(
            pb.ILLEGAL_MESSAGE_KEY, "a key must not be blank, and has no control character"
        )


def check_message_group(group: str, limit: int) -> None:
    if not group.strip() or len(group.encode()) >= limit or has_control_characters(group):
        raise Refused(
            pb.ILLEGAL_MESSAGE_GROUP,
            f"a message group is not blank, shorter than {limit} bytes, "
            "and has no control character",
        )


def refuse_lite(lite_topic: str) -> None:
    if lite_topic:
        raise Refused(pb.ILLEGAL_LITE_TOPIC, "lite topics are not supported")


def milliseconds(duration: Any) -> int:
    """Of a Duration or a Timestamp, however far away."""
    return int(duration.seconds) * 1000 + int(duration.nanos) // 1_000_000


def set_milliseconds(duration: Any, ms: int) -> None:
    duration.seconds = ms // 1000
    duration.nanos = ms % 1000 * 1_000_000
