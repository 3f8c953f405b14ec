"""What the tests of the store share."""

import json
import tarfile
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from rocketq.filter import MessageFilter
from rocketq.message.message import MessageExt
from rocketq.message.record.reader import decode_records
from rocketq.store import GetStatus, MessageInner, MessageStore, StoreConfig
from rocketq.store.errors import QueueUnavailable

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "stores"

HOST: Final = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def small_config(root: Path, **settings: Any) -> StoreConfig:
    """Files so small that a few messages fill them."""
    values: dict[str, Any] = {
        "store_path_root_dir": str(root),
        "mapped_file_size_commit_log": 16_384,
        "mapped_file_size_consume_queue": 400,
        "max_hash_slot_num": 16,
        "max_index_num": 64,
        "disk_space_warning_level_ratio": 90,
    }
    return StoreConfig(**(values | settings))


def message(
    body: bytes = b"body",
    *,
    topic: str = "orders",
    queue_id: int = 0,
    tags: str | None = None,
    keys: str | None = None,
    unique_key: str | None = None,
    properties: bytes = b"",
    **fields: Any,
) -> MessageInner:
    encoded = properties
    for name, value in (("TAGS", tags), ("KEYS", keys), ("UNIQ_KEY", unique_key)):
        if value is not None:
            encoded += f"{name}\x01{value}\x02".encode()
    return MessageInner(
        topic=topic,
        queue_id=queue_id,
        body=body,
        properties=encoded,
        born_host=HOST,
        store_host=HOST,
        **fields,
    )


def read_queue(
    store: MessageStore,
    topic: str = "orders",
    queue_id: int = 0,
    offset: int | None = None,
    message_filter: MessageFilter | None = None,
) -> list[MessageExt]:
    """Every message of a queue, as a consumer would get them."""
    at = max(0, store.min_offset(topic, queue_id)) if offset is None else offset
    found: list[MessageExt] = []
    while True:
        result = store.get(topic, queue_id, at, 7, 0, message_filter)
        for buffer in result.buffers:
            found += decode_records(buffer)
        if result.next_offset <= at or result.status in (
            GetStatus.OFFSET_OVERFLOW_ONE,
            GetStatus.OFFSET_OVERFLOW_BADLY,
        ):
            return found
        at = result.next_offset


def bodies(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in read_queue(store, topic, queue_id)]


async def read_when_whole(
    store: MessageStore, topic: str = "orders", queue_id: int = 0
) -> list[MessageExt]:
    """Every message of a queue, which may be damaged: it is waited for while it is mended."""
    while True:
        try:
            found = read_queue(store, topic, queue_id)
            if not store._queues.mending:
                return found
        except QueueUnavailable:
            pass
        await store.mended()


def read_everything(store: MessageStore) -> dict[tuple[str, int], list[bytes]]:
    """Bodies by queue."""
    return {
        (topic, queue_id): bodies(store, topic, queue_id)
        for topic in store.topics()
        for queue_id in store.queues(topic)
    }


class Golden:
    """A store that a Java broker wrote, and what that broker says is in it."""

    def __init__(self, name: str, root: Path) -> None:
        self.root = root
        self.manifest: dict[str, Any] = json.loads((GOLDEN / name / "manifest.json").read_text())
        with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
            archive.extractall(root, filter="data")

    @property
    def config(self) -> StoreConfig:
        settings = self.manifest["settings"]
        return StoreConfig(
            store_path_root_dir=str(self.root),
            mapped_file_size_commit_log=settings["mappedFileSizeCommitLog"],
            mapped_file_size_consume_queue=settings["mappedFileSizeConsumeQueue"],
            max_hash_slot_num=settings["maxHashSlotNum"],
            max_index_num=settings["maxIndexNum"],
        )

    def queues(self) -> Iterator[tuple[str, int, int, int]]:
        """(topic, queue id, min offset, max offset) of each queue."""
        for topic, queues in self.manifest["queues"].items():
            for queue_id, offsets in queues.items():
                yield topic, int(queue_id), offsets["min"], offsets["max"]


@asynccontextmanager
async def reopened(config: StoreConfig, **arguments: Any) -> Any:
    async with MessageStore(config, **arguments) as store:
        yield store
