"""What was decided about the batches of a topic, in a queue of records beside it.

    part      places of half messages, packed; a batch of many rows has several
    decided   these parts are batch 17 of that sink; before it the queues ended here
    done      all of it is visible, and the queues end there
    note      somebody holds the lease; also on the other brokers of the topic, to say who keeps
              the ledger

Who holds the lease of that queue may write. So batches of one topic follow each other, also those
of different sinks, and only the last can be decided and not done.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple

from rocketq.client.cluster.instance import ClientInstance
from rocketq.message.hashing import java_hash
from rocketq.message.queue import MessageQueue
from rocketq.spark.write.side_topic import SideTopic

COMMITS_TOPIC: Final = "ROCKETQ_SPARK_COMMITS"
DECIDED: Final = "decided"
DONE: Final = "done"
PART: Final = "part"
NOTE: Final = "note"

_READ_BACK: Final = 8
_SEARCH_BACK: Final = 16_000
_HEAD: Final = struct.Struct(">HH")

Ends = Mapping[str, Mapping[str, int]]
"""Broker, queue (as text, as JSON has it), offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A line of the ledger."""

    kind: str  # one of these four
    home: str
    topic: str = ""
    sink: str = ""  # its tag
    batch: int = 0
    attempt: str = ""
    holder: str = ""
    group: str = ""
    before: Ends = field(default_factory=dict)
    after: Ends = field(default_factory=dict)
    tasks: list[tuple[str, bool]] = field(default_factory=list)  # prefix, whether in order
    parts: list[int] = field(default_factory=list)

    def encode(self) -> bytes:
        return json.dumps({name: value for name, value in asdict(self).items() if value}).encode()

    @classmethod
    def decode(cls, body: bytes) -> "Record | None":
        """None for what is none: anybody may send to the topic."""
        try:
            record = cls(**json.loads(body))
            for ends in (record.before, record.after):
                for queues in ends.values():
                    for number, offset in queues.items():
                        int(number), int(offset)
            return record
        except (ValueError, TypeError, AttributeError):
            return None


@dataclass(frozen=True, slots=True)
class Part:
    """Places of half messages of one task on one broker."""

    task: int
    broker: str
    packed: bytes

    def encode(self) -> bytes:
        broker = self.broker.encode()
        return _HEAD.pack(self.task, len(broker)) + broker + self.packed

    @classmethod
    def decode(cls, body: bytes) -> "Part":
        task, size = _HEAD.unpack_from(body)
        at = _HEAD.size + size
        return cls(task, body[_HEAD.size : at].decode(), body[at:])


class Tail(NamedTuple):
    """How a ledger ends."""

    newest: Record | None
    left: Record | None
    """A batch that was decided and is not done."""


class Ledger:
    """The records about one topic on one broker."""

    def __init__(
        self, client: ClientInstance, broker_name: str, topic: str, producer_group: str
    ) -> None:
        self._broker_name = broker_name
        self._side = SideTopic(client, COMMITS_TOPIC, broker_name, producer_group)
        self._topic = topic
        self._number = java_hash(topic)

    @property
    def queue(self) -> MessageQueue:
        return self._side.queue(self._number)

    async def is_there(self) -> bool:
        return await self._side.is_there()

    async def prepare(self) -> None:
        await self._side.prepare()

    async def append(self, record: Record, *, within_s: float) -> int:
        """Write a line, and wait until it can be read; its place."""
        tag = record.sink if record.kind == DECIDED else record.kind
        return await self._side.append(self._number, tag, record.encode(), within_s=within_s)

    async def append_part(self, part: Part, *, within_s: float) -> int:
        return await self._side.append(self._number, PART, part.encode(), within_s=within_s)

    async def part(self, place: int) -> Part:
        (message,) = await self._side.read(self._number, place, place + 1)
        return Part.decode(message.body)

    async def tail(self) -> Tail:
        """How the ledger of the topic ends."""
        first, end = await self._side.bounds(self._number)
        size, newest = _READ_BACK, None
        while end > first:
            start = max(first, end - size)
            for message in reversed(await self._side.read(self._number, start, end)):
                record = None if message.tags == PART else Record.decode(message.body)
                if record is None or record.topic != self._topic:
                    continue
                newest = newest or record
                if record.kind in (DECIDED, DONE):
                    return Tail(newest, record if record.kind == DECIDED else None)
                if record.home != self._broker_name:
                    return Tail(newest, None)  # here are only notes
            end, size = start, min(2 * size, _SEARCH_BACK)
        return Tail(newest, None)

    async def last_decided(self, sink: str) -> Record | None:
        """The newest decision about a batch of this sink."""
        first, end = await self._side.bounds(self._number)
        while end > first:
            start = max(first, end - _SEARCH_BACK)
            found = await self._side.read(self._number, start, end, tags=sink)
            for message in reversed(found):
                record = Record.decode(message.body)
                if record is not None and record.sink == sink and record.kind == DECIDED:
                    return record
            end = start
        return None

    async def done(self) -> "list[Record]":
        """The newest batches of the topic that are done, newest first; not all there are."""
        first, end = await self._side.bounds(self._number)
        found = await self._side.read(self._number, max(first, end - 256), end, tags=DONE)
        records = [Record.decode(message.body) for message in reversed(found)]
        return [each for each in records if each is not None and each.topic == self._topic]


async def find_home(client: ClientInstance, topic: str, group: str) -> Ledger | None:
    """The ledger of a topic, for those who only read it; None while there is none."""
    route = await client.api.route(COMMITS_TOPIC)
    if route is None:
        return None
    client.routes.learn(COMMITS_TOPIC, route)
    for data in route.queue_datas:
        newest = (await Ledger(client, data.broker_name, topic, group).tail()).newest
        if newest is not None:
            return Ledger(client, newest.home, topic, group)
    return None
