"""What one task of a write does: rows into batches, batches to brokers, answers awaited.

A bounded number of requests is under way at any time. Rows with a sharding key go to its queue
one request after another, so that they keep their order; all others go to the queues in turn.
"""

import hashlib
import uuid
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.common.errors import RocketqError
from rocketq.message.properties.codec import SYSTEM_PROPERTIES
from rocketq.message.queue import MessageQueue
from rocketq.spark.options import EXACTLY_ONCE, TRANSACTIONAL, SinkOptions
from rocketq.spark.run.worker_memory import prepare_memory
from rocketq.spark.wire.client import opened
from rocketq.spark.wire.tally import WRITTEN, Tally
from rocketq.spark.write.columns import (
    Rows,
    by_value,
    joined,
    map_parts,
    numbers,
    optional_texts,
    queue_numbers,
    texts,
    with_own_names,
)
from rocketq.spark.write.encoder import BatchRows, Numbers, UnfitRow
from rocketq.spark.write.once.attempt import Attempt
from rocketq.spark.write.once.task_name import BATCH_PROPERTY, TaskName
from rocketq.spark.write.sender import Batch, BatchSender
from rocketq.spark.write.whole.halves import HalfSender
from rocketq.spark.write.written import Written

RESERVED = frozenset(name.encode() for name in {*SYSTEM_PROPERTIES, BATCH_PROPERTY})
"""Properties that brokers and clients give a meaning to: those of the map are left out."""


class WriteFailed(RocketqError):
    """A row or a batch was not taken."""


def write_rows(
    options: SinkOptions,
    task: TaskName,
    batches: Iterator[pa.RecordBatch],
    *,
    queue: int | None = None,
) -> Written:
    """Send the rows of one task. `task` names it: the same again after a failure.

    With `queue` all rows go to one queue in order; the number chooses among those there are.
    """
    prepare_memory()
    loop = loop_thread()
    opening = opened(options.connection)
    client = loop.run(opening.__aenter__())
    attempt, prefix = None, prefix_of(task)
    sender: BatchSender
    if options.delivery == TRANSACTIONAL:
        prefix = task.attempt_prefix(uuid.uuid4().hex)
        sender = HalfSender(client, options, task, prefix)
    else:
        if options.delivery == EXACTLY_ONCE:
            attempt = Attempt(client, options, task)
            prefix = attempt.prefix
        sender = BatchSender(client, options, attempt)
    is_done = False
    try:
        writer = RowWriter(options, sender, prefix)
        writer.attempt = attempt
        writer.queue = queue
        tally, told = Tally(WRITTEN), 0
        for batch in batches:
            sender.collect()
            writer.write(batch)
            tally.add(batch.num_rows, writer.bytes - told)
            told = writer.bytes
        sender.finish()
        tally.tell()
        if attempt is not None:
            attempt.finish()
        is_done = True
        if isinstance(sender, HalfSender):
            return sender.prepared(writer.messages, writer.bytes)
        return Written(writer.messages, writer.bytes)
    finally:
        sender.close()
        if attempt is not None:
            attempt.close(is_done=is_done)
        if isinstance(sender, HalfSender) and not is_done:
            sender.give_up()
        loop.run(opening.__aexit__(None, None, None))


def prefix_of(task: TaskName) -> bytes:
    """What the unique keys of a task's rows begin with, the same in every attempt."""
    origin = f"{task.sink}/{task.batch}/{task.partition}"
    return hashlib.blake2b(origin.encode(), digest_size=12).hexdigest().upper().encode()


