"""All consume queues of a store: tens of thousands of them, most of them asleep.

    consumequeue/<topic>/<queue id>/...

Opening a store lists the directories and nothing more. A queue's files are looked at when it
is first used; of the files, a bounded number is mapped at any time, and those that have not
been used for longest are let go of first.
"""

import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from rocketq.common.loop.slices import Slices
from rocketq.message.record.layout import ENTRY_SIZE
from rocketq.store.errors import QueueUnavailable, StoreError, StoreMismatch
from rocketq.store.files.disk import Disk
from rocketq.store.files.segment import Segment
from rocketq.store.queues.consume_queue import ConsumeQueue, QueueEntry, Verdict
from rocketq.store.queues.queue_names import can_be_queue
from rocketq.store.queues.queue_table import QueueRange, QueueRanges
from rocketq.store.queues.queue_tail import QueueTail
from rocketq.store.queues.removal import Removal
from rocketq.store.results import PutStatus

logger = logging.getLogger(__name__)

_SAMPLE: Final = 8
_LOOKS: Final = 8
_FILES_A_SLICE: Final = 64


class ConsumeQueues:
    """Owned by the store; touched on the event loop alone."""

    def __init__(
        self, folder: Path, file_size: int, disk: Disk, max_mapped: int, removal: Removal
    ) -> None:
        self.tails: dict[str, dict[int, QueueTail]] = {}
        """Topic -> queue id -> tail of the queues that are open: what an append looks up."""
        self.on_failure: Callable[[OSError], None] | None = None
        """Told when a queue cannot be opened."""
        self.judge: Callable[[ConsumeQueue, int, QueueEntry], Verdict] | None = None
        """Looks into the log whether an entry leads to its message."""
        self.failure: OSError | None = None
        """Why the last entry could not be written."""
        self.incomplete: dict[tuple[str, int], ConsumeQueue] = {}
        """Queues that lack entries which the log may still have."""
        self._folder = folder
        self._file_size = file_size
        self._disk = disk
        self._max_mapped = max_mapped
        self._removal = removal
        self._queues: dict[str, dict[int, ConsumeQueue | None]] = {}
        # Those mapped first come first.
        self._mapped: OrderedDict[Segment, None] = OrderedDict()
        self._dirty: list[ConsumeQueue] = []
        self._log_end = 0
        self._log_min = 0
        self._expected: QueueRanges = {}
        self.begins_at: Callable[[str], int] = _from_the_start
        """Where the present life of a topic begins in the log."""
        self.mend: Callable[[ConsumeQueue], None] | None = None
        """Makes a queue again whose files were found damaged; set once the store is open."""
        self.mending: dict[tuple[str, int], ConsumeQueue] = {}
        """Queues that are being made again, and that nobody else may touch meanwhile."""

    def load(self) -> None:
        """List what there is. Directories with other names than numbers are not queues."""
        if not self._folder.is_dir():
            return
        self._check_sizes()
        for topic in self._folder.iterdir():
            if not topic.is_dir():
                continue
            queue_ids = [int(queue.name) for queue in topic.iterdir() if queue.name.isdigit()]
            if queue_ids:
                self._queues[topic.name] = dict.fromkeys(sorted(queue_ids))

    def _check_sizes(self) -> None:
        """Refuse a directory that was written with other file sizes.

        A queue file may be cut short, and is mended then; but not a few of them all to the same
        size, and none can have grown.
        """
        sizes = [
            path.stat().st_size
            for folder in itertools.islice(self._folder.glob("*/*"), _SAMPLE)
            if folder.is_dir()
            for path in itertools.islice(folder.iterdir(), _SAMPLE)
            if path.name.isdigit()
        ]
        is_other_size = (
            len(sizes) > 1
            and len(set(sizes)) == 1
            and 0 < sizes[0] != self._file_size
            and sizes[0] % ENTRY_SIZE == 0
        )
        if is_other_size or any(size > self._file_size for size in sizes):
            raise StoreMismatch(
                f"{self._folder} has files of {max(sizes)} bytes; files of {self._file_size} "
                "bytes are configured"
            )

    def expect(self, ranges: QueueRanges) -> None:
        """Tell what queues must have, if all their files are there."""
        for topic, by_id in ranges.items():
            if not by_id:
                continue
            queues = self._queues.setdefault(topic, {})
            for queue_id, numbers in by_id.items():
                queue = queues.setdefault(queue_id, None)
                if queue is not None:
                    queue.compare(numbers)
                else:
                    self._expected.setdefault(topic, {})[queue_id] = numbers

    def ranges(self) -> QueueRanges:
        """What queues have; of those that were never opened, what they had to have."""
        found = {topic: dict(by_id) for topic, by_id in self._expected.items() if by_id}
        for queue in self.opened():
            if (queue.topic, queue.queue_id) not in self.mending:
                numbers = QueueRange(queue.first_offset, queue.end_offset)
                found.setdefault(queue.topic, {})[queue.queue_id] = numbers
        return found

    def set_log_min(self, log_min: int) -> None:
        """The log has lost its oldest files."""
        self._log_min = log_min

    def cut_at(self, log_end: int) -> None:
        """Forget the entries for what the log no longer has."""
        self._log_end = min(self._log_end, log_end)
        self._expected.clear()
        for queue in self.opened():
            queue.cut_at(log_end)

    def set_log_range(self, log_min: int, log_end: int) -> None:
        """Tell how much of the log there is: queues opened from now on are fitted to it."""
        self._log_min = log_min
        self._log_end = log_end

    # Finding

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue, opened if it was not; None if it does not exist.

        Raises `QueueUnavailable` while it is being made again.
        """
        queue = self._look_up(topic, queue_id)
        if self.mending and (topic, queue_id) in self.mending:
            raise QueueUnavailable(f"queue {queue_id} of {topic} is being made again from the log")
        return queue

    def known_end(self, topic: str, queue_id: int) -> int | None:
        """The end offset of a queue if that is known without opening it; 0 if there is none."""
        queues = self._queues.get(topic)
        if queues is None or queue_id not in queues:
            return 0
        queue = queues[queue_id]
        if queue is not None:
            return queue.end_offset
        expected = self._expected.get(topic, {}).get(queue_id)
        return None if expected is None else expected.end

    def _look_up(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self._queues.get(topic)
        if queues is None or queue_id not in queues:
            return None
        queue = queues[queue_id]
        if queue is None:
            queue = self._new(topic, queue_id)
            queue.open(self._log_end)
            queue.leave_out_before(self.begins_at(topic))
            if self.judge is not None:
                queue.check_end(self._log_min)
            expected = self._expected.get(topic, {}).pop(queue_id, None)
            if expected is not None:
                queue.compare(expected)
            queue.correct_min_offset(self._log_min)
            queues[queue_id] = queue
            self.tails.setdefault(topic, {})[queue_id] = queue.tail
            if queue.has_gap:
                self.incomplete[topic, queue_id] = queue
                if self.mend is not None:
                    self._begin_mending(queue)
        return queue

    # Damage

    def suspect(self, queue: ConsumeQueue, offset: int) -> bool:
        """Somebody found an entry that leads nowhere: whether the queue is made again for it.

        Not more than once: what is wrong after that is the log.
        """
        if self.mend is None or offset in queue.suspected:
            return False
        queue.suspected.add(offset)
        logger.warning("%s: entry %d leads nowhere", queue, offset)
        if (queue.topic, queue.queue_id) not in self.mending:
            self._begin_mending(queue)
        return True

    def _begin_mending(self, queue: ConsumeQueue) -> None:
        assert self.mend is not None
        self.mending[queue.topic, queue.queue_id] = queue
        self.tails.get(queue.topic, {}).pop(queue.queue_id, None)
        self.mend(queue)

    def mended(self, queue: ConsumeQueue) -> None:
        """A queue has all of its entries again."""
        queue.end_again()
        queue.correct_min_offset(self._log_min)
        self.incomplete.pop((queue.topic, queue.queue_id), None)
        self.mending.pop((queue.topic, queue.queue_id), None)
        self.tails.setdefault(queue.topic, {})[queue.queue_id] = queue.tail

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """A queue, made if it does not exist. Its files come with its first entry."""
        queue = self._look_up(topic, queue_id)
        if queue is None:
            if not can_be_queue(topic, queue_id):
                raise StoreError(f"there can be no queue {queue_id} of {topic!r}")
            queue = self._new(topic, queue_id)
            queue.create_empty()
            self._queues.setdefault(topic, {})[queue_id] = queue
            self.tails.setdefault(topic, {})[queue_id] = queue.tail
        return queue

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        return ConsumeQueue(
            topic,
            queue_id,
            self._folder / topic / str(queue_id),
            self._file_size,
            self._disk,
            self,
        )

    def open_tail(self, topic: str, queue_id: int) -> QueueTail:
        """The tail of a queue, which is made if it does not exist."""
        return self.get(topic, queue_id).tail

    def tail_for_append(self, topic: str, queue_id: int) -> QueueTail | None:
        """The slow way to a tail, for the first append to a queue; None if there is none."""
        if not can_be_queue(topic, queue_id):
            return None
        try:
            self.find(topic, queue_id)
            return self.open_tail(topic, queue_id)
        except QueueUnavailable:
            return None
        except OSError as error:
            logger.error("queue %d of %s cannot be opened: %s", queue_id, topic, error)
            if self.on_failure is not None:
                self.on_failure(error)
            return None

    def why_none(self, topic: str, queue_id: int) -> PutStatus:
        """Why there was no tail for an append."""
        if not can_be_queue(topic, queue_id):
            return PutStatus.MESSAGE_ILLEGAL
        return PutStatus.SERVICE_NOT_AVAILABLE

    def topics(self) -> list[str]:
        return list(self._queues)

    def __contains__(self, topic: str) -> bool:
        return topic in self._queues

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(self._queues.get(topic, ()))

    def all(self) -> Iterator[ConsumeQueue]:
        """Every queue, opened one after another, but for those that are being made again."""
        for topic in self.topics():
            for queue_id in self.queue_ids(topic):
                queue = self._look_up(topic, queue_id)
                if queue is not None and (topic, queue_id) not in self.mending:
                    yield queue

    def opened(self) -> list[ConsumeQueue]:
        """The queues that are open."""
        return [
            queue
            for queues in self._queues.values()
            for queue in queues.values()
            if queue is not None
        ]

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    # Removing

    def remove_earlier_lives(self, topics: Iterable[str]) -> None:
        """Delete what is left of queues of these topics that have no message in this life."""
        for topic in topics:
            for queue_id in self.queue_ids(topic):
                queue = self._look_up(topic, queue_id)
                if queue is not None and queue.end_offset == 0 and not queue.has_gap:
                    self.remove(topic, queue_id)

    def remove_topic(self, topic: str) -> int:
        """Delete a topic's queues and forget their numbering; returns how many there were.

        However many these are, a topic of the same name can be made in the same turn.
        """
        queues = self._queues.pop(topic, None)
        if queues is None:
            return 0
        self.tails.pop(topic, None)
        self._expected.pop(topic, None)
        self._dirty = [queue for queue in self._dirty if queue.topic != topic]
        for table in (self.mending, self.incomplete):
            for key in [key for key in table if key[0] == topic]:
                del table[key]
        opened = [queue for queue in queues.values() if queue is not None]
        self._removal.take(self._folder / topic, opened)
        return len(queues)

    def remove(self, topic: str, queue_id: int) -> None:
        queue = self._look_up(topic, queue_id)
        if queue is None:
            return
        self.mending.pop((topic, queue_id), None)
        if queue.tail.is_dirty:
            self._dirty = [dirty for dirty in self._dirty if dirty is not queue]
        queue.destroy()
        self._expected.get(topic, {}).pop(queue_id, None)
        self.incomplete.pop((topic, queue_id), None)
        del self._queues[topic][queue_id]
        self.tails.get(topic, {}).pop(queue_id, None)
        if not self._queues[topic]:
            del self._queues[topic]
            self.tails.pop(topic, None)

    def remove_all(self) -> None:
        for topic in self.topics():
            self.remove_topic(topic)

    # What queues tell

    def queue_dirtied(self, queue: ConsumeQueue) -> None:
        queue.tail.is_dirty = True
        self._dirty.append(queue)

    def queue_failed(self, queue: ConsumeQueue, error: OSError) -> None:
        logger.error("no room for an entry of %s: %s", queue, error)
        self.failure = error

    def queue_has_gap(self, queue: ConsumeQueue) -> None:
        self.incomplete[queue.topic, queue.queue_id] = queue

    def judge_entry(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> Verdict:
        """Whether an entry leads to the message it stands for."""
        return self.judge(queue, offset, entry) if self.judge is not None else Verdict.NO_RECORD

    def segment_mapped(self, segment: Segment) -> None:
        """Keep the number of mapped files bounded."""
        self._mapped[segment] = None
        self._mapped.move_to_end(segment)
        if len(self._mapped) > self._max_mapped:
            self._unmap_one()

    def _unmap_one(self) -> None:
        """Let go of the file that was mapped first; one in use comes to the end, once or twice.

        Only a few are looked at: whoever needs the next file waits for it.
        """
        for look in range(_LOOKS):
            segment, _ = self._mapped.popitem(last=False)
            if not segment.is_mapped:
                return
            if look < _LOOKS - 1 and _is_used(segment):
                self._mapped[segment] = None
                continue
            segment.unmap()
            return

    def unmap_idle(self) -> Slices[None]:
        """Let go of files that were not used since the last time this was called."""
        for number, segment in enumerate(list(self._mapped)):
            if not segment.is_mapped:
                self._mapped.pop(segment, None)
            elif segment in self._mapped and not _is_used(segment):
                del self._mapped[segment]
                segment.unmap()
            if number % _FILES_A_SLICE == _FILES_A_SLICE - 1:
                yield

    def take_dirty(self) -> list[ConsumeQueue]:
        """The queues with entries that are not known to be on the disk; they count as clean."""
        dirty, self._dirty = self._dirty, []
        for queue in dirty:
            queue.tail.is_dirty = False
        return list(dict.fromkeys(dirty))

    @property
    def mapped_count(self) -> int:
        return len(self._mapped)

    def close(self) -> None:
        for queue in self.opened():
            queue.close()
        self._removal.close()
        self._mapped.clear()


def _from_the_start(topic: str) -> int:
    return 0


def _is_used(segment: Segment) -> bool:
    """Whether a file was used since this was last asked."""
    holder = segment.holder
    used = segment.used or (holder is not None and holder.used)
    segment.used = False
    if holder is not None:
        holder.used = False
    return used
