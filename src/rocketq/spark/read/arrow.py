"""Pulled bytes as Arrow record batches, with the columns a job asks for."""

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from rocketq.common.buffers import Buffer
from rocketq.message.queue import MessageQueue
from rocketq.message.record.batch import unwrap_inner_batch
from rocketq.message.record.reader import decode_records
from rocketq.spark.read.columns import RecordTable

# Where fields of one size lie in a record.
_QUEUE_ID, _FLAG, _QUEUE_OFFSET, _SYS_FLAG, _BORN_TIMESTAMP = 12, 16, 20, 36, 40
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
}


class ArrowBatches:
    """Makes record batches of one queue's records."""

    def __init__(
        self, queue: MessageQueue, columns: Sequence[str], tags: Iterable[bytes] | None = None
    ) -> None:
        self.schema = pa.schema([(name, ARROW_TYPES[name]) for name in columns])
        self._queue = queue
        self._tags = tags
        self._makers = [self._maker(name) for name in columns]

    def batch(self, records: Buffer, start: int, end: int) -> pa.RecordBatch | None:
        """The messages with offsets from `start` to `end`, without that; None without any."""
        table = RecordTable(records, start, end, self._tags)
        if table.has_inner_batches:
            table = RecordTable(_split(records), start, end, self._tags)
        if table.count == 0:
            return None
        return pa.RecordBatch.from_arrays(
            [make(table) for make in self._makers], schema=self.schema
        )

    def _maker(self, name: str) -> Callable[[RecordTable], pa.Array]:
        constants = {"topic": self._queue.topic, "broker_name": self._queue.broker_name}
        if name in constants:
            return lambda table: pa.repeat(pa.scalar(constants[name], pa.string()), table.count)
        return _MAKERS[name]


def _fixed(
    name: str, fill: Callable[[RecordTable], bytearray]
) -> Callable[[RecordTable], pa.Array]:
    def make(table: RecordTable) -> pa.Array:
        return pa.Array.from_buffers(
            ARROW_TYPES[name], table.count, [None, pa.py_buffer(fill(table))]
        )

    return make


def _property(name: bytes) -> Callable[[RecordTable], pa.Array]:
    def make(table: RecordTable) -> pa.Array:
        parts = [pa.py_buffer(part) for part in table.property_column(name)]
        return pa.Array.from_buffers(pa.string(), table.count, parts)

    return make


def _filled(
    name: str, fill: Callable[[RecordTable], tuple[bytearray, bytearray]]
) -> Callable[[RecordTable], pa.Array]:
    """Values of any size, none of them null."""

    def make(table: RecordTable) -> pa.Array:
        offsets, data = fill(table)
        return pa.Array.from_buffers(
            ARROW_TYPES[name], table.count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    return make


def _properties(table: RecordTable) -> pa.Array:
    offsets, entries, name_offsets, names, value_offsets, values = table.map_column()
    texts = [
        pa.Array.from_buffers(pa.string(), entries, [None, pa.py_buffer(ends), pa.py_buffer(data)])
        for ends, data in ((name_offsets, names), (value_offsets, values))
    ]
    return pa.MapArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), table.count + 1, [None, pa.py_buffer(offsets)]), *texts
    )


_MAKERS: dict[str, Callable[[RecordTable], pa.Array]] = {
    "queue_id": _fixed("queue_id", lambda table: table.int_column(_QUEUE_ID)),
    "queue_offset": _fixed("queue_offset", lambda table: table.long_column(_QUEUE_OFFSET)),
    "msg_id": _filled("msg_id", RecordTable.id_column),
    "keys": _property(b"KEYS"),
    "tags": _property(b"TAGS"),
    "body": _filled("body", RecordTable.body_column),
    "properties": _properties,
    "born_timestamp": _fixed(
        "born_timestamp", lambda table: table.long_column(_BORN_TIMESTAMP, 1000)
    ),
    "store_timestamp": _fixed("store_timestamp", RecordTable.store_time_column),
    "born_host": _filled("born_host", RecordTable.host_column),
    "reconsume_times": _fixed("reconsume_times", RecordTable.reconsume_column),
    "sys_flag": _fixed("sys_flag", lambda table: table.int_column(_SYS_FLAG)),
    "flag": _fixed("flag", lambda table: table.int_column(_FLAG)),
}


def _split(records: Buffer) -> bytes:
    """The same records, those that hold several messages replaced by one for each."""
    return b"".join(
        message.record
        for record in decode_records(records)
        for message in unwrap_inner_batch(record)
    )
