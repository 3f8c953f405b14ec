"""Rows as messages: the writers of the format `rocketq`.

    topic         string   where the option `topic` is not given
    body          binary or string, required
    tags          string
    keys          string (space-separated) or array<string>
    properties    map<string,string>; the system's own names in it are left out
    sharding_key  any type that casts to string: the same key, the same queue, in order
    delay_level   int

At least once: a task that is run again sends again, with the same unique keys (`msg_id` at the
consumer), which are derived from query, batch, partition and row. So whoever consumes can drop
what it has seen.
"""

import hashlib
import logging
import uuid
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import DataType, StructType

from rocketq.client.loop_thread import loop_thread
from rocketq.common.errors import RocketqError
from rocketq.message.hashing import java_hash
from rocketq.message.names import validate_topic
from rocketq.message.properties import SYSTEM_PROPERTIES
from rocketq.message.queue import MessageQueue
from rocketq.spark.batch_rows import BatchRows, Texts, UnfitRow
from rocketq.spark.batch_sender import BatchSender
from rocketq.spark.options import InvalidOptions, SinkOptions
from rocketq.spark.topics import opened

logger = logging.getLogger(__name__)

_RESERVED = frozenset(name.encode() for name in SYSTEM_PROPERTIES)
_COLUMN_TYPES = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "sharding_key": None,
    "delay_level": ("int", "smallint", "tinyint", "bigint"),
}


class WriteFailed(RocketqError):
    """A row or a batch was not taken."""


@dataclass
class Written(WriterCommitMessage):
    """What one task sent."""

    messages: int
    bytes: int


def check_schema(options: SinkOptions, schema: StructType) -> None:
    """Refuse a table that cannot be messages, before anything runs."""
    types: dict[str, DataType] = {field.name: field.dataType for field in schema.fields}
    if "body" not in types:
        raise InvalidOptions("rocketq sink: the table has no column body (binary or string)")
    if "topic" not in types and options.topic is None:
        raise InvalidOptions("rocketq sink: give the option topic, or a column of that name")
    for name, kind in types.items():
        if name not in _COLUMN_TYPES:
            raise InvalidOptions(
                f"rocketq sink: column {name!r} means nothing here; known are "
                f"{', '.join(_COLUMN_TYPES)}"
            )
        allowed = _COLUMN_TYPES[name]
        if allowed is not None and kind.simpleString() not in allowed:
            raise InvalidOptions(
                f"rocketq sink: column {name!r} is {kind.simpleString()}, it must be "
                f"{' or '.join(allowed)}"
            )
    if options.topic is not None:
        validate_topic(options.topic)


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: one job, then done."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options
        self._run = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._options, f"{self._run}/{_partition()}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _log_total(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        logger.warning("the write failed; what was sent before is in the topics")


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: a batch with every trigger."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None, "called outside of a task"
        query = task.getLocalProperty("sql.streaming.queryId")
        batch = task.getLocalProperty("streaming.sql.batchId")
        return write_rows(self._options, f"{query}/{batch}/{_partition()}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _log_total(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        logger.warning("batch %d failed; what was sent before is in the topics", batchId)


def _partition() -> int:
    task = TaskContext.get()
    return 0 if task is None else task.partitionId()


def _log_total(messages: list[WriterCommitMessage | None]) -> None:
    written = [message for message in messages if isinstance(message, Written)]
    logger.info(
        "%d messages of %d bytes written",
        sum(message.messages for message in written),
        sum(message.bytes for message in written),
    )


def write_rows(
    options: SinkOptions, origin: str, batches: Iterator[pa.RecordBatch]
) -> WriterCommitMessage:
    """Send the rows of one task. `origin` names it: the same again after a failure."""
    prefix = hashlib.blake2b(origin.encode(), digest_size=12).hexdigest().upper().encode()
    loop = loop_thread()
    opening = opened(options.connection)
    client = loop.run(opening.__aenter__())
    try:
        sender = BatchSender(client, options)
        writing = _Writing(options, sender, prefix)
        try:
            for batch in batches:
                writing.write(batch)
            writing.finish()
        finally:
            writing.give_up()
        return Written(writing.messages, writing.bytes)
    finally:
        loop.run(opening.__aexit__(None, None, None))


class _Writing:
    """The sends of one task, a bounded number of them under way."""

    def __init__(self, options: SinkOptions, sender: BatchSender, prefix: bytes) -> None:
        self._options = options
        self._sender = sender
        self._prefix = prefix
        self._loop = loop_thread()
        self._pending: deque[Future[None]] = deque()
        self._last_of: dict[MessageQueue, Future[None]] = {}
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._turn = 0
        self.messages = 0
        self.bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Send one record batch's rows, topic by topic."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        rows = BatchRows(
            batch.num_rows,
            _texts(columns["body"]),
            _optional_texts(columns.get("tags")),
            _optional_texts(_joined(columns.get("keys"))),
            _map_parts(columns.get("properties")),
            _RESERVED,
            self._prefix,
            self.messages,
        )
        for topic, of_topic in self._by_topic(columns.get("topic"), batch.num_rows):
            for delay, of_level in _by_value(columns.get("delay_level"), of_topic):
                self._send(topic, rows, of_level, columns.get("sharding_key"), int(delay or 0))
        self.messages += batch.num_rows

    def _by_topic(
        self, column: pa.Array | None, count: int
    ) -> Iterator[tuple[str, npt.NDArray[np.int32] | None]]:
        if column is None:
            assert self._options.topic is not None
            yield self._options.topic, None
            return
        for topic, rows in _by_value(column, np.arange(count, dtype=np.int32)):
            target: str | None = topic or self._options.topic
            if target is None:
                raise WriteFailed(f"row {self.messages + int(rows[0])}: the topic is null")
            yield target, rows

    def _send(
        self,
        topic: str,
        rows: BatchRows,
        chosen: npt.NDArray[np.int32] | None,
        sharding: pa.Array | None,
        delay_level: int,
    ) -> None:
        if sharding is None:
            self._send_run(topic, rows, chosen, None, delay_level)
            return
        queues = self._queues_of(topic)
        for key, of_key in _by_value(
            _queue_numbers(sharding, len(queues)), _all_or(chosen, rows.count)
        ):
            # Rows without a key go anywhere.
            self._send_run(topic, rows, of_key, None if key is None else queues[key], delay_level)

    def _send_run(
        self,
        topic: str,
        rows: BatchRows,
        chosen: npt.NDArray[np.int32] | None,
        queue: MessageQueue | None,
        delay_level: int,
    ) -> None:
        """Cut rows into requests. A fixed queue gets one at a time, so that order holds."""
        at, end = 0, rows.count if chosen is None else len(chosen)
        # Brokers take no delay for batches: such rows go one by one.
        most = self._options.batch_messages if delay_level <= 0 else 1
        while at < end:
            try:
                body, after = rows.encode(chosen, at, self._options.batch_bytes, most)
            except UnfitRow as error:
                raise WriteFailed(
                    f"row {self.messages + error.row} for topic {topic!r}: {error}"
                ) from None
            if queue is None:
                queues = self._queues_of(topic)
                target = queues[self._turn % len(queues)]
                self._turn += 1
            else:
                target = queue
                before = self._last_of.get(queue)
                if before is not None:
                    before.result()
            sent = self._loop.submit(
                self._sender.send(
                    topic,
                    target,
                    bytes(body),
                    after - at,
                    is_fixed=queue is not None,
                    delay_level=delay_level,
                )
            )
            if queue is not None:
                self._last_of[queue] = sent
            self.bytes += len(body)
            self._pending.append(sent)
            at = after
            while len(self._pending) > self._options.max_pending:
                self._pending.popleft().result()

    def _queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = self._loop.run(self._sender.queues(topic))
        return queues

    def finish(self) -> None:
        """Wait for every answer; the first failure is raised."""
        while self._pending:
            self._pending.popleft().result()

    def give_up(self) -> None:
        for sent in self._pending:
            sent.cancel()


