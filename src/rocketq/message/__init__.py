"""Messages and everything about them that is bytes or names: no sockets, no files."""

from rocketq.message.flags import CompressionType, Permission, PullFlag, SysFlag
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import InvalidName
from rocketq.message.properties.codec import InvalidProperty, PropertyName
from rocketq.message.queue import MessageQueue

__all__ = [
    "CompressionType",
    "InvalidName",
    "InvalidProperty",
    "Message",
    "MessageExt",
    "MessageQueue",
    "Permission",
    "PropertyName",
    "PullFlag",
    "SysFlag",
]
