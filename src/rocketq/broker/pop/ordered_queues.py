"""Pops that keep a queue's order: the last one of each group and queue.

A queue that was popped in order is blocked until all of its messages are acknowledged or their
time is over; then those that were not are popped again. One record for each queue,
`config/consumerOrderInfo.json`:

    {"table":{"topic@group":{0:{"popTime":..,"i":invisible,"o":[100,1,2],"cm":bits,
                                "l":last use,"oc":{offset:times},"ot":{offset:visible at},
                                "a":"attempt"}}}}

`o` holds the first offset, and of the others the distances from it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.common.numbers import parse_int64, whole_number
from rocketq.common.table_file import TableFile

_UNUSED_MS: Final = 24 * 3_600_000

NOT_THERE: Final = -1
OTHER_POP: Final = -2


@dataclass(slots=True)
class OrderedPop:
    """The last pop of one group from one queue."""

    pop_time: int
    invisible_time: int
    offsets: list[int]
    last_used: int
    bits: int = 0
    attempt_id: str | None = None
    times: dict[int, int] = field(default_factory=dict)
    visible_at: dict[int, int] = field(default_factory=dict)

    def is_blocked(self, now_ms: int) -> bool:
        """Whether something popped is neither acknowledged nor visible again."""
        return any(self._hidden_until(offset) > now_ms for offset in self._unacknowledged())

    def free_at(self) -> int:
        """When the block ends by itself; 0 when there is none."""
        return max(map(self._hidden_until, self._unacknowledged()), default=0)

    def _hidden_until(self, offset: int) -> int:
        return self.visible_at.get(offset, self.pop_time + self.invisible_time)

    def _unacknowledged(self) -> Iterator[int]:
        for index, offset in enumerate(self.offsets):
            if not self.bits >> index & 1:
                yield offset

    def next_offset(self) -> int:
        """The first offset that is not acknowledged, or the one behind all of them."""
        return next(self._unacknowledged(), self.offsets[-1] + 1)

    def to_json(self) -> dict[str, Any]:
        first = self.offsets[0] if self.offsets else 0
        stored: dict[str, Any] = {}
        if self.attempt_id is not None:
            stored["a"] = self.attempt_id
        stored |= {"cm": _signed(self.bits), "i": self.invisible_time, "l": self.last_used}
        stored["o"] = [first, *(offset - first for offset in self.offsets[1:])]
        if self.times:
            stored["oc"] = self.times
        if self.visible_at:
            stored["ot"] = self.visible_at
        stored["popTime"] = self.pop_time
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "OrderedPop | None":
        offsets = stored.get("o")
        pop_time = whole_number(stored.get("popTime"))
        if not isinstance(offsets, list) or not offsets or pop_time is None:
            return None
        numbers = [whole_number(each) for each in offsets]
        if any(number is None for number in numbers) or len(numbers) > 64:
            return None
        first, *distances = [number for number in numbers if number is not None]
        return cls(
            pop_time=pop_time,
            invisible_time=whole_number(stored.get("i")) or 0,
            offsets=[first, *(first + distance for distance in distances)],
            last_used=whole_number(stored.get("l")) or 0,
            bits=(whole_number(stored.get("cm")) or 0) & 2**64 - 1,
            attempt_id=stored.get("a"),
            times=_numbers(stored.get("oc")),
            visible_at=_numbers(stored.get("ot")),
        )


class OrderedQueues:
    """Changed by pops, acks and changes of invisible time, on the event loop."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._file = TableFile(path, self._encode)
        self._table: dict[tuple[str, str], dict[int, OrderedPop]] = {}

    # Popping

    def is_blocked(self, topic: str, group: str, queue_id: int, attempt_id: str | None) -> bool:
        """Whether a queue must wait; the attempt that popped last may pop again."""
        last = self._find(topic, group, queue_id)
        if last is None or (attempt_id is not None and attempt_id == last.attempt_id):
            return False
        return last.is_blocked(self._clock.now_ms())

    def popped(
        self,
        topic: str,
        group: str,
        queue_id: int,
        pop_time: int,
        invisible_time: int,
        offsets: Sequence[int],
        attempt_id: str | None,
    ) -> OrderedPop:
        """Note a pop; says in `times` how often its messages were popped before."""
        queues = self._table.setdefault((topic, group), {})
        before = queues.get(queue_id)
        pop = OrderedPop(
            pop_time=pop_time,
            invisible_time=invisible_time,
            offsets=list(offsets),
            last_used=self._clock.now_ms(),
            attempt_id=attempt_id,
        )
        if before is not None:
            is_same = attempt_id is not None and attempt_id == before.attempt_id
            for offset in set(before.offsets).intersection(offsets):
                times = before.times.get(offset, 0) + (0 if is_same else 1)
                if times > 0:
                    pop.times[offset] = times
        queues[queue_id] = pop
        self._file.touch()
        return pop

    # Acknowledging

    def acknowledge(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> int:
        """The offset to commit; `NOT_THERE` or `OTHER_POP` when this changes nothing."""
        pop = self._find(topic, group, queue_id)
        if pop is None:
            return offset + 1
        if pop.pop_time != pop_time:
            return OTHER_POP
        if offset not in pop.offsets:
            return NOT_THERE
        pop.bits |= 1 << pop.offsets.index(offset)
        pop.last_used = self._clock.now_ms()
        self._file.touch()
        return pop.next_offset()

    def change(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, visible_at: int
    ) -> bool:
        """Hide one message until another time; False if the last pop did not have it."""
        pop = self._find(topic, group, queue_id)
        if pop is None or pop.pop_time != pop_time or offset not in pop.offsets:
            return False
        pop.visible_at[offset] = visible_at
        pop.last_used = self._clock.now_ms()
        self._file.touch()
        return True

    def free_at(self, topic: str, group: str, queue_id: int) -> int:
        """When a queue is free again without any ack; 0 when it is free."""
        pop = self._find(topic, group, queue_id)
        return pop.free_at() if pop is not None else 0

    def forget(self, topic: str, group: str, queue_id: int) -> None:
        """An offset was reset: what was popped before no longer matters."""
        queues = self._table.get((topic, group))
        if queues is not None and queues.pop(queue_id, None) is not None:
            self._file.touch()

    def expire(self, exists: Callable[[str, str], bool]) -> None:
        """Drop what nobody has used for a day, and what belongs to topics or groups gone."""
        before = self._clock.now_ms() - _UNUSED_MS
        for (topic, group), queues in list(self._table.items()):
            for queue_id, pop in list(queues.items()):
                if pop.last_used < before or not exists(topic, group):
                    del queues[queue_id]
                    self._file.touch()
            if not queues:
                del self._table[topic, group]

    def _find(self, topic: str, group: str, queue_id: int) -> OrderedPop | None:
        return self._table.get((topic, group), {}).get(queue_id)

    # The file

    def load(self) -> None:
        self._file.load(self._decode)

    def save(self) -> None:
        self._file.save_if_stale()

    async def close(self) -> None:
        await self._file.close()

    def _encode(self) -> bytes:
        table = {
            f"{topic}@{group}": {queue_id: pop.to_json() for queue_id, pop in queues.items()}
            for (topic, group), queues in self._table.items()
        }
        count = sum(map(len, self._table.values()))
        return json.dumps_pretty(
            {"orderInfoCount": count, "orderedConsumptionLevel": "QUEUE", "table": table}
        )

    def _decode(self, data: bytes) -> None:
        stored = json.loads(data).get("table") or {}
        for key, queues in stored.items():
            topic, _, group = str(key).partition("@")
            for queue_id, entry in queues.items():
                number = parse_int64(str(queue_id))
                pop = OrderedPop.from_json(entry)
                if number is not None and pop is not None:
                    self._table.setdefault((topic, group), {})[number] = pop


def _signed(bits: int) -> int:
    return bits - 2**64 if bits >= 2**63 else bits


def _numbers(stored: object) -> dict[int, int]:
    """A table of numbers by offset; what is no number is left out."""
    table = {}
    for key, value in stored.items() if isinstance(stored, dict) else ():
        offset, number = parse_int64(str(key)), whole_number(value)
        if offset is not None and number is not None:
            table[offset] = number
    return table
