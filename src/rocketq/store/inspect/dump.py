"""Printing what is in a store directory, record by record.

Reads only: works on a directory that a broker has open, and on one written by Java RocketMQ.
"""

from collections.abc import Iterator
from pathlib import Path

from rocketq.message.message import MessageExt
from rocketq.message.record.reader import decode_record
from rocketq.store.config import StoreConfig
from rocketq.store.durability.beginnings import read_beginnings
from rocketq.store.durability.log_scan import LogScan
from rocketq.store.files.disk import ReadOnlyDisk
from rocketq.store.files.segments import Segments
from rocketq.store.inspect.check import config_for


def dump_store(
    root: str | Path, topic: str | None = None, config: StoreConfig | None = None
) -> Iterator[MessageExt]:
    """The messages of a directory, of one topic or of all, in the order of the log.

    Those of topics that were deleted since are left out.
    """
    config = config_for(root, config)
    segments = Segments(
        config.commit_log_folders,
        config.mapped_file_size_commit_log,
        ReadOnlyDisk(),
        reserve=False,
    )
    segments.load(remove_empty=False)
    if segments.first is None:
        return
    wanted = topic.encode() if topic is not None else None
    beginnings = {name.encode(): at for name, at in read_beginnings(Path(root)).items()}
    for position, fields in LogScan(segments, segments.first.start):
        if wanted is not None and fields.topic != wanted:
            continue
        if position < beginnings.get(fields.topic, 0):
            continue
        segment = segments.find(position)
        assert segment is not None, position
        yield decode_record(segment.slice(position, fields.size))
