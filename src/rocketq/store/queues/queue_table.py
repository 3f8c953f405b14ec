"""What the consume queues held when the store was closed.

    <root>/consumeQueueTable.json     {"logEnd":4711,"queues":{"orders":{"0":[0,300]}},"crc":12345}

For each queue the numbers of its first entry and of the one that would come next, and a CRC-32 of
`[4711,{"orders":{"0":[0,300]}}]`, which is the same without names. Nothing needs
this file: it is written by a clean stop, read by the next start and removed. But with it a
start notices that files of a queue have vanished meanwhile, without looking at any queue
before it is used; what is missing is made again from the log. Without it, a queue whose last
files are gone would give their numbers to other messages.
"""

import logging
import zlib
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from rocketq.common.files import write_atomically

logger = logging.getLogger(__name__)

FILE_NAME: Final = "consumeQueueTable.json"


class QueueRange(NamedTuple):
    """The entries that a queue has files for."""

    first: int
    end: int


QueueRanges = dict[str, dict[int, QueueRange]]


class QueueTable(NamedTuple):
    """What all queues had when the log ended here."""

    log_end: int
    queues: QueueRanges


def write_queue_table(root: Path, log_end: int, queues: QueueRanges) -> None:
    """Leave the numbers for the next start."""
    plain = {
        topic: {str(queue_id): list(numbers) for queue_id, numbers in by_id.items()}
        for topic, by_id in queues.items()
    }
    table = {"logEnd": log_end, "queues": plain, "crc": _checksum(log_end, plain)}
    write_atomically(root / FILE_NAME, orjson.dumps(table), keep_backup=False)


def take_queue_table(root: Path) -> QueueTable | None:
    """The numbers of the last stop. They count only if the log still ends where it ended then.

    The file is removed: from now on queues change without it.
    """
    path = root / FILE_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    path.unlink()
    try:
        table = orjson.loads(data)
        log_end, queues = table["logEnd"], table["queues"]
        if table["crc"] != _checksum(log_end, queues):
            raise ValueError("its checksum is wrong")
        ranges = {
            topic: {
                int(queue_id): QueueRange(int(first), int(end))
                for queue_id, (first, end) in by_id.items()
            }
            for topic, by_id in queues.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning("%s cannot be read: %s", path, error)
        return None
    return QueueTable(log_end, ranges)


def _checksum(log_end: int, queues: object) -> int:
    return zlib.crc32(orjson.dumps([log_end, queues]))
