"""The requests of a consumer that pops: to take, to acknowledge, to keep longer, to wait.

They go to masters only: whatever is popped or acknowledged is written down there.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Coroutine, Iterable
from typing import Any, Final, NamedTuple

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.pop.batches import BIT_SET_SPAN, batch_acks
from rocketq.client.consumer.pop.popped import popped_messages
from rocketq.client.consumer.pop.receipt import PopReceipt
from rocketq.client.consumer.subscription import Subscription
from rocketq.client.errors import BrokerUnknown
from rocketq.message.message import MessageExt
from rocketq.message.names import wrap_namespace
from rocketq.message.pop_topics import real_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.assignment import BatchAckRequest
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    Notification,
    NotificationResponse,
    PopMessage,
    PopMessageResponse,
)

ALL_QUEUES: Final = -1
MOST_PER_POP: Final = 32

_ANSWER_S: Final = 3.0
_POLL_MARGIN_S: Final = 10.0
_ACKS_PER_REQUEST: Final = 1000
_POP_ANSWERS: Final = frozenset(
    {
        int(ResponseCode.SUCCESS),
        int(ResponseCode.PULL_NOT_FOUND),
        int(ResponseCode.POLLING_FULL),
        int(ResponseCode.POLLING_TIMEOUT),
    }
)
_BATCH_ANSWERS: Final = frozenset(
    {int(ResponseCode.SUCCESS), int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)}
)


class Popped(NamedTuple):
    """The answer to a pop."""

    messages: list[MessageExt]
    rest: int = 0
    """How many more there were then, about; brokers may give less than they have."""
    is_full: bool = False
    """The broker holds so many waiting pops that it did not hold this one."""


class PopRequests:
    """Those of one consumer. Belongs to its loop."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._namespace = instance.config.namespace
        self._without_batch_ack: set[str] = set()

    # Taking

    async def pop(
        self,
        queue: MessageQueue,
        subscription: Subscription,
        *,
        max_messages: int,
        invisible_ms: int,
        poll_ms: int,
        from_first: bool,
        attempt_id: str | None = None,
    ) -> Popped:
        """Take messages of a queue, or of all of a broker (`ALL_QUEUES`).

        `attempt_id` has the queues in order: one is closed while messages of it are out, but for
        the same attempt.
        """
        header = PopMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=min(max_messages, MOST_PER_POP),
            invisible_time=invisible_ms,
            poll_time=poll_ms,
            born_time=0,  # the broker's now: its clock and ours may differ
            init_mode=0 if from_first else 1,
            exp_type=subscription.expression_type,
            exp=subscription.expression,
            order=attempt_id is not None,
            attempt_id=attempt_id,
            broker_name=queue.broker_name,
        )
        reply = await self._instance.api.invoke(
            self._master(queue),
            header,
            timeout_s=poll_ms / 1000 + _POLL_MARGIN_S,
            accept=_POP_ANSWERS,
        )
        if reply.code != ResponseCode.SUCCESS:
            return Popped([], is_full=reply.code == ResponseCode.POLLING_FULL)
        answer = reply.header(PopMessageResponse)
        messages = popped_messages(reply.body, answer, queue, self._group, self._namespace)
        wanted = subscription.wanted(messages)
        if len(wanted) < len(messages):
            # The broker compared hashes of tags only: these are for nobody of this group.
            kept = set(map(id, wanted))
            await self.ack([message for message in messages if id(message) not in kept])
        return Popped(wanted, answer.rest_num)

    async def wait(
        self, queue: MessageQueue, subscription: Subscription, poll_ms: int, *, order: bool
    ) -> bool:
        """Wait until there may be something to pop, and take nothing."""
        header = Notification(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            poll_time=poll_ms,
            born_time=0,
            order=order,
            exp_type=subscription.expression_type,
            exp=subscription.expression,
        )
        reply = await self._instance.api.invoke(
            self._master(queue), header, timeout_s=poll_ms / 1000 + _POLL_MARGIN_S
        )
        return reply.header(NotificationResponse).has_msg

    # Giving back

    async def ack(self, messages: Collection[MessageExt]) -> None:
        """These are done. Tries all of them before it raises what went wrong with one."""
        by_broker: dict[str, list[tuple[MessageExt, PopReceipt]]] = defaultdict(list)
        for message in messages:
            receipt = PopReceipt.of(message)
            by_broker[receipt.broker_name].append((message, receipt))
        await _all_of(self._ack_at(name, done) for name, done in by_broker.items())

    async def _ack_at(self, broker_name: str, done: list[tuple[MessageExt, PopReceipt]]) -> None:
        if len(done) == 1:
            await self._ack_one(*done[0])
            return
        address = self._master(self._queue_of(*done[0]))
        far = [each for each in done if each[1].offset - each[1].start_offset >= BIT_SET_SPAN]
        near = [each for each in done if each[1].offset - each[1].start_offset < BIT_SET_SPAN]
        if address in self._without_batch_ack:
            far, near = done, []
        acks = batch_acks(
            self._group,
            [
                (wrap_namespace(self._namespace, message.topic), receipt)
                for message, receipt in near
            ],
        )
        for start in range(0, len(acks), _ACKS_PER_REQUEST):
            body = BatchAckRequest(
                broker_name=broker_name, acks=acks[start : start + _ACKS_PER_REQUEST]
            )
            reply = await self._instance.api.invoke(
                address,
                RequestCode.BATCH_ACK_MESSAGE,
                body.encode(),
                timeout_s=_ANSWER_S,
                accept=_BATCH_ANSWERS,
            )
            if reply.code != ResponseCode.SUCCESS:  # a broker before 5.1.3
                self._without_batch_ack.add(address)
                far = done
                break
        await _all_of(self._ack_one(*each) for each in far)

    async def _ack_one(self, message: MessageExt, receipt: PopReceipt) -> None:
        queue = self._queue_of(message, receipt)
        header = AckMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.offset,
            broker_name=receipt.broker_name,
        )
        await self._instance.api.invoke(self._master(queue), header, timeout_s=_ANSWER_S)

    async def change_invisible(self, messages: Iterable[MessageExt], invisible_ms: int) -> None:
        """Hide messages for another while, from now on; they get new receipts."""
        await _all_of(self._change_one(message, invisible_ms) for message in messages)

    async def _change_one(self, message: MessageExt, invisible_ms: int) -> None:
        receipt = PopReceipt.of(message)
        queue = self._queue_of(message, receipt)
        header = ChangeInvisibleTime(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.offset,
            invisible_time=invisible_ms,
            broker_name=receipt.broker_name,
        )
        reply = await self._instance.api.invoke(self._master(queue), header, timeout_s=_ANSWER_S)
        renewed = reply.header(ChangeInvisibleTimeResponse)
        receipt._replace(
            start_offset=receipt.offset,
            pop_time=renewed.pop_time,
            invisible_time=renewed.invisible_time,
            revive_queue=renewed.revive_qid,
        ).put_on(message)

    def _queue_of(self, message: MessageExt, receipt: PopReceipt) -> MessageQueue:
        """Where the message lies: in its topic, or in the one for retries."""
        wire = wrap_namespace(self._namespace, message.topic)
        topic = real_topic(self._group, wire, receipt.retry_kind)
        return MessageQueue(topic, receipt.broker_name, receipt.queue_id)

    def _master(self, queue: MessageQueue) -> str:
        address = self._instance.routes.master(queue.broker_name)
        if address is None:
            raise BrokerUnknown(queue.broker_name)
        return address


async def _all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all of it side by side; then raise what went wrong first."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if result is not None:
            raise result
