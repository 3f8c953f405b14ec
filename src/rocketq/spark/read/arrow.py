"""Pulled bytes as Arrow record batches, with the columns a job asks for.

Mostly one answer becomes one batch. Compressed bodies are opened only where a job asks for them,
some megabytes at a time, so that an answer full of messages that grow a thousandfold becomes many
batches of the usual size.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from rocketq.common.buffers import Buffer
from rocketq.common.errors import RocketqError
from rocketq.message.compression import MAX_DECOMPRESSED_SIZE, CompressionError, decompress
from rocketq.message.queue import MessageQueue
from rocketq.message.record import layout
from rocketq.message.record.batch import unwrap_inner_batch
from rocketq.message.record.reader import decode_records
from rocketq.spark.read.columns import RecordTable
from rocketq.spark.read.damage import DamagedMessage
from rocketq.spark.schema import ALIASES

_OPENED_AT_ONCE: Final = 8 << 20
"""How many bytes of opened bodies a batch may have before it ends."""
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_MAP = pa.map_(pa.string(), pa.string())

ARROW_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "broker_name": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "msg_id": pa.string(),
    "keys": pa.string(),
    "tags": pa.string(),
    "body": pa.binary(),
    "properties": _MAP,
    "born_timestamp": _TIMESTAMP,
    "store_timestamp": _TIMESTAMP,
    "born_host": pa.string(),
    "reconsume_times": pa.int32(),
    "sys_flag": pa.int32(),
    "flag": pa.int32(),
    "body_error": pa.string(),
    "key": pa.binary(),
    "value": pa.binary(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _TIMESTAMP,
}
_OF_BODIES: Final = frozenset({"body", "body_error"})


class ArrowBatches:
    """Makes record batches of one queue's records."""

    def __init__(
        self,
        queue: MessageQueue,
        columns: Sequence[str],
        tags: Iterable[bytes] | None = None,
        *,
        times_us: tuple[int | None, int | None] = (None, None),
        fail_on_damage: bool = True,
        max_body_bytes: int = MAX_DECOMPRESSED_SIZE,
    ) -> None:
        self.schema = pa.schema([(name, ARROW_TYPES[name]) for name in columns])
        self._queue = queue
        self._columns = tuple(ALIASES.get(name, name) for name in columns)
        self._tags = tags
        self._times_us = times_us
        self._fail_on_damage = fail_on_damage
        self._max_body_bytes = max_body_bytes
        self._makers = {name: self._maker(name) for name in self._columns if name not in _OF_BODIES}

    def batches(self, records: Buffer, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The messages with offsets from `start` to `end`, without that."""
        table = RecordTable(records, start, end, self._tags)
        if not table.has_inner_batches:
            yield from self._of_times(table, {})
            return
        for piece, why in self._split(records):
            table = RecordTable(piece, start, end, self._tags)
            yield from self._of_times(table, {} if why is None else {0: why})

    def _of_times(self, table: RecordTable, damaged: dict[int, str]) -> Iterator[pa.RecordBatch]:
        """Those that were stored in the time that is asked for."""
        if self._times_us == (None, None):
            yield from self._of_table(table, damaged)
            return
        times = np.frombuffer(table.store_time_column(), np.int64)
        since, until = self._times_us
        wanted = np.ones(len(times), np.bool_)
        if since is not None:
            wanted &= times >= since
        if until is not None:
            wanted &= times < until
        at = 0
        for batch in self._of_table(table, damaged):
            chosen = batch.filter(pa.array(wanted[at : at + batch.num_rows]))
            at += batch.num_rows
            if chosen.num_rows:
                yield chosen

    def _of_table(self, table: RecordTable, damaged: dict[int, str]) -> Iterator[pa.RecordBatch]:
        """`damaged`: rows that are known to be so, and why."""
        if table.count == 0:
            return
        others = {name: make(table) for name, make in self._makers.items()}
        if _OF_BODIES.isdisjoint(self._columns):
            yield self._batch(others)
            return
        for first, after, opened, errors in self._opened(table, damaged):
            bodies = {
                "body": _bodies(table, first, after, opened, errors),
                "body_error": _errors(first, after, errors),
            }
            if after - first < table.count:
                run = {name: column.slice(first, after - first) for name, column in others.items()}
                yield self._batch(run | bodies)
            else:
                yield self._batch(others | bodies)

    def _batch(self, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [
                columns[name].cast(kind)  # keys as bytes, where they have Kafka's name
                if kind != columns[name].type
                else columns[name]
                for name, kind in zip(self._columns, self.schema.types, strict=True)
            ],
            schema=self.schema,
        )

    # Bodies

    def _opened(
        self, table: RecordTable, damaged: dict[int, str]
    ) -> Iterator[tuple[int, int, dict[int, bytes], dict[int, str]]]:
        """Runs of rows (first, after the last), their opened bodies, what is wrong with some."""
        first, size = 0, 0
        opened: dict[int, bytes] = {}
        errors: dict[int, str] = {}
        for row, why in damaged.items():
            self._complain(table, row, why)
            opened[row], errors[row] = b"", why
        for row in table.compressed_rows():
            if row in damaged:
                continue
            if size >= _OPENED_AT_ONCE:
                yield first, row, opened, errors
                first, size, opened, errors = row, 0, {}, {}
            try:
                body = decompress(table.sys_flag(row), table.stored_body(row), self._max_body_bytes)
            except CompressionError as error:
                self._complain(table, row, str(error))
                body, errors[row] = b"", str(error)
            opened[row] = body
            size += len(body)
        yield first, table.count, opened, errors

    def _complain(self, table: RecordTable, row: int, why: str) -> None:
        if self._fail_on_damage:
            raise DamagedMessage(self._queue, table.queue_offset(row), why) from None

    def _split(self, records: Buffer) -> Iterator[tuple[Buffer, str | None]]:
        """The same records, those that hold several messages replaced by one for each.

        One that cannot be split comes alone, with the reason.
        """
        for record in decode_records(records):
            try:
                messages = unwrap_inner_batch(record)
            except (RocketqError, ValueError, OverflowError) as error:
                yield record.record, f"it holds no batch of messages: {error}"
            else:
                yield b"".join(message.record for message in messages), None

    # Columns

    def _maker(self, name: str) -> Callable[[RecordTable], pa.Array]:
        constants = {"topic": self._queue.topic, "broker_name": self._queue.broker_name}
        if name in constants:
            return lambda table: pa.repeat(pa.scalar(constants[name], pa.string()), table.count)
        return _MAKERS[name]


def _bodies(
    table: RecordTable, first: int, after: int, opened: dict[int, bytes], errors: dict[int, str]
) -> pa.Array:
    offsets, data = table.body_column(first, after, opened)
    validity = _are_not(errors, first, after) if errors else None
    return _array(pa.binary(), after - first, validity, offsets, data)


def _errors(first: int, after: int, errors: dict[int, str]) -> pa.Array:
    if not errors:
        return pa.nulls(after - first, pa.string())
    return pa.array([errors.get(row) for row in range(first, after)], pa.string())


def _are_not(rows: Iterable[int], first: int, after: int) -> bytearray:
    """A bit for each row of a run, set where it is not one of these."""
    bits = bytearray(b"\xff" * ((after - first + 7) // 8))
    for row in rows:
        bits[(row - first) >> 3] &= ~(1 << ((row - first) & 7))
    return bits


def _array(kind: pa.DataType, count: int, *parts: bytearray | None) -> pa.Array:
    """Validity (None: all are valid), and the rest as the type has it."""
    buffers = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(kind, count, buffers)


def _texts(count: int, validity: bytearray | None, offsets: bytearray, data: bytearray) -> pa.Array:
    """Texts as they came. Producers may have written anything: what is not UTF-8 is replaced."""
    array = _array(pa.string(), count, validity, offsets, data)
    if _is_text(array, data):
        return array
    raw = _array(pa.binary(), count, validity, offsets, data).to_pylist()
    texts = [None if each is None else each.decode("utf-8", "replace") for each in raw]
    return pa.array(texts, pa.string())


def _is_text(array: pa.Array, data: bytearray) -> bool:
    if data.isascii():
        return True
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _fixed(
    name: str, fill: Callable[[RecordTable], bytearray]
) -> Callable[[RecordTable], pa.Array]:
    return lambda table: _array(ARROW_TYPES[name], table.count, None, fill(table))


def _property(name: bytes) -> Callable[[RecordTable], pa.Array]:
    return lambda table: _texts(table.count, *table.property_column(name))


def _filled(
    fill: Callable[[RecordTable], tuple[bytearray, bytearray]],
) -> Callable[[RecordTable], pa.Array]:
    """Texts, none of them null."""
    return lambda table: _texts(table.count, None, *fill(table))


def _properties(table: RecordTable) -> pa.Array:
    offsets, entries, name_offsets, names, value_offsets, values = table.map_column()
    maps = pa.MapArray.from_arrays(
        _array(pa.int32(), table.count + 1, None, offsets),
        _texts(entries, None, name_offsets, names),
        _texts(entries, None, value_offsets, values),
    )
    if _is_text(_array(pa.string(), entries, None, name_offsets, names), names):
        return maps
    # Names that differed only in what was replaced: the last counts, as everywhere.
    return pa.array([list(dict(row).items()) for row in maps.to_pylist()], _MAP)


_MAKERS: dict[str, Callable[[RecordTable], pa.Array]] = {
    "queue_id": _fixed("queue_id", lambda table: table.int_column(layout.QUEUE_ID_AT)),
    "queue_offset": _fixed("queue_offset", lambda table: table.long_column(layout.QUEUE_OFFSET_AT)),
    "msg_id": _filled(RecordTable.id_column),
    "keys": _property(b"KEYS"),
    "tags": _property(b"TAGS"),
    "properties": _properties,
    "born_timestamp": _fixed("born_timestamp", RecordTable.born_time_column),
    "store_timestamp": _fixed("store_timestamp", RecordTable.store_time_column),
    "born_host": _filled(RecordTable.host_column),
    "reconsume_times": _fixed("reconsume_times", RecordTable.reconsume_column),
    "sys_flag": _fixed("sys_flag", lambda table: table.int_column(layout.SYS_FLAG_AT)),
    "flag": _fixed("flag", lambda table: table.int_column(layout.FLAG_AT)),
}
