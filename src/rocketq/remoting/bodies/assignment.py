"""Queues assigned by the broker, and acknowledgements in batches."""

from dataclasses import field

from rocketq.common.light_dataclass import dataclass
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.body import Body, names, wire
from rocketq.remoting.bodies.heartbeat import MESSAGE_MODELS

REQUEST_MODES = ("PULL", "POP")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAssignmentRequest(Body):
    """A consumer asks which queues are its."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = "AVG"
    message_model: str = field(default="CLUSTERING", metadata=names(*MESSAGE_MODELS))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueueAssignment(Body):
    """One queue and how to consume it."""

    message_queue: MessageQueue
    mode: str = field(default="PULL", metadata=names(*REQUEST_MODES))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAssignmentResponse(Body):
    """The queues; absent means "no valid answer, keep what you have"."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMessageRequestMode(Body):
    """Has a group pull or pop a topic."""

    topic: str
    consumer_group: str
    mode: str = field(default="PULL", metadata=names(*REQUEST_MODES))
    pop_share_queue_num: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAck(Body):
    """Acknowledges messages of one pop: bit k of `bit_set`, in base64, is `start_offset + k`."""

    consumer_group: str = field(metadata=wire("c", "consumerGroup"))
    topic: str = field(metadata=wire("t", "topic"))
    retry: str = field(default="0", metadata=wire("r", "retry"))
    start_offset: int = field(default=0, metadata=wire("so", "startOffset"))
    queue_id: int = field(default=0, metadata=wire("q", "queueId"))
    revive_queue_id: int = field(default=0, metadata=wire("rq", "reviveQueueId"))
    pop_time: int = field(default=0, metadata=wire("pt", "popTime"))
    invisible_time: int = field(default=0, metadata=wire("it", "invisibleTime"))
    bit_set: str = field(default="", metadata=wire("b", "bitSet"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAckRequest(Body):
    """Acknowledges messages of many pops."""

    broker_name: str
    acks: list[BatchAck] = field(default_factory=list)
