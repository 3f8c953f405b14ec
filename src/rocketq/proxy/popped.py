"""What is said to brokers about popped messages: done, later, never."""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from rocketq.client.consumer.pop.batches import BIT_SET_SPAN, batch_acks
from rocketq.common.errors import RocketqError
from rocketq.proxy.adapter.handles import ReceiptHandle
from rocketq.proxy.calls import Call
from rocketq.proxy.cluster import Cluster
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import Refused, refusal_of
from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.bodies.assignment import BatchAckRequest
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers.pop import (
    AckMessage,
    BatchAckMessageResponse,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
)
from rocketq.remoting.headers.send import ConsumerSendMsgBack

logger = logging.getLogger(__name__)

# What a broker says of a receipt that cannot be one of its pops.
_NEVER = frozenset({int(ResponseCode.MESSAGE_ILLEGAL), int(ResponseCode.NO_MESSAGE)})


class PoppedMessages:
    """For one proxy; by handle."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def ack(
        self, handle: ReceiptHandle, group: str, topic: str, call: Call | None = None
    ) -> None:
        receipt = handle.receipt
        header = AckMessage(
            consumer_group=group,
            topic=handle.topic(group, topic),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.offset,
            broker_name=receipt.broker_name,
        )
        await self._ask(handle, topic, Command.request(header), call)

    async def ack_all(
        self, handles: Sequence[ReceiptHandle], group: str, topic: str, call: Call
    ) -> list[RocketqError | None]:
        """What went wrong with each; the own broker is told of many at once."""
        own = self._cluster.own
        if (
            own is not None
            and len(handles) > 1
            and all(_fits_in_batch(handle, own.name) for handle in handles)
        ):
            try:
                if await self._ack_together(handles, own.name, group, topic, call):
                    return [None] * len(handles)
            except RemotingError as error:
                return [error] * len(handles)
        return await asyncio.gather(
            *(_failure_of(self.ack(handle, group, topic, call)) for handle in handles)
        )

    async def _ack_together(
        self, handles: Sequence[ReceiptHandle], broker: str, group: str, topic: str, call: Call
    ) -> bool:
        """Whether all of them are acknowledged; if not, each has to be asked about."""
        acks = batch_acks(group, [(topic, handle.receipt) for handle in handles])
        body = BatchAckRequest(broker_name=broker, acks=acks)
        command = Command.request(RequestCode.BATCH_ACK_MESSAGE, body=body.encode())
        reply = await self._cluster.ask(broker, command, call=call)
        return (
            reply.code == ResponseCode.SUCCESS
            and reply.header(BatchAckMessageResponse).passed_over == 0
        )

    async def change(
        self,
        handle: ReceiptHandle,
        group: str,
        topic: str,
        invisible_ms: int,
        *,
        suspend: bool = False,
        call: Call | None = None,
    ) -> ReceiptHandle:
        """Hide a message for a time from now on; the handle that counts then."""
        receipt = handle.receipt
        header = ChangeInvisibleTime(
            consumer_group=group,
            topic=handle.topic(group, topic),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.offset,
            invisible_time=invisible_ms,
            suspend=suspend,
            broker_name=receipt.broker_name,
        )
        reply = await self._ask(handle, topic, Command.request(header), call)
        renewed = reply.header(ChangeInvisibleTimeResponse)
        return ReceiptHandle(
            receipt._replace(
                start_offset=receipt.offset,
                pop_time=renewed.pop_time,
                invisible_time=renewed.invisible_time,
                revive_queue=renewed.revive_qid,
            ),
            handle.log_position,
        )

    async def forward(
        self,
        handle: ReceiptHandle,
        group: str,
        topic: str,
        message_id: str,
        call: Call | None = None,
    ) -> None:
        """Put a message into the group's dead-letter topic, then it is done."""
        header = ConsumerSendMsgBack(
            offset=handle.log_position,
            group=group,
            delay_level=-1,
            origin_msg_id=message_id,
            origin_topic=handle.topic(group, topic),
            max_reconsume_times=0,
            broker_name=handle.receipt.broker_name,
        )
        await self._ask(handle, topic, Command.request(header), call)
        await self.quietly(self.ack(handle, group, topic, call))

    async def _ask(
        self, handle: ReceiptHandle, topic: str, command: Command, call: Call | None
    ) -> Command:
        broker = handle.receipt.broker_name
        if not self._cluster.knows(broker):
            await self._cluster.topic(topic)  # perhaps its route names it
            if not self._cluster.knows(broker):
                raise Refused(pb.INVALID_RECEIPT_HANDLE, f"broker {broker} is not known")
        reply = await self._cluster.ask(broker, command, call=call)
        if reply.code in _NEVER:
            raise Refused(pb.INVALID_RECEIPT_HANDLE, reply.remark or f"code {reply.code}")
        if reply.code != ResponseCode.SUCCESS:
            raise refusal_of(reply)
        return reply

    @staticmethod
    async def quietly(work: Awaitable[Any]) -> None:
        """For what nobody waits for: a message that stays hidden comes again by itself."""
        try:
            await work
        except (Refused, RemotingError) as error:
            logger.debug("a popped message: %s", error)


async def _failure_of(work: Awaitable[None]) -> RocketqError | None:
    try:
        await work
    except (Refused, RemotingError) as error:
        return error
    return None


def _fits_in_batch(handle: ReceiptHandle, broker_name: str) -> bool:
    receipt = handle.receipt
    return (
        receipt.broker_name == broker_name
        and 0 <= receipt.offset - receipt.start_offset < BIT_SET_SPAN
    )
