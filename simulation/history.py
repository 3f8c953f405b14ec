"""What was asked, what was answered, what was seen."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum

from rocketq.message.queue import MessageQueue

Spot = tuple[MessageQueue, int]
"""A queue, and an offset in it."""


class Kind(Enum):
    """What a message asks for."""

    PLAIN = "delivered at once"
    LEVEL = "with a delay level"
    TIMED = "at a time"
    TRANSACTION = "when a transaction is committed"


@dataclass(slots=True)
class Send:
    """One message given to a producer, and what became of it as far as the producer knows."""

    key: str
    began_s: float
    kind: Kind = Kind.PLAIN
    delay_s: float = 0.0
    ended_s: float = -1.0
    status: str = ""
    """SEND_OK and its siblings; empty while nobody knows."""
    spot: Spot | None = None
    """Where a plain message lies."""
    log_spot: tuple[str, int] | None = None
    """The host that took it, and its position in the log there."""
    error: str = ""

    @property
    def is_acknowledged(self) -> bool:
        return self.status == "SEND_OK"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message given to a listener."""

    key: str
    at_s: float
    consumer: str
    spot: Spot
    retries: int
    was_taken: bool


@dataclass(slots=True)
class Popped:
    """One message that was received by a simple consumer."""

    key: str
    at_s: float
    consumer: str
    acked_s: float | None = None
    """When the broker had said that it will not come again."""
    may_be_acked: bool = False
    """Whether that was asked for and nothing heard: it may be done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a group was in a queue when a broker was asked."""

    broker: str
    topic: str
    queue_id: int
    asked_s: float
    told_s: float
    offset: int


@dataclass(slots=True)
class Incident:
    """Something that was done to the cluster."""

    at_s: float
    text: str
    kind: str = ""
    target: str = ""
    until_s: float = -1.0
    lost_power: str = ""
    """The broker whose unsynced data may be gone since then."""
    clock_ms: int = 0
    """How far a clock was set."""


@dataclass(slots=True)
class History:
    """Everything that happened, in order."""

    sends: dict[str, Send] = field(default_factory=dict)
    by_producer: defaultdict[str, list[Send]] = field(default_factory=lambda: defaultdict(list))
    decisions: dict[str, bool] = field(default_factory=dict)
    """By key of a transaction: whether it was committed. What is in it is never changed."""
    deliveries: list[Delivery] = field(default_factory=list)
    pops: list[Popped] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    """How often each kind of fault really happened."""
    final: dict[MessageQueue, list[tuple[int, str]]] = field(default_factory=dict)
    """What the queues hold at the end: offset and key of each message."""
    dead_letters: list[str] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)
    """Messages in whose record a bit was flipped."""
    has_damaged_notes: bool = False
    """Whether a bit was flipped in what the broker has noted of pops or transactions."""
    logs_differ: list[str] = field(default_factory=list)
    """Brokers whose log is not that of their master."""
    slave_fault: str = ""
    """What the slave of a pair says why it does not follow its master."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Of an elected set: each epoch, and where it begins in the log."""
    not_copied: list[tuple[str, str]] = field(default_factory=list)
    """Messages, and who had to have them when they were acknowledged, and had not."""
    read_too_soon: list[tuple[str, str]] = field(default_factory=list)
    """Messages that were read while somebody in sync did not have them."""
    spoiled: list[str] = field(default_factory=list)
    """Messages that somebody got with another body than they were sent with."""
    has_poppers: bool = False
    skew_s: float = 0.0
    """How far the clocks of brokers differ from one another at the most."""

    def begin(self, producer: str, key: str, at_s: float, kind: Kind = Kind.PLAIN) -> Send:
        send = self.sends[key] = Send(key, at_s, kind)
        self.by_producer[producer].append(send)
        return send

    def look_at_body(self, key: str, body: bytes) -> None:
        """Note what is not as it was sent: a key, and dots behind it."""
        if body.rstrip(b".") != key.encode():
            self.spoiled.append(key)
