"""The answers to what brokers ask of clients.

39   check the state of a transaction        a producer of the group
40   the members of a group have changed     its consumer rebalances
220  set a group's offsets                    its consumer
221  tell a group's offsets                   its consumer
307  tell how a consumer is doing             its consumer
309  consume this one message now             its consumer
326  here is the reply to a request           whoever waits for it
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rocketq.client.cluster.replies import PendingReplies
from rocketq.client.cluster.roles import ConsumerRole, ProducerRole
from rocketq.common.clock import Clock
from rocketq.message.flags import SysFlag
from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import PropertyName, set_property
from rocketq.message.record.reader import decode_record
from rocketq.message.record.writer import new_record
from rocketq.remoting import Command, Connection, Handlers, RequestRejected
from rocketq.remoting.bodies.reset import ResetOffsetBody
from rocketq.remoting.bodies.running_info import ConsumerStatus
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers import (
    CheckTransactionState,
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    GetConsumerStatusFromClient,
    NotifyConsumerIdsChanged,
    ReplyMessage,
    ResetConsumerClientOffset,
)

logger = logging.getLogger(__name__)


class BrokerRequests:
    """Hands requests to the groups they are meant for. Reads the instance's own tables."""

    def __init__(
        self,
        producers: Mapping[str, ProducerRole],
        consumers: Mapping[str, ConsumerRole],
        replies: PendingReplies,
        clock: Clock,
    ) -> None:
        self._producers = producers
        self._consumers = consumers
        self._replies = replies
        self._clock = clock

    def handlers(self) -> Handlers:
        """Who answers which code."""
        return {
            RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction,
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._consumers_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._reply_arrived,
        }

    def _check_transaction(self, request: Command, connection: Connection) -> None:
        message = decode_record(request.body)
        group = message.get_property(PropertyName.PRODUCER_GROUP)
        producer = self._producers.get(group or "")
        if producer is None:
            logger.warning("asked about a transaction of group %s, which is not here", group)
            return
        producer.check_transaction(
            request.header(CheckTransactionState), message, connection.peer_address
        )

    def _consumers_changed(self, request: Command, connection: Connection) -> None:
        # Java's clients rebalance all their groups; only the one that is named can gain.
        consumer = self._consumers.get(request.header(NotifyConsumerIdsChanged).consumer_group)
        if consumer is not None:
            consumer.rebalance_soon()

    async def _reset_offsets(self, request: Command, connection: Connection) -> None:
        header = request.header(ResetConsumerClientOffset)
        consumer = self._consumers.get(header.group)
        if consumer is None:
            logger.warning("asked to reset offsets of group %s, which is not here", header.group)
            return
        offsets = ResetOffsetBody.decode(request.body).offset_table
        logger.info("offsets of %s in %s are set by a broker", header.group, header.topic)
        await consumer.reset_offsets(header.topic, offsets)

    def _consumer_status(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetConsumerStatusFromClient)
        status = self._consumer(header.group).consumer_status(header.topic)
        body = ConsumerStatus(message_queue_table=dict(status))
        return request.reply(body=body.encode())

    def _running_info(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetConsumerRunningInfo)
        consumer = self._consumer(header.consumer_group)
        info = consumer.running_info(with_stacks=bool(header.jstack_enable))
        return request.reply(body=info.encode())

    async def _consume_directly(self, request: Command, connection: Connection) -> Command:
        header = request.header(ConsumeMessageDirectly)
        consumer = self._consumer(header.consumer_group)
        message = decode_record(request.body, broker_name=header.broker_name or "")
        result = await consumer.consume_directly(message, header.broker_name)
        return request.reply(body=result.encode())

    def _reply_arrived(self, request: Command, connection: Connection) -> Command:
        header = request.header(ReplyMessage)
        reply = MessageExt(
            new_record(
                header.topic.encode(),
                bytes(request.body),
                set_property(
                    (header.properties or "").encode(),
                    PropertyName.ARRIVE_TIME.encode(),
                    b"%d" % self._clock.now_ms(),
                ),
                queue_id=header.queue_id,
                flag=header.flag,
                sys_flag=header.sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6),
                born_timestamp=header.born_timestamp,
                store_timestamp=header.store_timestamp,
                reconsume_times=header.reconsume_times or 0,
            )
        )
        if not self._replies.arrived(reply):
            logger.info("reply %s came too late", reply.msg_id)
        return request.reply()

    def _consumer(self, group: str) -> ConsumerRole:
        consumer = self._consumers.get(group)
        if consumer is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"consumer group {group} is not in this client"
            )
        return consumer
