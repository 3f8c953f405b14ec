"""What the driver does with a batch whose tasks are done: decide, end, done.

    1  the lease of the topic's ledger, on every broker of the topic
    2  a batch that was decided and is not done: what is not visible of it is ended
    3  was this batch decided before? Then it is visible now; these half messages are not needed
    4  otherwise: where the queues end, and which half messages are the batch, is written down
    5  they are ended, and that it is done is written down

Whatever fails in between, it begins again with 1, here or in another process.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.common.errors import RocketqError
from rocketq.message.names import TOOLS_CONSUMER_GROUP, wrap_namespace
from rocketq.message.properties.codec import PropertyName
from rocketq.message.queue import MessageQueue
from rocketq.spark.options import SinkOptions
from rocketq.spark.wire.client import opened
from rocketq.spark.wire.retry import Retry
from rocketq.spark.write.once.lease import Fenced, Lease, Process
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.side_topic import master_of, messages
from rocketq.spark.write.whole.checks import answer_checks
from rocketq.spark.write.whole.ends import Ends, drop
from rocketq.spark.write.whole.ledger import (
    COMMITS_TOPIC,
    DECIDED,
    DONE,
    NOTE,
    Ledger,
    Part,
    Record,
)
from rocketq.spark.write.whole.places import HalfPlace, pack_table, places_of, unpack_table
from rocketq.spark.write.written import Prepared

logger = logging.getLogger(__name__)

_LEASE_WITHIN_S: Final = 120.0
_IN_THE_PIPE_S: Final = 1.0
"""What was sent before a process died or a connection was lost is done by then, or never."""
_PART_ROWS: Final = 100_000


class BatchIsOver(Fenced):
    """The query is at a later batch: this is a driver that was replaced."""


def commit_batch(options: SinkOptions, prepared: Sequence[Prepared]) -> None:
    """Make the rows of these tasks visible, all of them; returns when they are."""
    written = [task for task in prepared if task.places]
    if not written:
        return
    answer_checks(options, written[0].topic)
    loop, opening = loop_thread(), opened(options.connection)
    client = loop.run(opening.__aenter__())
    try:
        Commit(client, options, written).run()
    finally:
        loop.run(opening.__aexit__(None, None, None))


class Commit:
    """The commit of one batch. Belongs to the thread that calls `run`."""

    def __init__(
        self, client: ClientInstance, options: SinkOptions, prepared: Sequence[Prepared]
    ) -> None:
        first = prepared[0]
        self._client = client
        self._options = options
        self._prepared = prepared
        self._topic = first.topic
        self._batch = first.batch
        self._sink = TaskName(sink=first.sink, batch=first.batch, partition=0).sink_tag
        self._group = wrap_namespace(options.connection.namespace, options.producer_group)
        self._attempt = uuid.uuid4().hex
        self._holder = f"{Process.current()}@{self._attempt}"
        self._leases: dict[str, Lease] = {}
        self._within_s = options.connection.timeout_s

    def run(self) -> None:
        """However often it takes within the time for that."""
        retry = Retry(self._options.connection.retry_within_s)
        try:
            while True:
                try:
                    return self._try()
                except BatchIsOver:
                    raise
                except RocketqError as error:
                    # Who has lost the lease may ask for it again: all is looked at anew.
                    retry.wait(error, is_passing=isinstance(error, Fenced))
                    time.sleep(_IN_THE_PIPE_S)
        finally:
            for lease in self._leases.values():
                lease.release()

    def _try(self) -> None:
        run = loop_thread().run
        ledger = run(self._opened())
        left = run(ledger.tail()).left
        if left is not None:
            logger.info("batch %d was decided and left; it is ended now", left.batch)
            self._finish(ledger, left, is_new=False)
        before = run(ledger.last_decided(self._sink))
        if before is not None and before.batch > self._batch:
            raise BatchIsOver(f"batch {self._batch} is over: the query is at {before.batch}")
        if before is not None and before.batch == self._batch:
            if before.attempt != self._attempt:
                logger.info("batch %d was written before, and is not again", self._batch)
                for task in self._prepared:
                    drop(self._client, self._options, task)
            return
        self._finish(ledger, run(self._decide(ledger)), is_new=True)

    # The ledger

    async def _opened(self) -> Ledger:
        """The ledger, with the right to write to it."""
        await self._client.routes.refresh(self._topic)
        await self._client.routes.publish_info(self._topic)
        brokers = sorted({queue.broker_name for queue in await self._queues()})
        ledgers = {broker: self._ledger(broker) for broker in brokers}
        for ledger in ledgers.values():
            await ledger.prepare()
        # Whoever is named; before anybody was, the first.
        lines = {broker: (await ledger.tail()).newest for broker, ledger in ledgers.items()}
        home = min((line.home for line in lines.values() if line is not None), default=brokers[0])
        if home not in ledgers:
            await self._client.routes.refresh(COMMITS_TOPIC)
            ledgers[home] = self._ledger(home)
            lines[home] = (await ledgers[home].tail()).newest
        for broker in sorted(ledgers):
            line = lines[broker]
            await self._acquire(broker, home, "" if line is None else line.holder)
        return ledgers[home]

    def _ledger(self, broker: str) -> Ledger:
        return Ledger(self._client, broker, self._topic, self._group)

    async def _queues(self) -> list[MessageQueue]:
        queues = (await self._client.routes.publish_info(self._topic)).queues
        return list(queues)

    async def _acquire(self, broker: str, home: str, last_holder: str) -> None:
        """Take the lease on a broker, and leave a note there of who has it."""
        ledger = self._ledger(broker)
        if broker not in self._leases:
            self._leases[broker] = Lease(
                self._client, TOOLS_CONSUMER_GROUP, ledger.queue, self._holder
            )
        lease = self._leases[broker]
        if await lease.ask():
            await lease.acquire(0.0)
        else:
            process = Process.parse(last_holder.rpartition("@")[0])
            dead = last_holder if last_holder and process.is_dead() else None
            await lease.acquire(_LEASE_WITHIN_S, dead_holder=dead)
            await asyncio.sleep(_IN_THE_PIPE_S)
        await self._note(broker, home)

    async def _note(self, broker: str, home: str) -> None:
        """Also a barrier: when it can be read, all before it can."""
        note = Record(kind=NOTE, home=home, topic=self._topic, holder=self._holder)
        await self._ledger(broker).append(note, within_s=self._within_s)

    def _check(self) -> None:
        for lease in self._leases.values():
            lease.check()

    async def _decide(self, ledger: Ledger) -> Record:
        """Write down what the batch is."""
        places: list[int] = []
        for number, task in enumerate(self._prepared):
            for broker, packed in task.places.items():
                table = unpack_table(packed)
                for at in range(0, len(table), _PART_ROWS):
                    part = Part(number, broker, pack_table(table[at : at + _PART_ROWS]))
                    self._check()
                    places.append(await ledger.append_part(part, within_s=self._within_s))
        record = Record(
            kind=DECIDED,
            home=ledger.queue.broker_name,
            topic=self._topic,
            sink=self._sink,
            batch=self._batch,
            attempt=self._attempt,
            holder=self._holder,
            group=self._group,
            before=await self._ends(await self._queues()),
            tasks=[(task.prefix, task.is_ordered) for task in self._prepared],
            parts=places,
        )
        self._check()
        await ledger.append(record, within_s=self._within_s)
        return record

    # The rows

    def _finish(self, ledger: Ledger, decided: Record, *, is_new: bool) -> None:
        """Make visible what was decided, and write down that it is."""
        run, home = loop_thread().run, decided.home
        parts = self._parts() if is_new else run(self._parts_of(ledger, decided))
        by_broker: dict[str, list[Part]] = {}
        for part in parts:
            by_broker.setdefault(part.broker, []).append(part)
        visible = frozenset() if is_new else run(self._visible(decided, home, by_broker))
        for broker, of_broker in by_broker.items():
            ends = Ends(self._client, self._options, broker, self._topic, decided.group)
            try:
                ends.commit(_missing(decided, of_broker, visible), self._check)
            finally:
                ends.close()
        run(self._done(ledger, decided, by_broker))

    def _parts(self) -> list[Part]:
        return [
            Part(number, broker, packed)
            for number, task in enumerate(self._prepared)
            for broker, packed in task.places.items()
        ]

    async def _parts_of(self, ledger: Ledger, decided: Record) -> list[Part]:
        return [await ledger.part(place) for place in decided.parts]

    async def _visible(self, decided: Record, home: str, brokers: Iterable[str]) -> frozenset[str]:
        """The unique keys of the rows that can be seen already."""
        for broker in sorted({*brokers, *decided.before}):
            if broker in self._leases:
                await self._note(broker, home)
            else:
                await self._acquire(broker, home, "")
        prefixes = tuple(prefix for prefix, _ in decided.tasks)
        group = wrap_namespace(self._options.connection.namespace, TOOLS_CONSUMER_GROUP)
        found = set()
        for broker, queues in decided.before.items():
            address = master_of(self._client, broker)
            for number, since in queues.items():
                queue = MessageQueue(self._topic, broker, int(number))
                end = await self._client.api.max_offset(address, queue)
                async for message in messages(self._client, queue, since, end, group=group):
                    key = message.get_property(PropertyName.UNIQUE_KEY) or ""
                    if key.startswith(prefixes):
                        found.add(key)
        return frozenset(found)

    async def _done(self, ledger: Ledger, decided: Record, brokers: Iterable[str]) -> None:
        # Brokers acknowledge what cannot be read yet: the ends are asked for behind a barrier.
        for broker in {*brokers, *decided.before}:
            await self._note(broker, decided.home)
        queues = [
            MessageQueue(self._topic, broker, int(number))
            for broker, numbers in decided.before.items()
            for number in numbers
        ]
        after = await self._ends(queues)
        done = replace(decided, kind=DONE, holder=self._holder, after=after, tasks=[], parts=[])
        self._check()
        await ledger.append(done, within_s=self._within_s)

    async def _ends(self, queues: Iterable[MessageQueue]) -> dict[str, dict[str, int]]:
        async def end(queue: MessageQueue) -> int:
            address = master_of(self._client, queue.broker_name)
            return await self._client.api.max_offset(address, queue)

        wanted = list(queues)
        out: dict[str, dict[str, int]] = {}
        for queue, offset in zip(
            wanted, await asyncio.gather(*(end(queue) for queue in wanted)), strict=True
        ):
            out.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
        return out


def _missing(
    decided: Record, parts: Iterable[Part], visible: frozenset[str]
) -> Iterator[HalfPlace]:
    for part in parts:
        prefix, is_ordered = decided.tasks[part.task]
        for half in places_of(part.packed, prefix, is_ordered=is_ordered):
            if half.key not in visible:
                yield half
