"""The revive log: what was popped and what was acknowledged, as messages to ourselves.

Topic `rmq_sys_REVIVE_LOG_<cluster>`. A pop writes a check point before it answers, an
acknowledgement writes an ack into the same queue. Both are timed messages: the check point
comes out of the timer wheel a second before its messages would become visible again, acks at
that time. Whoever reads the queue (`revival.py`) has seen both by then, and what was popped and
is still invisible costs nothing meanwhile.

    check point   tag "ck"    {"bm":0,"bn":"broker-a","c":"group","d":[0,1],"it":60000,"n":2,
                               "pt":1700000000000,"q":0,"reviveTime":1700000060000,"ro":0,
                               "so":100,"sp":false,"t":"topic"}
    ack           tag "ack"   {"ao":101,"bn":...,"c":...,"pt":...,"q":0,"so":100,"t":...}
    batch ack     tag "bAck"  the same with "aol":[100,101], and "ao":-1

`so` is where the pop began, `d` the messages' distances from there, `bm` a bit for each that
is acknowledged.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.writer import MessageWriter
from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.message.names import REVIVE_LOG_PREFIX
from rocketq.message.properties.codec import PropertyName, encode_properties
from rocketq.store import AppendResult, MessageInner

CHECK_POINT_KIND, ACK_KIND = "CK", "ACK"
"""As figures name them."""
CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"

MOST_MESSAGES: Final = 64
"""Of one check point: its bit map has as many."""
_AHEAD_MS: Final = 1_000

CheckPointKey = tuple[str, str, int, int, int, str]


@dataclass(slots=True)
class CheckPoint:
    """The messages of one pop from one queue."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time: int
    invisible_time: int
    broker_name: str
    distances: list[int] = field(default_factory=list)
    bits: int = 0
    suspended: bool = False

    @property
    def key(self) -> CheckPointKey:
        return (
            self.topic,
            self.group,
            self.queue_id,
            self.start_offset,
            self.pop_time,
            self.broker_name,
        )

    @property
    def revive_time(self) -> int:
        return self.pop_time + self.invisible_time

    @property
    def is_acknowledged(self) -> bool:
        return self.bits == (1 << len(self.distances)) - 1

    def acknowledge(self, offset: int) -> bool:
        """Note that a message is done; False if this pop did not have it."""
        try:
            index = self.distances.index(offset - self.start_offset)
        except ValueError:
            return False
        self.bits |= 1 << index
        return True

    def missing(self) -> list[int]:
        """The offsets that nobody has acknowledged."""
        return [
            self.start_offset + distance
            for index, distance in enumerate(self.distances)
            if not self.bits >> index & 1
        ]

    def encode(self) -> bytes:
        return json.dumps(
            {
                "bm": self.bits,
                "bn": self.broker_name,
                "c": self.group,
                "d": self.distances,
                "it": self.invisible_time,
                "n": len(self.distances),
                "pt": self.pop_time,
                "q": self.queue_id,
                "reviveTime": self.revive_time,
                "ro": 0,
                "so": self.start_offset,
                "sp": self.suspended,
                "t": self.topic,
            }
        )


@dataclass(frozen=True, slots=True)
class Ack:
    """Messages of one check point that are done."""

    key: CheckPointKey
    offsets: list[int]


def read_check_point(body: bytes) -> CheckPoint | None:
    """None for anything that is no check point."""
    stored = _object(body)
    if stored is None:
        return None
    count = stored.get("n")
    distances = stored.get("d")
    if distances is None and isinstance(count, int) and 0 <= count <= MOST_MESSAGES:
        distances = list(range(count))
    key = _key(stored)
    invisible_time, bits = stored.get("it"), stored.get("bm", 0)
    if (
        key is None
        or not _is_natural(invisible_time)
        or not isinstance(distances, list)
        or len(distances) > MOST_MESSAGES
        or not all(map(_is_natural, distances))
        or not isinstance(bits, int)
    ):
        return None
    topic, group, queue_id, start_offset, pop_time, broker_name = key
    return CheckPoint(
        topic,
        group,
        queue_id,
        start_offset,
        pop_time,
        int(invisible_time or 0),
        broker_name,
        distances,
        bits & (1 << len(distances)) - 1,
        stored.get("sp") is True,
    )


