"""How far each consumer group has read each queue.

Kept in memory and written to `config/consumerOffset.json` every few seconds and at stop:

    "offsetTable":     {"topic@group": {0: 25, 1: 24}}    the next offset to consume
    "pullOffsetTable": {"topic@group": {0: 32, 1: 32}}    the next offset asked for

A reset by an administrator is written to the table and, beside it, remembered as pending:
until the group's next pull of that queue has taken it, commits of consumers that do not know
of it yet are ignored, so that they cannot undo it. Pending resets live in memory only.

A commit below the stored offset is a consumer's right (it may seek back) and is obeyed and
logged; a negative offset means "nothing consumed yet" and is never stored.

There is room for so many offsets (`maxConsumerOffsets`): where it is used up, those that are known
change, and no more come.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from rocketq.broker.tables.data_version import VersionCounter
from rocketq.broker.tables.offset_table import Offsets, OffsetTable, key_of, parts_of
from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.common.table_file import TableFile
from rocketq.remoting.bodies.offsets import ConsumerOffsetWrapper
from rocketq.remoting.bodies.registration import DataVersion

logger = logging.getLogger(__name__)

_LIMIT: Final = 1_000_000


class ConsumerOffsets:
    """The offset tables. Changed by processors in the loop, persisted by `persist`."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        version_step: int = 500,
        limit: Callable[[], int] = lambda: _LIMIT,
    ) -> None:
        self._file = TableFile(path, self._encode)
        self._version = VersionCounter(clock)
        self._version_step = version_step
        self._limit = limit
        self._commits_since_version = 0
        self._offsets = OffsetTable()
        self._pulled = OffsetTable()
        self._resets: Offsets = {}
        # What was committed here while this is a slave, and the master may not know.
        self._apart: Offsets | None = None

    @property
    def data_version(self) -> DataVersion:
        return self._version.value

    # Progress

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str = "") -> bool:
        """Store how far a group has read; what it says it wants to read next.

        False: there is no room for another queue of another group.
        """
        if offset < 0:
            return True
        key = key_of(group, topic)
        before = self._offsets.get(key, queue_id)
        if before == offset:
            return True
        if before is None and self._offsets.size >= self._limit():
            logger.warning("no room for how far group %s is on %s/%d", group, topic, queue_id)
            return False
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
        return True

    def follow_log(self, end_of: Callable[[str, int], int]) -> None:
        """Take back what lies behind the ends of the queues, after a crash.

        A crash may take messages that groups had consumed. Their numbers are given to new
        ones, which nobody would get.
        """
        for key, queues in list(self._offsets.items()):
            topic, group = parts_of(key)
            for queue_id, offset in list(queues.items()):
                end = end_of(topic, queue_id)
                if offset > end:
                    self.commit(group, topic, queue_id, end, "the log, which ends there")

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset to consume, or -1 where nothing is stored."""
        key = key_of(group, topic)
        reset = self._resets.get(key, {}).get(queue_id)
        if reset is not None:
            return reset
        offset = self._offsets.get(key, queue_id)
        return -1 if offset is None else offset

    def stored(self, group: str, topic: str) -> dict[int, int]:
        """All queues of one topic as the group has committed them."""
        return dict(self._offsets.queues(key_of(group, topic)))

    def record_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember what a group has asked for last, for the tools that show lag."""
        key = key_of(group, topic)
        before = self._pulled.get(key, queue_id)
        if before == offset or (before is None and self._pulled.size >= self._limit()):
            return
        self._pulled.set(key, queue_id, offset)
        self._file.touch()

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset a group asked for, or -1."""
        offset = self._pulled.get(key_of(group, topic), queue_id)
        return -1 if offset is None else offset

    # Resets

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group, whatever its consumers commit until they have noticed."""
        if self.commit(group, topic, queue_id, offset, client="reset"):
            self._resets.setdefault(key_of(group, topic), {})[queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and queue_id in self._resets.get(key_of(group, topic), {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Hand a pending reset to the pull that asks first."""
        if not self._resets:
            return None
        key = key_of(group, topic)
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
            (*parts_of(key), queue_id, offset)
            for key, queues in (self._apart or {}).items()
            for queue_id, offset in queues.items()
        ]

    def passed_on(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """The master knows of a commit, or does not want to; a later one counts anew."""
        queues = (self._apart or {}).get(key_of(group, topic), {})
        if queues.get(queue_id) == offset:
            del queues[queue_id]

    def adopt(self, copied: ConsumerOffsetWrapper) -> None:
        """Be the copy of the master's table, with what was committed here and not passed on."""
        self._offsets = OffsetTable(copied.offset_table)
        for key, queues in (self._apart or {}).items():
            for queue_id, offset in queues.items():
                self._offsets.set(key, queue_id, offset)
        if copied.data_version is not None:
            self._version.load(copied.data_version)
        self._file.touch()

    # Groups and topics

    def all_committed(self) -> list[tuple[str, Mapping[int, int]]]:
        """The offsets by queue of every key, to be looked at and not changed; see `pair`."""
        return list(self._offsets.items())

    @staticmethod
    def pair(key: str) -> tuple[str, str]:
        """Topic and group of a key."""
        return parts_of(key)

    def pulled(self, key: str) -> Mapping[int, int]:
        """The next offsets asked for, by queue."""
        return self._pulled.queues(key)

    def topics_of(self, group: str) -> list[str]:
        return self._offsets.topics_of(group)

    def groups_of(self, topic: str) -> list[str]:
        return self._offsets.groups_of(topic)

    def clone(self, source_group: str, target_group: str, topic: str) -> None:
        """Let another group go on where this one stands."""
        queues = self._offsets.queues(key_of(source_group, topic))
        if queues and self._offsets.size + len(queues) <= self._limit():
            self._offsets.put(key_of(target_group, topic), dict(queues))
            self._noted()

    def minimum(self, topic: str, without_groups: Iterable[str] = ()) -> dict[int, int]:
        """By queue, the lowest offset any group has reached."""
        left_out = set(without_groups)
        lowest: dict[int, int] = {}
        for group in self.groups_of(topic):
            if group in left_out:
                continue
            for queue_id, offset in self._offsets.queues(key_of(group, topic)).items():
                lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        return lowest

    def remove_group(self, group: str) -> None:
        for table in (self._offsets, self._pulled):
            self._remove(table, [key_of(group, topic) for topic in table.topics_of(group)])

    def remove_topic(self, topic: str) -> None:
        for table in (self._offsets, self._pulled):
            self._remove(table, [key_of(group, topic) for group in table.groups_of(topic)])

    def _remove(self, table: OffsetTable, keys: list[str]) -> None:
        table.remove(keys)
        for key in keys:
            self._resets.pop(key, None)
        self._noted()

    def _noted(self) -> None:
        self._file.touch()
        self._version.advance()

    # Persistence

    def load(self) -> None:
        """Read the file, or its backup. Raises when there is one that cannot be read."""
        self._file.load(self._decode)

    def keep_behind(self, flush_log: Callable[[], Awaitable[bool]]) -> None:
        """Write nothing that is ahead of the log on the disk.

        What pops, transactions and revivals have moved on from is done by other messages. A loss
        of power could take those, and nobody would do it again.
        """
        self._file.after = flush_log

    def save(self) -> None:
        """Write the file if anything has changed since the last time."""
        self._file.save_if_stale()

    async def close(self) -> None:
        await self._file.close()

    def body(self) -> Callable[[], ConsumerOffsetWrapper]:
        """How far every group has come, as slaves ask for it; to be made in a thread."""
        version, offsets = self._version.value, self._offsets.copy()
        return lambda: ConsumerOffsetWrapper(
            data_version=version,
            offset_table={key: dict(queues) for key, queues in offsets.items()},
        )

    def _encode(self) -> Callable[[], Iterable[bytes]]:
        version, offsets, pulled = self._version.value, self._offsets.copy(), self._pulled.copy()

        def encode() -> Iterable[bytes]:
            topics: dict[str, list[str]] = {}
            for topic, group in map(parts_of, offsets):
                topics.setdefault(group, []).append(topic)
            plain = {
                "dataVersion": version.to_json(),
                "groupTopicMap": topics,
                "offsetTable": offsets,
                "pullOffsetTable": pulled,
            }
            return json.pretty_pieces(plain)

        return encode

    def _decode(self, data: bytes) -> None:
        stored = ConsumerOffsetWrapper.decode(data)
        if stored.data_version is not None:
            self._version.load(stored.data_version)
        self._offsets = OffsetTable(stored.offset_table)
        # The same shape under another name.
        pulled = json.loads(data).get("pullOffsetTable") or {}
        self._pulled = OffsetTable(
            ConsumerOffsetWrapper.from_json({"offsetTable": pulled}).offset_table
        )
