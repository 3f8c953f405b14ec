"""Locking queues for ordered consumption."""

from dataclasses import field

from rocketq.common.light_dataclass import dataclass
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.body import Body, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatchRequest(Body):
    """A consumer wants these queues for itself."""

    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockBatchRequest(LockBatchRequest):
    """A consumer gives these queues back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatchResponse(Body):
    """The queues it got, named exactly as it named them."""

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list, metadata=wire("lockOKMQSet"))