def read_ack(body: bytes) -> Ack | None:
    """A single or a batch ack; None for anything else."""
    stored = _object(body)
    key = _key(stored) if stored is not None else None
    if stored is None or key is None:
        return None
    offsets = stored.get("aol")
    if offsets is None:
        offsets = [stored.get("ao", stored.get("ackOffset"))]
    if not isinstance(offsets, list) or not all(map(_is_natural, offsets)):
        return None
    return Ack(key, offsets)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        stored = json.loads(body)
    except ValueError:
        return None
    return stored if isinstance(stored, dict) else None


def _key(stored: dict[str, Any]) -> CheckPointKey | None:
    topic = stored.get("t", stored.get("topic"))
    group = stored.get("c", stored.get("consumerGroup"))
    queue_id = stored.get("q", stored.get("queueId"))
    start_offset = stored.get("so", stored.get("startOffset"))
    pop_time = stored.get("pt", stored.get("popTime"))
    broker_name = stored.get("bn", stored.get("brokerName")) or ""
    texts = all(isinstance(each, str) for each in (topic, group, broker_name))
    numbers = all(map(_is_natural, (queue_id, start_offset, pop_time)))
    if not texts or not numbers:
        return None
    return topic, group, queue_id, start_offset, pop_time, broker_name  # type: ignore[return-value]


def _is_natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


class ReviveLog:
    """Writes check points and acks; `Revival` reads them."""

    def __init__(
        self, live: LiveConfig, writer: MessageWriter, clock: Clock, store_host: bytes
    ) -> None:
        self._live = live
        self._writer = writer
        self._clock = clock
        self._store_host = store_host
        self._next_queue = 0
        self.written: Counter[tuple[str, str, str]] = Counter()
        """Records since the start: by group, topic and kind."""

    @property
    def topic(self) -> str:
        return REVIVE_LOG_PREFIX + self._live.broker.broker_cluster_name

    @property
    def queues(self) -> int:
        return self._live.broker.revive_queue_num

    def next_queue(self) -> int:
        """Where the check points of one pop go: each queue in its turn."""
        self._next_queue = (self._next_queue + 1) % self.queues
        return self._next_queue

    def put_check_point(self, check_point: CheckPoint, revive_queue: int) -> AppendResult:
        self.written[check_point.group, check_point.topic, CHECK_POINT_KIND] += 1
        at = check_point.revive_time - _AHEAD_MS
        name = self._name(check_point.key, check_point.start_offset, CHECK_POINT_TAG)
        return self._put(check_point.encode(), CHECK_POINT_TAG, name, revive_queue, at)

    def put_ack(
        self, key: CheckPointKey, offsets: Sequence[int], revive_queue: int, revive_time: int
    ) -> AppendResult:
        """Write one ack, single or for several messages."""
        topic, group, queue_id, start_offset, pop_time, broker_name = key
        self.written[group, topic, ACK_KIND] += 1
        content: dict[str, Any] = {"ao": offsets[0] if len(offsets) == 1 else -1}
        tag = ACK_TAG
        if len(offsets) != 1:
            tag = BATCH_ACK_TAG
            content["aol"] = list(offsets)
        content |= {"bn": broker_name, "c": group, "pt": pop_time, "q": queue_id}
        content |= {"so": start_offset, "t": topic}
        name = self._name(key, content["ao"], ACK_TAG)
        return self._put(json.dumps(content), tag, name, revive_queue, revive_time)

    @staticmethod
    def _name(key: CheckPointKey, offset: int, tag: str) -> str:
        topic, group, queue_id, _, pop_time, broker_name = key
        return f"{topic}@{queue_id}@{offset}@{group}@{pop_time}@{broker_name}@{tag}"

    def _put(
        self, body: bytes, tag: str, name: str, revive_queue: int, deliver_ms: int
    ) -> AppendResult:
        properties = {
            PropertyName.TAGS: tag,
            PropertyName.TIMER_DELIVER_MS: str(deliver_ms),
            PropertyName.UNIQUE_KEY: name,
        }
        message = MessageInner(
            topic=self.topic,
            queue_id=revive_queue,
            body=body,
            properties=encode_properties(properties),
            born_timestamp=self._clock.now_ms(),
            born_host=self._store_host,
            store_host=self._store_host,
        )
        return self._writer.put(message)
