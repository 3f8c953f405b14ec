"""Offsets by topic, group and queue: what the tables of consumer offsets are made of.

Tables grow to hundreds of thousands of keys, and everybody waits while one is looked through: so
it is known which groups have offsets of a topic, and which topics a group has. A copy, for the
file or for a slave, costs next to nothing when it is made: it shares everything with the table.
Who changes a key after that copies the part of the table that the key is in, once, and its queues.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

_SEPARATOR: Final = "@"
_SHARDS: Final = 64
PAIR_SIZE: Final = 4
"""What a pair of group and topic counts for, besides its queues."""

Offsets = dict[str, dict[int, int]]
"""`topic@group` -> queue -> offset."""


def key_of(group: str, topic: str) -> str:
    return f"{topic}{_SEPARATOR}{group}"


def parts_of(key: str) -> tuple[str, str]:
    """Topic and group of a key. Neither may contain the separator."""
    topic, _, group = key.partition(_SEPARATOR)
    return topic, group


def _shard_of(key: str) -> int:
    return hash(key) % _SHARDS


class FrozenOffsets(Mapping[str, Mapping[int, int]]):
    """A table as it was at one moment. Nobody changes it, so threads may read it."""

    def __init__(self, shards: list[Offsets]) -> None:
        self._shards = shards

    def __getitem__(self, key: str) -> Mapping[int, int]:
        return self._shards[_shard_of(key)][key]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self._shards)

    def __len__(self) -> int:
        return sum(map(len, self._shards))


class _Shard:
    """A part of a table."""

    __slots__ = ("by_key", "is_shared", "own")

    def __init__(self) -> None:
        self.by_key: Offsets = {}
        self.is_shared = False
        """Whether a copy of the table has this dictionary."""
        self.own: set[str] = set()
        """Keys whose queues no copy has."""

    def to_change(self) -> Offsets:
        if self.is_shared:
            self.by_key, self.own, self.is_shared = self.by_key.copy(), set(), False
        return self.by_key


class OffsetTable:
    """By key and queue. Nothing that `copy` has given away ever changes."""

    def __init__(self, by_key: Mapping[str, dict[int, int]] | None = None) -> None:
        self.size = 0
        """What is limited: the number of offsets, and something for each pair."""
        self._shards = [_Shard() for _ in range(_SHARDS)]
        self._groups: dict[str, dict[str, None]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        for key, queues in (by_key or {}).items():
            self.put(key, queues)

    def _shard(self, key: str) -> _Shard:
        return self._shards[_shard_of(key)]

    def get(self, key: str, queue_id: int) -> int | None:
        queues = self._shard(key).by_key.get(key)
        return None if queues is None else queues.get(queue_id)

    def queues(self, key: str) -> Mapping[int, int]:
        return self._shard(key).by_key.get(key, {})

    def items(self) -> Iterator[tuple[str, Mapping[int, int]]]:
        return itertools.chain.from_iterable(shard.by_key.items() for shard in self._shards)

    def set(self, key: str, queue_id: int, offset: int) -> None:
        shard = self._shard(key)
        by_key = shard.to_change()
        queues = by_key.get(key)
        if queues is None:
            self.put(key, {queue_id: offset})
            return
        if key not in shard.own:
            queues = by_key[key] = queues.copy()
            shard.own.add(key)
        self.size -= len(queues)
        queues[queue_id] = offset
        self.size += len(queues)

    def put(self, key: str, queues: dict[int, int]) -> None:
        shard = self._shard(key)
        by_key = shard.to_change()
        before = by_key.get(key)
        if before is None:
            topic, group = parts_of(key)
            self._groups.setdefault(topic, {})[group] = None
            self._topics.setdefault(group, {})[topic] = None
            self.size += PAIR_SIZE + len(queues)
        else:
            self.size += len(queues) - len(before)
        by_key[key] = queues
        shard.own.add(key)

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            shard = self._shard(key)
            self.size -= PAIR_SIZE + len(shard.to_change().pop(key))
            shard.own.discard(key)
            topic, group = parts_of(key)
            for names, name, other in ((self._groups, topic, group), (self._topics, group, topic)):
                names[name].pop(other, None)
                if not names[name]:
                    del names[name]

    def groups_of(self, topic: str) -> list[str]:
        return list(self._groups.get(topic, ()))

    def topics_of(self, group: str) -> list[str]:
        return list(self._topics.get(group, ()))

    def copy(self) -> FrozenOffsets:
        """The table as it is now, whatever is changed later."""
        for shard in self._shards:
            shard.is_shared = True
        return FrozenOffsets([shard.by_key for shard in self._shards])
