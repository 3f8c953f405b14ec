"""Settings that operators keep in the NameServer: namespace -> key -> value.

The file is RocketMQ's `kvConfig.json`, rewritten whole at every change with the previous one
beside it as `.bak`:

    {"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:8;broker-b:8"}}}
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketq.common import json
from rocketq.common.files import read_with_backup, write_atomically
from rocketq.remoting.bodies.route import KVTable

logger = logging.getLogger(__name__)

# Topic -> "broker:queues;broker:queues", for topics whose queues must not move.
ORDER_TOPIC_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class KvConfigFull(Exception):
    """There is no room for more; the text says how much there is."""


class KvConfig:
    """The table and its file, changed by requests alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table: dict[str, dict[str, str]] = {}
        self._size = 0
        self._encoded: dict[str, bytes] = {}
        self._writing = asyncio.Lock()
        self._next_write: asyncio.Future[None] | None = None

    def load(self) -> None:
        self._table = read_with_backup(self._path, _decode) or {}
        self._size = sum(
            _size(namespace, key, value)
            for namespace, entries in self._table.items()
            for key, value in entries.items()
        )

    async def put(self, namespace: str, key: str, value: str, limit: int) -> None:
        """Set a value, which is on the disk then; `limit` is for names and values in bytes."""
        before = self.get(namespace, key)
        size = self._size + _size(namespace, key, value)
        if before is not None:
            size -= _size(namespace, key, before)
        if size > limit:
            raise KvConfigFull(f"the settings would take {size} bytes; there is room for {limit}")
        self._size = size
        self._table.setdefault(namespace, {})[key] = value
        self._encoded.pop(namespace, None)
        logger.info("%s/%s set", namespace, key)
        await self._save()

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    async def delete(self, namespace: str, key: str) -> None:
        value = self._table.get(namespace, {}).pop(key, None)
        if value is None:
            return
        if not self._table[namespace]:
            del self._table[namespace]
        self._size -= _size(namespace, key, value)
        self._encoded.pop(namespace, None)
        logger.info("%s/%s deleted", namespace, key)
        await self._save()

    def namespace(self, namespace: str) -> Mapping[str, str]:
        return self._table.get(namespace, {})

    def encoded(self, namespace: str) -> bytes | None:
        """A namespace as it is sent, None where it has nothing."""
        table = self._table.get(namespace)
        if not table:
            return None
        text = self._encoded.get(namespace)
        if text is None:
            text = self._encoded[namespace] = KVTable(table=dict(table)).encode()
        return text

    async def _save(self) -> None:
        """Wait until everything up to now is on the disk: one write serves all who wait for it."""
        if self._next_write is None:
            self._next_write = asyncio.ensure_future(self._write())
        await asyncio.shield(self._next_write)

    async def _write(self) -> None:
        async with self._writing:
            self._next_write = None  # what changes from now on needs another
            content = json.dumps({"configTable": self._table})
            await asyncio.to_thread(write_atomically, self._path, content)


def _size(namespace: str, key: str, value: str) -> int:
    """In the file, about; with a little for what each entry costs besides."""
    return 64 + sum(len(text.encode("utf-8", "replace")) for text in (namespace, key, value))


def _decode(text: bytes) -> dict[str, dict[str, str]]:
    table = json.loads(text)["configTable"]
    return {
        namespace: {key: str(value) for key, value in entries.items()}
        for namespace, entries in table.items()
    }
