"""Which ranges of which queues are read from which directory.

Directories that are copies of one log (a master and its slaves) count once: each range is read from
the first that has it, and the others stand by for records that are damaged there.

    broker-a   [0 ----------- 120)            read from broker-a [0, 120),
    its slave       [50 ------------ 140)     and from the slave [120, 140)
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from pyspark.sql.datasource import InputPartition

from rocketq.message.names import is_dlq_topic, is_retry_topic, is_system_topic
from rocketq.message.queue import MessageQueue
from rocketq.spark.files.directory import StoreDirectory
from rocketq.spark.options import EARLIEST, InvalidOptions, Position, SourceOptions
from rocketq.spark.read.partitions import cut
from rocketq.spark.read.pruning import Pruning

Span: TypeAlias = tuple[int, int]


@dataclass
class FileRange(InputPartition):
    """Messages of one queue in one directory, and where else they may be."""

    queue: MessageQueue
    start: int
    end: int
    root: Path
    copies: tuple[Path, ...]

    def __init__(
        self, queue: MessageQueue, start: int, end: int, root: Path, copies: tuple[Path, ...]
    ) -> None:
        super().__init__(None)
        self.queue = queue
        self.start = start
        self.end = end
        self.root = root
        self.copies = copies


@dataclass(frozen=True)
class Broker:
    """A log and its copies."""

    name: str
    directories: tuple[StoreDirectory, ...]


def brokers(stores: Iterable[tuple[str, str]]) -> list[Broker]:
    """The directories that a user names, copies of one log put together."""
    groups: list[tuple[str, list[StoreDirectory]]] = []
    for name, folder in stores:
        directory = StoreDirectory(Path(folder))
        for _, others in groups:
            if any(directory.holds_same_log(other) for other in others):
                others.append(directory)
                break
        else:
            groups.append((name or Path(folder).resolve().name, [directory]))
    names = [name for name, _ in groups]
    for name in names:
        if names.count(name) > 1:
            raise InvalidOptions(
                f"rocketq source: store names {name!r} twice, and these are not copies of one log; "
                "tell them apart with broker-a=DIR,broker-b=DIR"
            )
    return [Broker(name, tuple(directories)) for name, directories in groups]


def plan_files(options: SourceOptions, pruning: Pruning) -> list[FileRange]:
    """The ranges to read."""
    ranges: list[FileRange] = []
    found: set[str] = set()
    for broker in brokers(options.stores):
        places: dict[MessageQueue, list[StoreDirectory]] = {}
        for directory in broker.directories:
            for topic, number in directory.queues():
                queue = MessageQueue(topic, broker.name, number)
                if is_wanted(options, queue):
                    found.add(topic)
                    if pruning.wants(topic, queue):
                        places.setdefault(queue, []).append(directory)
        for queue, directories in sorted(places.items()):
            of_queue = _of_queue(options, pruning, queue, directories)
            ranges += of_queue if options.key is None else _of_key(options.key, of_queue, broker)
    missing = [topic for topic in options.topics if topic not in found]
    if missing:
        raise InvalidOptions(f"rocketq source: no store has a queue of topic {missing[0]!r}")
    total = sum(each.end - each.start for each in ranges)
    return [
        FileRange(each.queue, start, end, each.root, each.copies)
        for each in ranges
        for start, end in cut(
            each.start,
            each.end,
            total=total,
            ranges=len(ranges),
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
    ]


def is_wanted(options: SourceOptions, queue: MessageQueue) -> bool:
    """Whether a queue is among those that are asked for; without a word, all but the system's."""
    topic = queue.topic
    if options.topics:
        return topic in options.topics
    if options.assigned:
        return queue.queue_id in options.assigned.get(topic, {}).get(queue.broker_name, ())
    if is_system_topic(topic) or is_retry_topic(topic) or is_dlq_topic(topic):
        return False
    return options.pattern is None or re.fullmatch(options.pattern, topic) is not None


def _of_queue(
    options: SourceOptions,
    pruning: Pruning,
    queue: MessageQueue,
    directories: list[StoreDirectory],
) -> list[FileRange]:
    spans = []
    for directory in directories:
        first, end = directory.bounds(queue.topic, queue.queue_id)
        start = _resolve(options.starting, directory, queue, first, end)
        until = _resolve(options.ending, directory, queue, first, end)
        lowest, highest = pruning.offsets
        since_us, until_us = pruning.times_us
        start = max(start, first, lowest or 0)
        until = min(until, end, end if highest is None else highest)
        if since_us is not None:
            start = max(start, _at(directory, queue, since_us // 1000 - 60_000))
        if until_us is not None:
            until = min(until, _at(directory, queue, until_us // 1000 + 60_000))
        spans.append((start, until))
    copies = tuple(directory.root for directory in directories)
    return [
        FileRange(queue, start, end, copies[which], copies[:which] + copies[which + 1 :])
        for start, end, which in disjoint(spans)
    ]


def _of_key(key: str, ranges: list[FileRange], broker: Broker) -> list[FileRange]:
    """What these ranges have of a key, by the indexes of all copies."""
    out = []
    for each in ranges:
        found = {
            offset
            for directory in broker.directories
            for number, offset in directory.offsets_of_key(each.queue.topic, key)
            if number == each.queue.queue_id and each.start <= offset < each.end
        }
        out += [
            FileRange(each.queue, offset, offset + 1, each.root, each.copies)
            for offset in sorted(found)
        ]
    return out


def _at(directory: StoreDirectory, queue: MessageQueue, time_ms: int) -> int:
    return directory.offset_at_time(queue.topic, queue.queue_id, time_ms)


def _resolve(
    position: Position, directory: StoreDirectory, queue: MessageQueue, first: int, end: int
) -> int:
    def number(table: dict[str, dict[str, dict[int, int]]]) -> int | None:
        return table.get(queue.topic, {}).get(queue.broker_name, {}).get(queue.queue_id)

    offset, moment = number(position.offsets), number(position.times_by_queue)
    moment = position.time_ms if moment is None else moment
    if offset is not None and offset >= 0:
        return offset
    if moment is not None:
        return _at(directory, queue, moment)
    if offset is not None:
        return end if offset == -1 else first
    return first if position.word == EARLIEST else end


def disjoint(spans: list[Span]) -> list[tuple[int, int, int]]:
    """All that the spans cover, once: (start, end, which of them); the first that has it."""
    edges = sorted({edge for span in spans for edge in span})
    out: list[tuple[int, int, int]] = []
    for start, end in pairwise(edges):
        which = next((n for n, (a, b) in enumerate(spans) if a <= start and end <= b), None)
        if which is None:
            continue
        if out and out[-1][1:] == (start, which):
            out[-1] = (out[-1][0], end, which)
        else:
            out.append((start, end, which))
    return out
