"""Rows as messages: the writers of the format `rocketq`.

    topic         string   where the option `topic` is not given
    body          binary or string, required
    tags          string
    keys          string (space-separated) or array<string>
    properties    map<string,string>; the system's own names in it are left out
    sharding_key  any type that casts to string: the same key, the same queue, in order
    delay_level   int
    flag          int
    value, key    Kafka's names: the body; the keys, and the sharding key where there is none

What else a topic has as a table (place, times, hosts) is left out, so that what was read can be
written as it is.

At least once: a task that is run again sends again, with the same unique keys (`msg_id` at the
consumer), which are derived from query, batch, partition and row. So whoever consumes can drop
what it has seen.
"""

import difflib
import logging
import time
import uuid
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import DataType, StructType

from rocketq.message.names import validate_topic
from rocketq.spark.errors import in_one_sentence
from rocketq.spark.options import AT_LEAST_ONCE, TRANSACTIONAL, InvalidOptions, SinkOptions
from rocketq.spark.schema import ALIASES, ALL_COLUMNS
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.rows import write_rows
from rocketq.spark.write.whole.commit import commit_batch
from rocketq.spark.write.written import Prepared, Written

logger = logging.getLogger(__name__)

_CLOCKS_MAY_DIFFER_MS: Final = 600_000
_INTEGERS: Final = ("int", "smallint", "tinyint", "bigint")
_COLUMN_TYPES: Final[dict[str, tuple[str, ...] | None]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "sharding_key": None,
    "delay_level": _INTEGERS,
    "flag": _INTEGERS,
    "value": ("binary", "string"),
    "key": ("binary", "string"),
}


def check_schema(options: SinkOptions, schema: StructType) -> None:
    """Refuse a table that cannot be messages, before anything runs."""
    types: dict[str, DataType] = {field.name: field.dataType for field in schema.fields}
    if "body" not in types and "value" not in types:
        raise InvalidOptions(
            "rocketq sink: the table has no column body (binary or string; Kafka's name for it, "
            f"value, will do). It has {', '.join(types) or 'none'}: name one with "
            ".withColumnRenamed or to_json(struct(*)) AS body"
        )
    for name in ("key", "value"):
        if name in types and ALIASES[name] in types:
            raise InvalidOptions(
                f"rocketq sink: columns {name!r} and {ALIASES[name]!r} mean the same; leave one out"
            )
    if "topic" not in types and options.topic is None:
        raise InvalidOptions("rocketq sink: give the option topic, or a column of that name")
    for name, kind in types.items():
        if name not in _COLUMN_TYPES and name not in ALL_COLUMNS:
            nearest = difflib.get_close_matches(name, _COLUMN_TYPES, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ";"
            raise InvalidOptions(
                f"rocketq sink: column {name!r} means nothing here{hint} known are "
                f"{', '.join(_COLUMN_TYPES)}"
            )
        allowed = _COLUMN_TYPES.get(name)
        if allowed is not None and kind.simpleString() not in allowed:
            raise InvalidOptions(
                f"rocketq sink: column {name!r} is {kind.simpleString()}, it must be "
                f"{' or '.join(allowed)}"
            )
    if options.delivery != AT_LEAST_ONCE and "delay_level" in types:
        raise InvalidOptions(
            f"rocketq sink: with delivery={options.delivery} there can be no column delay_level: "
            "what is delayed cannot be looked for"
        )
    if options.delivery == TRANSACTIONAL and options.topic is None:
        raise InvalidOptions(
            "rocketq sink: delivery=transactional needs the option topic: a batch is a whole in "
            "one topic"
        )
    if options.topic is not None:
        validate_topic(options.topic)


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: one job, then done."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options
        self._run = uuid.uuid4().hex
        self._began_ms = time.time_ns() // 1_000_000

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        write_id = self._options.write_id
        name = TaskName(
            sink=write_id or self._run,
            batch=0,
            partition=_partition(),
            since_ms=0 if write_id else self._began_ms - _CLOCKS_MAY_DIFFER_MS,
        )
        return write_rows(self._options, name, iterator)

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _end(self._options, messages)
        _log_total(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        logger.warning("the write failed; %s", _what_is_left(self._options))


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: a batch with every trigger."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None, "called outside of a task"
        query = task.getLocalProperty("sql.streaming.queryId")
        batch = task.getLocalProperty("streaming.sql.batchId")
        name = TaskName(sink=str(query), batch=int(batch or 0), partition=_partition())
        return write_rows(self._options, name, iterator)

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _end(self._options, messages)
        _log_total(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        logger.warning("batch %d failed; %s", batchId, _what_is_left(self._options))


def _partition() -> int:
    task = TaskContext.get()
    return 0 if task is None else task.partitionId()


def _end(options: SinkOptions, messages: list[WriterCommitMessage | None]) -> None:
    if options.delivery == TRANSACTIONAL:
        commit_batch(options, [each for each in messages if isinstance(each, Prepared)])


def _what_is_left(options: SinkOptions) -> str:
    if options.delivery == TRANSACTIONAL:
        return "what was sent before is not visible, unless the batch was decided"
    return "what was sent before is in the topics"


def _log_total(messages: list[WriterCommitMessage | None]) -> None:
    written = [message for message in messages if isinstance(message, Written)]
    logger.info(
        "%d messages of %d bytes written",
        sum(message.messages for message in written),
        sum(message.bytes for message in written),
    )
