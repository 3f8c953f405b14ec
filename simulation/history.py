"""What was asked, what was answered, what was seen."""

from collections import defaultdict
from dataclasses import dataclass, field

from rocketq.message.queue import MessageQueue

Spot = tuple[MessageQueue, int]
"""A queue, and an offset in it."""


@dataclass(slots=True)
class Send:
    """One message given to a producer, and what became of it as far as the producer knows."""

    key: str
    began_s: float
    ended_s: float = -1.0
    status: str = ""
    """SEND_OK and its siblings; empty while nobody knows."""
    spot: Spot | None = None
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
class Incident:
    """Something that was done to the cluster."""

    at_s: float
    text: str
    lost_power: str = ""
    """The broker whose unsynced data may be gone since then."""


@dataclass(slots=True)
class History:
    """Everything that happened, in order."""

    sends: dict[str, Send] = field(default_factory=dict)
    by_producer: defaultdict[str, list[Send]] = field(default_factory=lambda: defaultdict(list))
    deliveries: list[Delivery] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    final: dict[MessageQueue, list[tuple[int, str]]] = field(default_factory=dict)
    """What the queues hold at the end: offset and key of each message."""
    slave_is_prefix: bool = True
    slave_fault: str = ""
    """What the slave says why it does not follow its master."""
    not_on_slave: list[str] = field(default_factory=list)
    """Messages that a slave did not have when they were acknowledged."""

    def begin(self, producer: str, key: str, at_s: float) -> Send:
        send = self.sends[key] = Send(key, at_s)
        self.by_producer[producer].append(send)
        return send
