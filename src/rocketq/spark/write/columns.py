"""The columns of a table on its way to brokers, in the forms the encoder takes.

Arrow keeps a column in a few buffers, which `rocketq.spark.write.encoder` reads. What the table
gives in another form is brought into shape here, a column at a time.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketq.spark.write.encoder import Numbers, Texts, UnfitRow

Rows = npt.NDArray[np.int32]
"""Places in a record batch, in order."""


def with_own_names(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Kafka's names replaced by ours. There, rows with one key go to one place in order."""
    if "value" in columns:
        columns["body"] = columns.pop("value")
    if "key" in columns:
        columns["keys"] = _text(columns.pop("key"))
        columns.setdefault("sharding_key", columns["keys"])
    return columns


def _text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        raise UnfitRow(_first_not_text(keys), "the key is not text in UTF-8") from None


def _first_not_text(values: pa.Array) -> int:
    for row, value in enumerate(values.to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return row
    return 0


def texts(column: pa.Array) -> Texts:
    """A column of strings or bytes."""
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


def optional_texts(column: pa.Array | None) -> Texts | None:
    return None if column is None else texts(column)


def joined(column: pa.Array | None) -> pa.Array | None:
    """Keys: a list of them becomes one text, as RocketMQ has it."""
    if column is None or not pa.types.is_list(column.type):
        return column
    return pc.binary_join(column, " ")


def numbers(column: pa.Array | None) -> Numbers | None:
    """A column of numbers; null is 0."""
    if column is None:
        return None
    filled = pc.fill_null(column, 0).cast(pa.int32())
    return Numbers(filled.to_numpy(zero_copy_only=False).data)


def map_parts(column: pa.Array | None) -> tuple[Numbers, Texts, Texts] | None:
    """A map: where the entries of each row begin and end, their names, their values."""
    if column is None:
        return None
    if column.null_count:
        # The offsets of a null map may enclose entries that nobody sees.
        column = pc.if_else(column.is_valid(), column, pa.scalar([], column.type))
    ends = Numbers(np.ascontiguousarray(column.offsets.to_numpy(zero_copy_only=False)).data)
    return ends, texts(column.keys), texts(column.items)


def by_value(column: pa.Array | None, rows: Rows | None) -> Iterator[tuple[Any, Rows | None]]:
    """Rows by the value they have in a column, each group in the rows' order.

    `rows` None: all of them.
    """
    if column is None:
        yield None, rows
        return
    if rows is not None:
        column = column.take(pa.array(rows))
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    values = encoded.dictionary.to_pylist()
    if len(values) == 1:
        yield values[0], rows
        return
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable").astype(np.int32)
    edges = np.searchsorted(codes[order], np.arange(len(values) + 1))
    for code, value in enumerate(values):
        group = order[edges[code] : edges[code + 1]]
        if len(group):
            yield value, group if rows is None else rows[group]


def queue_numbers(sharding: pa.Array, count: int) -> pa.Array:
    """The number of the queue of each row's key, by Java's hash, as Java's clients choose it."""
    hashes = np.frombuffer(texts(sharding).java_hashes(len(sharding)), np.int32)
    # The smallest number has no opposite of its size.
    chosen = np.abs(hashes.astype(np.int64)) % count
    is_null = sharding.is_null().to_numpy(zero_copy_only=False)
    return pa.array(chosen.astype(np.int32), mask=is_null)