class RowWriter:
    """The sends of one task."""

    def __init__(self, options: SinkOptions, sender: BatchSender, prefix: bytes) -> None:
        self._options = options
        self._sender = sender
        self._prefix = prefix
        self._last_of: dict[MessageQueue, Batch] = {}
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._turn = 0
        self.attempt: Attempt | None = None
        self.queue: int | None = None  # where all rows go
        self.messages = 0
        self.bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Send one record batch's rows, topic by topic."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        try:
            columns = with_own_names(columns)
        except UnfitRow as error:
            raise WriteFailed(f"row {self.messages + error.row}: {error}") from None
        sharding = columns.get("sharding_key")
        if sharding is not None:
            sharding = sharding.cast(pa.string())
        rows = BatchRows(
            batch.num_rows,
            texts(columns["body"]),
            optional_texts(columns.get("tags")),
            optional_texts(joined(columns.get("keys"))),
            optional_texts(sharding),
            map_parts(columns.get("properties")),
            numbers(columns.get("flag")),
            RESERVED,
            self._prefix,
            self.messages,
        )
        for topic, of_topic in self._by_topic(columns.get("topic")):
            if self.attempt is not None:
                wire_topic = self._queues_of(topic)[0].topic
                shown = {**columns, "keys": joined(columns.get("keys")), "sharding_key": sharding}
                present = {name: column for name, column in shown.items() if column is not None}
                of_topic = self.attempt.missing(wire_topic, present, of_topic, batch.num_rows)
                if of_topic is not None and not len(of_topic):
                    continue
            for delay, of_level in by_value(columns.get("delay_level"), of_topic):
                self._send(topic, rows, of_level, sharding, int(delay or 0))
        self.messages += batch.num_rows

    def _by_topic(self, column: pa.Array | None) -> Iterator[tuple[str, Rows | None]]:
        if self._options.topic is not None:
            yield self._options.topic, None
            return
        for topic, rows in by_value(column, None):
            if not topic:
                row = 0 if rows is None else int(rows[0])
                raise WriteFailed(f"row {self.messages + row}: the topic is null or empty")
            yield topic, rows

    def _send(
        self,
        topic: str,
        rows: BatchRows,
        chosen: Rows | None,
        sharding: pa.Array | None,
        delay_level: int,
    ) -> None:
        if self.queue is not None:
            queues = self._queues_of(topic)
            only = queues[self.queue % len(queues)]
            self._send_run(topic, rows, chosen, only, delay_level)
            return
        if sharding is None:
            self._send_run(topic, rows, chosen, None, delay_level)
            return
        queues = self._queues_of(topic)
        if chosen is None:
            chosen = np.arange(rows.count, dtype=np.int32)
        for number, of_queue in by_value(queue_numbers(sharding, len(queues)), chosen):
            # Rows without a key go anywhere.
            queue = None if number is None else queues[number]
            self._send_run(topic, rows, of_queue, queue, delay_level)

    def _send_run(
        self,
        topic: str,
        rows: BatchRows,
        chosen: Rows | None,
        queue: MessageQueue | None,
        delay_level: int,
    ) -> None:
        """Cut rows into requests and send them."""
        places = None if chosen is None else Numbers(np.ascontiguousarray(chosen).data)
        at, end = 0, rows.count if places is None else places.count
        # Brokers take no delay for batches: such rows go one by one.
        most = self._options.batch_messages if delay_level <= 0 else 1
        while at < end:
            try:
                body, after = rows.encode(places, at, self._options.batch_bytes, most)
            except UnfitRow as error:
                raise WriteFailed(
                    f"row {self.messages + error.row} for topic {topic!r}: {error}"
                ) from None
            if queue is None:
                queues = self._queues_of(topic)
                target = queues[self._turn % len(queues)]
                self._turn += 1
                batch = Batch(target, body, after - at, False, delay_level)
            else:
                batch = Batch(queue, body, after - at, True, delay_level)
                before = self._last_of.get(queue)
                if before is not None and self._sender.waits_for_order:
                    self._sender.wait(before)
                self._last_of[queue] = batch
            self._sender.send(batch)
            self.bytes += len(body)
            at = after

    def _queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = self._sender.queues(topic)
            if self.attempt is not None:
                # In this order: a broker that restarts behind it breaks the connection.
                self._sender.connect(queues)
                self.attempt.begin(queues)
        return queues
