"""How far a group has consumed each queue, and where that is kept.

In memory first, for both kinds; every few seconds it is written out:

    clustering     at the queue's broker, shared by the group
    broadcasting   in a file of this client, `<root>/<client id>/<group>/offsets.json`

The file is RocketMQ's own: JSON with objects as keys, indented by tabs, the value being the next
offset to consume. The content before the last write is kept beside it in `offsets.json.bak`.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.outages import is_outage
from rocketq.client.cluster.routes import BrokerAddress
from rocketq.client.errors import BrokerRejected
from rocketq.common import json
from rocketq.common.errors import RocketqError
from rocketq.common.files import read_with_backup, write_atomically
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import ResponseCode

logger = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Where a consumer keeps its offsets. `None` stands for "nothing is known"."""

    async def load(self) -> None:
        """Read what must be known before consumption starts."""
        ...

    def get(self, queue: MessageQueue) -> int | None:
        """The offset in memory."""
        ...

    async def read(self, queue: MessageQueue) -> int | None:
        """The offset as it is stored; raises when the store cannot be asked."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, only_forward: bool = False) -> None:
        """Note progress."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """The queue is no longer ours."""
        ...

    async def persist(
        self, queues: Collection[MessageQueue], *, acknowledged: bool = False
    ) -> None:
        """Write these queues' offsets out; `acknowledged` waits for the brokers' answers."""
        ...

    def snapshot(self, topic: str | None = None) -> dict[MessageQueue, int]:
        """What is in memory."""
        ...


class OffsetTable:
    """The part in memory."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int, *, only_forward: bool = False) -> None:
        if only_forward and offset <= self._offsets.get(queue, -1):
            return
        self._offsets[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)

    def snapshot(self, topic: str | None = None) -> dict[MessageQueue, int]:
        return {
            queue: offset
            for queue, offset in self._offsets.items()
            if topic is None or queue.topic == topic
        }


class RemoteOffsetStore(OffsetTable):
    """Offsets at the brokers, for a group whose members share the queues."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        super().__init__()
        self._instance = instance
        self._group = group
        self._refused: set[MessageQueue] = set()

    async def load(self) -> None:
        """Nothing: offsets are read queue by queue when they are assigned."""

    async def read(self, queue: MessageQueue) -> int | None:
        return await self._instance.ask_broker_of(
            queue,
            lambda broker: self._instance.api.query_offset(broker.address, self._group, queue),
        )

    async def persist(
        self, queues: Collection[MessageQueue], *, acknowledged: bool = False
    ) -> None:
        known = [queue for queue in queues if queue in self._offsets]
        results = await asyncio.gather(
            *(self._send(queue, self._offsets[queue], acknowledged) for queue in known),
            return_exceptions=True,
        )
        for queue, result in zip(known, results, strict=True):
            if isinstance(result, RocketqError):
                # Said once: it is tried again every few seconds.
                is_known = queue in self._refused or is_outage(result)
                level = logging.DEBUG if is_known else logging.WARNING
                self._refused.add(queue)
                logger.log(level, "the offset of %s was not taken by its broker: %s", queue, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                self._refused.discard(queue)

    async def _send(self, queue: MessageQueue, offset: int, acknowledged: bool) -> None:
        update = self._instance.api.update_offset

        async def tell(broker: BrokerAddress) -> None:
            try:
                await update(broker.address, self._group, queue, offset, oneway=not acknowledged)
            except BrokerRejected as error:
                if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    raise
                # It has not heard of the group yet: a heartbeat introduces it.
                await self._instance.heartbeat()
                await update(broker.address, self._group, queue, offset, oneway=False)

        # The master; a slave only while the master is away.
        await self._instance.ask_broker_of(queue, tell)


class LocalOffsetStore(OffsetTable):
    """Offsets in a file of this client, for consumers that each get everything."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._stored: dict[MessageQueue, int] = {}
        self._written: dict[MessageQueue, int] = {}
        self._writing = asyncio.Lock()

    @classmethod
    def of(cls, root: str | Path | None, client_id: str, group: str) -> "LocalOffsetStore":
        """The file RocketMQ would use; `root` is `~/.rocketmq_offsets` unless given."""
        folder = Path.home() / ".rocketmq_offsets" if root is None else Path(root)
        return cls(folder / client_id / group / "offsets.json")

    async def load(self) -> None:
        stored = await asyncio.to_thread(read_with_backup, self._path, decode_offsets)
        self._stored = stored or {}
        self._written = dict(self._stored)

    async def read(self, queue: MessageQueue) -> int | None:
        return self._stored.get(queue)

    async def persist(
        self, queues: Collection[MessageQueue], *, acknowledged: bool = False
    ) -> None:
        for queue in queues:
            if queue in self._offsets:
                self._stored[queue] = self._offsets[queue]
        async with self._writing:
            if self._stored == self._written:
                return
            table = dict(self._stored)
            await asyncio.to_thread(write_atomically, self._path, encode_offsets(table))
            self._written = table


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The local file's content.

    Written by hand: it is not JSON (its keys are objects), and RocketMQ's own clients have to
    find what they expect, blanks and all.
    """
    entries = ",".join(
        f'{{\n\t\t\t"brokerName":{_text(queue.broker_name)},\n\t\t\t"queueId":{queue.queue_id},\n'
        f'\t\t\t"topic":{_text(queue.topic)}\n\t\t}}:{offset}'
        for queue, offset in offsets.items()
    )
    table = f"{{{entries}\n\t}}" if entries else "{}"
    return f'{{\n\t"offsetTable":{table}\n}}'.encode()


def decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Read the local file, as this package or any RocketMQ client wrote it."""
    table = json.loads(data)["offsetTable"]
    return {
        MessageQueue(key["topic"], key["brokerName"], int(key["queueId"])): int(offset)
        for key, offset in _items(table)
    }


def _items(table: Mapping[object, object]) -> Iterable[tuple[Mapping[str, str], str]]:
    return table.items()  # type: ignore[return-value]  # checked by the conversions above


def _text(value: str) -> str:
    return json.dumps(value).decode()
