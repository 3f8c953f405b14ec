"""What a row says, as a digest: the same for the row and for the message it became.

Rows of a retried task may come in another order, so they are told apart by what they say: body,
flag, tags, keys, sharding key and properties. Only attempts that are not the first pay for it.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import SYSTEM_PROPERTIES, PropertyName
from rocketq.spark.write.once.task_name import BATCH_PROPERTY


def message_digest(message: MessageExt) -> bytes:
    """Of a message as a broker has it."""
    properties = message.properties
    return _digest(
        message.body,
        message.flag,
        properties.get(PropertyName.TAGS),
        properties.get(PropertyName.KEYS),
        properties.get(PropertyName.SHARDING_KEY),
        properties,
    )


def row_digests(columns: Mapping[str, pa.Array], count: int) -> list[bytes]:
    """Of the rows of a table; `keys` already one text."""
    values: dict[str, list[Any]] = {
        name: columns[name].to_pylist() if name in columns else [None] * count
        for name in ("body", "flag", "tags", "keys", "sharding_key", "properties")
    }
    return [
        _digest(_bytes(body), flag or 0, tags, keys, sharding, dict(properties or ()))
        for body, flag, tags, keys, sharding, properties in zip(*values.values(), strict=True)
    ]


def _bytes(body: bytes | str | None) -> bytes:
    return body.encode() if isinstance(body, str) else body or b""


def _digest(
    body: bytes,
    flag: int,
    tags: str | None,
    keys: str | None,
    sharding_key: str | None,
    properties: Mapping[str, str | None],
) -> bytes:
    out = hashlib.blake2b(digest_size=16)
    own = sorted(
        (name, value)
        for name, value in properties.items()
        if name and value and name not in SYSTEM_PROPERTIES and name != BATCH_PROPERTY
    )
    _add(out, [str(flag), tags or "", keys or "", sharding_key or ""])
    _add(out, (text for pair in own for text in pair))
    out.update(body)
    return out.digest()


def _add(out: "hashlib.blake2b", texts: Iterable[str]) -> None:
    for text in texts:
        encoded = text.encode()
        out.update(len(encoded).to_bytes(4, "big"))
        out.update(encoded)
    out.update(b"\xff\xff\xff\xff")
