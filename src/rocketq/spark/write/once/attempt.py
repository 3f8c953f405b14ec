"""One attempt at a partition of a batch, and what it finds of those before it."""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt
from rocketq.message.names import TOOLS_CONSUMER_GROUP, wrap_namespace
from rocketq.message.properties.codec import PropertyName
from rocketq.message.queue import MessageQueue
from rocketq.spark.options import SinkOptions
from rocketq.spark.wire.retry import Retry
from rocketq.spark.write.columns import Rows
from rocketq.spark.write.once.digests import message_digest, row_digests
from rocketq.spark.write.once.lease import Fenced, Lease, Process
from rocketq.spark.write.once.marks import Mark, Marks
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.side_topic import master_of, messages

logger = logging.getLogger(__name__)

_LEASE_WITHIN_S: Final = 120.0
_IN_THE_PIPE_S: Final = 1.0
"""What was sent before a connection was lost is stored by then, or never."""


class Attempt:
    """Belongs to a task's thread; its lease is renewed on the loop of the client."""

    def __init__(self, client: ClientInstance, options: SinkOptions, task: TaskName) -> None:
        self._client = client
        self._options = options
        self._task = task
        self._id = uuid.uuid4().hex
        self._holder = f"{Process.current()}@{self._id}"
        self._tag = task.sink_tag
        self._leases: dict[str, Lease] = {}
        self._marks: dict[str, Marks] = {}
        self._begun: dict[tuple[str, str], Mark] = {}  # broker and topic
        self._last_mark: dict[tuple[str, str], int] = {}
        self._found: dict[str, Counter[bytes]] = {}
        self.prefix = task.attempt_prefix(self._id)

    # Beginning

    def begin(self, queues: Iterable[MessageQueue]) -> None:
        """To be called with the queues of a topic before its first row."""
        queues = list(queues)
        topic = queues[0].topic
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        found: Counter[bytes] = Counter()
        for broker, of_broker in by_broker.items():
            found += self._begun_on(broker, of_broker)
        self._found[topic] = found
        if found:
            logger.info(
                "batch %d, partition %d: %d rows are in %s already",
                *(self._task.batch, self._task.partition, found.total(), topic),
            )

    def _begun_on(self, broker: str, queues: list[MessageQueue]) -> Counter[bytes]:
        """However often it takes within the time for that."""
        retry = Retry(self._options.connection.retry_within_s)
        while True:
            try:
                return loop_thread().run(self._begin(queues[0].topic, broker, queues))
            except RocketqError as error:
                retry.wait(error)

    async def _begin(self, topic: str, broker: str, queues: list[MessageQueue]) -> Counter[bytes]:
        task, marks = self._task, await self._marks_of(broker)
        await self._acquire(broker, topic)
        positions = {queue.queue_id: await self._end(queue) for queue in queues}
        mark = Mark(
            partition=task.partition,
            batch=task.batch,
            topic=topic,
            attempt=self._id,
            holder=self._holder,
            positions=positions,
        )
        place = await marks.append(mark, within_s=self._options.connection.timeout_s)
        self._begun[broker, topic] = mark
        self._last_mark[broker, topic] = place
        earlier = [
            each for _, each in await marks.of_batch(task, topic, place) if each.attempt != self._id
        ]
        later = [each for each in earlier if each.batch > task.batch]
        if later:
            raise Fenced(
                f"batch {task.batch} is over: partition {task.partition} is at {later[0].batch}"
            )
        if not earlier:
            return Counter()
        found: Counter[bytes] = Counter()
        since: dict[int, int] = {}
        for each in earlier:
            for number, at in each.positions.items():
                since[number] = min(at, since.get(number, at))
        for number, at in since.items():
            async for message in self._messages(MessageQueue(topic, broker, number), at):
                found[message_digest(message)] += 1
        return found

    async def _marks_of(self, broker: str) -> Marks:
        if broker not in self._marks:
            marks = Marks(self._client, broker, self._tag, self._options.producer_group)
            await marks.prepare()
            self._marks[broker] = marks
        return self._marks[broker]

    async def _acquire(self, broker: str, topic: str) -> None:
        if broker not in self._leases:
            self._leases[broker] = Lease(
                self._client,
                TOOLS_CONSUMER_GROUP,
                self._marks[broker].place(self._task.partition),
                self._holder,
            )
        lease = self._leases[broker]
        if await lease.ask():
            await lease.acquire(0.0)
            return
        dead = await self._dead_holder(broker, topic)
        await lease.acquire(_LEASE_WITHIN_S, dead_holder=dead)
        await asyncio.sleep(_IN_THE_PIPE_S)

    async def _dead_holder(self, broker: str, topic: str) -> str | None:
        """Who left the last mark, if it is known not to live any more."""
        marks, task = self._marks[broker], self._task
        end = await self._end(marks.place(task.partition))
        left = await marks.of_batch(replace(task, batch=0), topic, end)
        if not left:
            return None
        holder = left[-1][1].holder
        machine, pid, started, _ = [*holder.split("@"), "", "", "", ""][:4]
        process = Process.parse(f"{machine}@{pid}@{started}")
        return holder if process.is_dead() else None

    async def _end(self, queue: MessageQueue) -> int:
        address = self._client.routes.master(queue.broker_name)
        if address is None:
            await self._client.routes.refresh(queue.topic)
            address = self._client.routes.master(queue.broker_name) or ""
        return await self._client.api.max_offset(address, queue)

    async def _messages(self, queue: MessageQueue, since: int) -> AsyncIterator[MessageExt]:
        """The messages of this task's rows, whichever attempt sent them."""
        address = master_of(self._client, queue.broker_name)
        end = await self._client.api.max_offset(address, queue)
        group = wrap_namespace(self._options.connection.namespace, TOOLS_CONSUMER_GROUP)
        async for message in messages(self._client, queue, since, end, group=group):
            key = message.get_property(PropertyName.UNIQUE_KEY) or ""
            if key.startswith(self._task.prefix):
                yield message

    # Rows

    def missing(
        self, topic: str, columns: Mapping[str, pa.Array], rows: Rows | None, count: int
    ) -> Rows | None:
        """Those of these rows that are not there yet. `rows` None means all."""
        found = self._found[topic]
        if not found:
            return rows
        digests = row_digests(columns, count)
        left = []
        for row in range(count) if rows is None else rows.tolist():
            if found[digests[row]]:
                found[digests[row]] -= 1
            else:
                left.append(row)
        self._found[topic] = +found
        return np.array(left, np.int32)

    def finish(self) -> None:
        """Say what earlier attempts have sent that this one has not got."""
        over = sum(found.total() for found in self._found.values())
        if over:
            logger.warning(
                "batch %d, partition %d: %d messages of an earlier attempt are not among the rows "
                "of this one; the query does not give the same rows again",
                *(self._task.batch, self._task.partition, over),
            )

    # Sending

    def check(self, broker: str) -> None:
        """Before every send."""
        self._leases[broker].check()

    def stored(self, topic: str, broker: str) -> set[str]:
        """The unique keys of what this attempt has in a topic there, after a lost connection.

        Raises `Fenced` where another attempt has taken over meanwhile.
        """
        return loop_thread().run(self._stored(topic, broker))

    async def _stored(self, topic: str, broker: str) -> set[str]:
        task, marks = self._task, await self._marks_of(broker)
        begun = self._begun[broker, topic]
        await self._client.routes.refresh(topic)
        await self._acquire(broker, topic)
        await asyncio.sleep(_IN_THE_PIPE_S)
        place = await marks.append(begun, within_s=self._options.connection.timeout_s)
        for at, each in await marks.of_batch(task, topic, place):
            if at > self._last_mark[broker, topic] and each.attempt != self._id:
                raise Fenced(f"another attempt at partition {task.partition} has taken over")
        self._last_mark[broker, topic] = place
        keys: set[str] = set()
        for number, since in begun.positions.items():
            queue = MessageQueue(topic, broker, number)
            async for message in self._messages(queue, since):
                keys.add(message.get_property(PropertyName.UNIQUE_KEY) or "")
        return keys

    def close(self, *, is_done: bool) -> None:
        """Give the leases back; without being done, when nothing can be on its way any more."""
        if not is_done:
            time.sleep(_IN_THE_PIPE_S)
        for lease in self._leases.values():
            lease.release()
