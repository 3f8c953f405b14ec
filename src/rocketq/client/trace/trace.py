"""Message trace: producers and consumers record what happens to messages in a topic.

Records (`records.py`) are collected and sent in the background, several in a message,
by a producer of its own that is never traced itself. Tracing never holds up the traced:
with 2048 records waiting, further ones are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable
from typing import Final, Protocol

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.hooks import ConsumeContext, EndTransactionContext, SendContext
from rocketq.client.trace.records import (
    CONTEXT_CODES,
    TRANSACTION_COMMIT,
    EndTransaction,
    Pub,
    SubAfter,
    SubBefore,
    TraceRecord,
    encode_record,
)
from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.message.message import Message
from rocketq.message.names import TRACE_TOPIC
from rocketq.message.properties.codec import PropertyName

logger = logging.getLogger(__name__)

PRODUCE: Final = "PRODUCE"
CONSUME: Final = "CONSUME"
_GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
_WAITING_MAX: Final = 2048
_RECORDS_PER_MESSAGE: Final = 20
_BODY_MAX: Final = 128_000
_LINGER_S: Final = 0.5
_CLOSE_WITHIN_S: Final = 3.0


class RecordSender(Protocol):
    """The producer that records are sent with."""

    async def send(self, message: Message) -> object: ...

    async def close(self) -> None: ...


def trace_group(group: str, kind: str) -> str:
    """The producer group that traces a group; `kind` is PRODUCE or CONSUME."""
    return f"{_GROUP_PREFIX}-{group}-{kind}"


class Trace:
    """Collects and sends the records of one producer or consumer."""

    def __init__(
        self, instance: ClientInstance, producer: RecordSender, *, topic: str = TRACE_TOPIC
    ) -> None:
        """`producer` is the trace's own from now on."""
        self._instance = instance
        self._producer = producer
        self._topic = topic
        self._waiting: list[tuple[TraceRecord, str]] = []
        self._has_waiting = asyncio.Event()
        self._stop = asyncio.Event()
        self._dropped = 0
        self._task = asyncio.create_task(self._run(), name="rocketq trace")

    async def close(self) -> None:
        """Send what is waiting, then stop."""
        self._stop.set()
        self._has_waiting.set()
        _, late = await asyncio.wait([self._task], timeout=_CLOSE_WITHIN_S)
        if late:
            self._task.cancel()
            logger.warning("trace records lost: they were not sent within %g s", _CLOSE_WITHIN_S)
        await self._producer.close()
        if self._dropped:
            logger.warning("%d trace records were dropped", self._dropped)

    # Hooks

    def before(self, context: SendContext | ConsumeContext) -> None:
        """Called before a send or before a listener."""
        if isinstance(context, ConsumeContext):
            self._before_consume(context)

    def after(self, context: SendContext | ConsumeContext) -> None:
        """Called after a send or after a listener."""
        if isinstance(context, ConsumeContext):
            self._after_consume(context)
        else:
            self._after_send(context)

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Called when a half message is settled."""
        message = context.message
        self._record(
            EndTransaction(
                time_ms=self._instance.clock.now_ms(),
                region="",
                group=context.group,
                topic=message.topic,
                msg_id=context.msg_id,
                tags=message.tags or "",
                keys=" ".join(message.keys),
                store_host=context.address,
                message_type=TRANSACTION_COMMIT,
                transaction_id=context.transaction_id,
                state=context.state,
                from_check=context.from_check,
            ),
            context.msg_id,
            message.keys,
        )

    def _after_send(self, context: SendContext) -> None:
        result = context.result
        message = context.message
        if message.topic == self._topic or (result is not None and not result.trace_on):
            return
        self._record(
            Pub(
                time_ms=context.began_ms,
                region=result.region_id if result is not None else "",
                group=context.group,
                topic=message.topic,
                msg_id=context.msg_id,
                tags=message.tags or "",
                keys=" ".join(message.keys),
                store_host=context.address,
                body_length=context.body_size,
                cost_ms=round(context.elapsed_ms),
                message_type=context.message_type,
                offset_msg_id=result.offset_msg_id if result is not None else "",
                success=result is not None,
            ),
            context.msg_id,
            message.keys,
        )

    def _before_consume(self, context: ConsumeContext) -> None:
        request_id = uuid.uuid4().hex.upper()
        began_ms = self._instance.clock.now_ms()
        context.state["trace"] = (request_id, began_ms)
        for message in context.messages:
            if message.get_property(PropertyName.TRACE_SWITCH) == "false":
                continue
            self._record(
                SubBefore(
                    time_ms=began_ms,
                    region=message.get_property(PropertyName.MSG_REGION) or "",
                    group=context.group,
                    request_id=request_id,
                    msg_id=message.msg_id,
                    retry_times=message.reconsume_times,
                    keys=" ".join(message.keys),
                ),
                message.msg_id,
                message.keys,
            )

    def _after_consume(self, context: ConsumeContext) -> None:
        traced = context.state.get("trace")
        if not isinstance(traced, tuple) or not context.messages:
            return
        request_id, began_ms = traced
        now_ms = self._instance.clock.now_ms()
        cost_ms = (now_ms - began_ms) // len(context.messages)
        for message in context.messages:
            if message.get_property(PropertyName.TRACE_SWITCH) == "false":
                continue
            self._record(
                SubAfter(
                    request_id=request_id,
                    msg_id=message.msg_id,
                    cost_ms=cost_ms,
                    success=context.success,
                    keys=" ".join(message.keys),
                    context_code=CONTEXT_CODES.get(context.status, 0),
                    time_ms=now_ms,
                    group=context.group,
                ),
                message.msg_id,
                message.keys,
            )

    # Sending

    def _record(self, record: TraceRecord, msg_id: str, keys: Iterable[str]) -> None:
        if len(self._waiting) >= _WAITING_MAX:
            self._dropped += 1
            return
        self._waiting.append((record, " ".join([msg_id, *keys])))
        self._has_waiting.set()

    async def _run(self) -> None:
        stopping = False
        while not stopping:
            await self._has_waiting.wait()
            stopping = await asked_to_stop(self._stop, within_s=_LINGER_S)
            try:
                await self._send(self._take())
            except RocketqError as error:
                logger.warning("trace records lost: %s", error)

    def _take(self) -> list[tuple[TraceRecord, str]]:
        taken, self._waiting = self._waiting, []
        self._has_waiting.clear()
        return taken

    async def _send(self, records: list[tuple[TraceRecord, str]]) -> None:
        body = ""
        keys: dict[str, None] = {}
        count = 0
        for record, ids in records:
            text = encode_record(record)
            if count and (count == _RECORDS_PER_MESSAGE or len(body) + len(text) > _BODY_MAX):
                await self._producer.send(Message(self._topic, body.encode(), keys=list(keys)))
                body, keys, count = "", {}, 0
            body += text
            keys.update(dict.fromkeys(ids.split()))
            count += 1
        if body:
            await self._producer.send(Message(self._topic, body.encode(), keys=list(keys)))