def _all_or(chosen: npt.NDArray[np.int32] | None, count: int) -> npt.NDArray[np.int32]:
    return np.arange(count, dtype=np.int32) if chosen is None else chosen


def _by_value(
    column: pa.Array | None, rows: npt.NDArray[np.int32] | None
) -> Iterator[tuple[Any, Any]]:
    """Rows by the value they have in a column, each group in the rows' order."""
    if column is None:
        yield None, rows
        return
    if rows is not None:
        column = column.take(pa.array(rows))
    else:
        rows = np.arange(len(column), dtype=np.int32)
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    values = encoded.dictionary.to_pylist()
    if len(values) == 1:
        yield values[0], rows
        return
    order = np.argsort(numbers, kind="stable")
    edges = np.searchsorted(numbers[order], np.arange(len(values) + 1))
    for number, value in enumerate(values):
        group = order[edges[number] : edges[number + 1]]
        if len(group):
            yield value, rows[group]


def _queue_numbers(sharding: pa.Array, count: int) -> pa.Array:
    """The number of the queue of each row's key, by Java's hash, as Java's clients choose it."""
    encoded = pc.dictionary_encode(sharding.cast(pa.string()))
    numbers = pa.array(
        [abs(java_hash(key)) % count for key in encoded.dictionary.to_pylist()], pa.int32()
    )
    return numbers.take(encoded.indices)


def _joined(column: pa.Array | None) -> pa.Array | None:
    if column is None or not pa.types.is_list(column.type):
        return column
    return pc.binary_join(column, " ")


def _optional_texts(column: pa.Array | None) -> Texts | None:
    return None if column is None else _texts(column)


def _texts(column: pa.Array) -> Texts:
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())
    validity, offsets, data = column.buffers()
    return Texts(
        None if validity is None else _bytes_of(validity),
        _bytes_of(offsets),
        _bytes_of(data),
        column.offset,
    )


def _bytes_of(buffer: pa.Buffer | None) -> memoryview:
    return memoryview(b"" if buffer is None else buffer).cast("B")


def _map_parts(column: pa.Array | None) -> tuple[list[int], Texts, Texts] | None:
    if column is None:
        return None
    if column.null_count:
        # The offsets of a null map may enclose entries that nobody sees.
        column = pc.if_else(column.is_valid(), column, pa.scalar([], column.type))
    return column.offsets.to_pylist(), _texts(column.keys), _texts(column.items)
