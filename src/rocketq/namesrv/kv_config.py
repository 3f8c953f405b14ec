"""Settings that operators keep in the NameServer: namespace -> key -> value.

The file is RocketMQ's `kvConfig.json`, rewritten whole at every change with the previous one
beside it as `.bak`:

    {"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:8;broker-b:8"}}}
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketq.common import json
from rocketq.common.files import read_with_backup, write_atomically

logger = logging.getLogger(__name__)

# Topic -> "broker:queues;broker:queues", for topics whose queues must not move.
ORDER_TOPIC_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class KvConfig:
    """The table and its file, changed by requests alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        self._table = read_with_backup(self._path, _decode) or {}

    def put(self, namespace: str, key: str, value: str) -> None:
        self._table.setdefault(namespace, {})[key] = value
        logger.info("%s/%s set", namespace, key)
        self._save()

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        if self._table.get(namespace, {}).pop(key, None) is not None:
            logger.info("%s/%s deleted", namespace, key)
        self._save()

    def namespace(self, namespace: str) -> Mapping[str, str]:
        return self._table.get(namespace, {})

    def _save(self) -> None:
        write_atomically(self._path, json.dumps({"configTable": self._table}))


def _decode(text: bytes) -> dict[str, dict[str, str]]:
    table = json.loads(text)["configTable"]
    return {
        namespace: {key: str(value) for key, value in entries.items()}
        for namespace, entries in table.items()
    }
