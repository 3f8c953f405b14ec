"""How far each consumer group has read each queue.

Kept in memory and written to `config/consumerOffset.json` every few seconds and at stop:

    "offsetTable":     {"topic@group": {0: 25, 1: 24}}    the next offset to consume
    "pullOffsetTable": {"topic@group": {0: 32, 1: 32}}    the next offset asked for

A reset by an administrator is written to the table and, beside it, remembered as pending:
until the group's next pull of that queue has taken it, commits of consumers that do not know
of it yet are ignored, so that they cannot undo it. Pending resets live in memory only.

A commit below the stored offset is a consumer's right (it may seek back) and is obeyed and
logged; a negative offset means "nothing consumed yet" and is never stored.

A copy of the tables, for the file or for a slave, costs next to nothing when it is made: it
shares the queues of every key with the tables. Who changes a key after that, changes a copy.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from rocketq.broker.tables.data_version import VersionCounter
from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.common.table_file import TableFile
from rocketq.remoting.bodies.offsets import ConsumerOffsetWrapper
from rocketq.remoting.bodies.registration import DataVersion

logger = logging.getLogger(__name__)

_SEPARATOR: Final = "@"

OffsetTable = dict[str, dict[int, int]]


def _key(group: str, topic: str) -> str:
    return f"{topic}{_SEPARATOR}{group}"


def _parts(key: str) -> tuple[str, str]:
    """Topic and group of a key. Neither may contain the separator."""
    topic, _, group = key.partition(_SEPARATOR)
    return topic, group


class _Offsets:
    """By key and queue. Nothing that `copy` has given away ever changes."""

    def __init__(self, by_key: OffsetTable | None = None) -> None:
        self.by_key: OffsetTable = {} if by_key is None else by_key
        # Keys whose queues no copy has.
        self._own = set(self.by_key)

    def get(self, key: str, queue_id: int) -> int | None:
        queues = self.by_key.get(key)
        return None if queues is None else queues.get(queue_id)

    def set(self, key: str, queue_id: int, offset: int) -> None:
        if key in self._own:
            self.by_key[key][queue_id] = offset
        else:
            self.put(key, {**self.by_key.get(key, {}), queue_id: offset})

    def put(self, key: str, queues: dict[int, int]) -> None:
        self.by_key[key] = queues
        self._own.add(key)

    def remove(self, key: str) -> None:
        del self.by_key[key]
        self._own.discard(key)

    def copy(self) -> OffsetTable:
        """The table as it is now, to be read and not changed."""
        self._own = set()
        return self.by_key.copy()


class ConsumerOffsets:
    """The offset tables. Changed by processors in the loop, persisted by `persist`."""

    def __init__(self, path: Path, clock: Clock, *, version_step: int = 500) -> None:
        self._file = TableFile(path, self._encode)
        self._version = VersionCounter(clock)
        self._version_step = version_step
        self._commits_since_version = 0
        self._offsets = _Offsets()
        self._pulled = _Offsets()
        self._resets: OffsetTable = {}
        # What was committed here while this is a slave, and the master may not know.
        self._apart: OffsetTable | None = None

    @property
    def data_version(self) -> DataVersion:
        return self._version.value

    # Progress

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str = "") -> None:
        """Store how far a group has read; what it says it wants to read next."""
        if offset < 0:
            return
        key = _key(group, topic)
        before = self._offsets.get(key, queue_id)
        if before == offset:
            return
        if before is not None and offset < before:
            logger.warning(
                "group %s went back on %s/%d from %d to %d (client %s)",
                *(group, topic, queue_id, before, offset, client or "unknown"),
            )
        self._offsets.set(key, queue_id, offset)
        if self._apart is not None:
            self._apart.setdefault(key, {})[queue_id] = offset
        self._file.touch()
        self._commits_since_version += 1
        if self._commits_since_version >= self._version_step:
            self._commits_since_version = 0
            self._version.advance()

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset to consume, or -1 where nothing is stored."""
        key = _key(group, topic)
        reset = self._resets.get(key, {}).get(queue_id)
        if reset is not None:
            return reset
        offset = self._offsets.get(key, queue_id)
        return -1 if offset is None else offset

    def stored(self, group: str, topic: str) -> dict[int, int]:
        """All queues of one topic as the group has committed them."""
        return dict(self._offsets.by_key.get(_key(group, topic), {}))

    def record_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember what a group has asked for last, for the tools that show lag."""
        key = _key(group, topic)
        if self._pulled.get(key, queue_id) != offset:
            self._pulled.set(key, queue_id, offset)
            self._file.touch()

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset a group asked for, or -1."""
        offset = self._pulled.get(_key(group, topic), queue_id)
        return -1 if offset is None else offset

    # Resets

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group, whatever its consumers commit until they have noticed."""
        self.commit(group, topic, queue_id, offset, client="reset")
        self._resets.setdefault(_key(group, topic), {})[queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and queue_id in self._resets.get(_key(group, topic), {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Hand a pending reset to the pull that asks first."""
        if not self._resets:
            return None
        key = _key(group, topic)
        queues = self._resets.get(key)
        if queues is None:
            return None
        offset = queues.pop(queue_id, None)
        if not queues:
            del self._resets[key]
        return offset

    # Copies

    def keep_apart(self, is_slave: bool) -> None:
        """Note what is committed here from now on, for the master; or no longer."""
        if not is_slave:
            self._apart = None
        elif self._apart is None:
            self._apart = {}

    def committed_apart(self) -> list[tuple[str, str, int, int]]:
        """Topic, group, queue and offset of what was committed here and not passed on."""
        return [
            (*_parts(key), queue_id, offset)
            for key, queues in (self._apart or {}).items()
            for queue_id, offset in queues.items()
        ]

    def passed_on(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """The master knows of a commit, or does not want to; a later one counts anew."""
        queues = (self._apart or {}).get(_key(group, topic), {})
        if queues.get(queue_id) == offset:
            del queues[queue_id]

    def adopt(self, copied: ConsumerOffsetWrapper) -> None:
        """Be the copy of the master's table, with what was committed here and not passed on."""
        self._offsets = _Offsets({key: dict(each) for key, each in copied.offset_table.items()})
        for key, queues in (self._apart or {}).items():
            for queue_id, offset in queues.items():
                self._offsets.set(key, queue_id, offset)
        if copied.data_version is not None:
            self._version.load(copied.data_version)
        self._file.touch()

    # Groups and topics

    def all_committed(self) -> list[tuple[str, Mapping[int, int]]]:
        """The offsets by queue of every key, to be looked at and not changed; see `pair`."""
        return list(self._offsets.by_key.items())

    @staticmethod
    def pair(key: str) -> tuple[str, str]:
        """Topic and group of a key."""
        return _parts(key)

    def pulled(self, key: str) -> Mapping[int, int]:
        """The next offsets asked for, by queue."""
        return self._pulled.by_key.get(key, {})

    def topics_of(self, group: str) -> list[str]:
        parts = map(_parts, self._offsets.by_key)
        return [topic for topic, key_group in parts if key_group == group]

    def topics_by_group(self) -> dict[str, list[str]]:
        """What every group has committed offsets for."""
        topics: dict[str, list[str]] = {}
        for topic, group in map(_parts, self._offsets.by_key):
            topics.setdefault(group, []).append(topic)
        return topics

    def groups_of(self, topic: str) -> list[str]:
        parts = map(_parts, self._offsets.by_key)
        return [group for key_topic, group in parts if key_topic == topic]

    def clone(self, source_group: str, target_group: str, topic: str) -> None:
        """Let another group go on where this one stands."""
        queues = self._offsets.by_key.get(_key(source_group, topic))
        if queues is not None:
            self._offsets.put(_key(target_group, topic), dict(queues))
            self._noted()

    def minimum(self, topic: str, without_groups: Iterable[str] = ()) -> dict[int, int]:
        """By queue, the lowest offset any group has reached."""
        left_out = set(without_groups)
        lowest: dict[int, int] = {}
        for group in self.groups_of(topic):
            if group in left_out:
                continue
            for queue_id, offset in self._offsets.by_key[_key(group, topic)].items():
                lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        return lowest

    def remove_group(self, group: str) -> None:
        self._remove(lambda topic, key_group: key_group == group)

    def remove_topic(self, topic: str) -> None:
        self._remove(lambda key_topic, group: key_topic == topic)

    def _remove(self, matches: Callable[[str, str], bool]) -> None:
        for table in (self._offsets, self._pulled):
            for key in [key for key in table.by_key if matches(*_parts(key))]:
                table.remove(key)
        for key in [key for key in self._resets if matches(*_parts(key))]:
            del self._resets[key]
        self._noted()

    def _noted(self) -> None:
        self._file.touch()
        self._version.advance()

    # Persistence

    def load(self) -> None:
        """Read the file, or its backup. Raises when there is one that cannot be read."""
        self._file.load(self._decode)

    def save(self) -> None:
        """Write the file if anything has changed since the last time."""
        self._file.save_if_stale()

    async def close(self) -> None:
        await self._file.close()

    def body(self) -> ConsumerOffsetWrapper:
        """How far every group has come, as slaves ask for it."""
        return ConsumerOffsetWrapper(
            data_version=self._version.value, offset_table=self._offsets.copy()
        )

    def _encode(self) -> Callable[[], bytes]:
        version, offsets, pulled = self._version.value, self._offsets.copy(), self._pulled.copy()

        def encode() -> bytes:
            topics: dict[str, list[str]] = {}
            for topic, group in map(_parts, offsets):
                topics.setdefault(group, []).append(topic)
            plain = {
                "dataVersion": version.to_json(),
                "groupTopicMap": topics,
                "offsetTable": offsets,
                "pullOffsetTable": pulled,
            }
            return json.dumps_pretty(plain)

        return encode

    def _decode(self, data: bytes) -> None:
        stored = ConsumerOffsetWrapper.decode(data)
        if stored.data_version is not None:
            self._version.load(stored.data_version)
        self._offsets = _Offsets(stored.offset_table)
        # The same shape under another name.
        pulled = json.loads(data).get("pullOffsetTable") or {}
        self._pulled = _Offsets(
            ConsumerOffsetWrapper.from_json({"offsetTable": pulled}).offset_table
        )
