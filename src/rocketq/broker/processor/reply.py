"""Replies of the request-reply pattern: handed to the client that asked, then kept.

    requester    sends a message that names its client id and waits
    replier      consumes it and sends the reply here, to the cluster's reply topic
    broker       finds the requester's connection and hands it the reply (request 326)

The requester must be connected to this broker as a producer: its heartbeat says so.
"""

import logging
from typing import Final

from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.config import LiveConfig
from rocketq.broker.processor.send import (
    SendHeader,
    SendProcessor,
    encoded_properties,
    read_header,
    response_code,
)
from rocketq.broker.writer import MessageWriter
from rocketq.common.clock import Clock
from rocketq.message.hosts import decode_host, encode_host, format_host
from rocketq.message.ids import offset_message_id
from rocketq.message.properties.codec import PropertyName, decode_properties, encode_properties
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RemotingError,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.headers import ReplyMessage
from rocketq.store import MessageInner

logger = logging.getLogger(__name__)

_PUSH_TIMEOUT_S: Final = 10.0
# A client before 5.x may ask before its first heartbeat, which it sends a second after its
# start: its answer must not come too early.
_FIRST_HEARTBEAT_S: Final = 1.5


class ReplyProcessor:
    """Passes replies on."""

    def __init__(
        self,
        live: LiveConfig,
        sends: SendProcessor,
        producers: ProducerTable,
        writer: MessageWriter,
        clock: Clock,
        store_host: bytes,
    ) -> None:
        self._live = live
        self._sends = sends
        self._producers = producers
        self._writer = writer
        self._clock = clock
        self._store_host = store_host

    def handlers(self) -> Handlers:
        return {
            RequestCode.SEND_REPLY_MESSAGE: self._reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self._reply,
        }

    async def _reply(self, request: Command, connection: Connection) -> Command:
        config = self._live.broker
        ext = {"MSG_REGION": config.region_id, "TRACE_ON": str(config.trace_on).lower()}
        try:
            header = read_header(request)
            topic = self._sends.check(request, header, connection)
        except RequestRejected as refusal:
            return request.reply(code=refusal.code, remark=refusal.remark, ext=ext)
        properties = decode_properties(encoded_properties(header))
        properties.pop(PropertyName.POP_CHECK_POINT, None)
        properties[PropertyName.MSG_REGION] = config.region_id
        properties[PropertyName.TRACE_SWITCH] = ext["TRACE_ON"]
        body = bytes(request.body)
        queue_id = max(header.queue_id, 0) % max(topic.write_queue_nums, 1)
        ext |= {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
        code, remark = ResponseCode.SUCCESS, None
        problem = await self._push(header, dict(properties), body, connection)
        if problem is not None:
            code, remark = ResponseCode.SYSTEM_ERROR, problem
        if config.store_reply_message_enable:
            result = await self._writer.put_durably(
                MessageInner(
                    topic=header.topic,
                    queue_id=queue_id,
                    body=body,
                    properties=encode_properties(properties),
                    born_timestamp=header.born_timestamp,
                    born_host=encode_host(*connection.peer),
                    store_host=self._store_host,
                    flag=header.flag,
                    sys_flag=header.sys_flag,
                    reconsume_times=header.reconsume_times or 0,
                )
            )
            if result.is_stored:
                ext["msgId"] = offset_message_id(self._store_host, result.physical_offset)
                ext["queueOffset"] = str(result.queue_offset)
            elif code == ResponseCode.SUCCESS:
                # Delivered and not kept: the requester has it, which is what counts.
                logger.warning("a reply was not stored: %s", result.status.name)
                code = response_code(result.status)
        return request.reply(code=code, remark=remark, ext=ext)

    async def _push(
        self, header: SendHeader, properties: dict[str, str], body: bytes, connection: Connection
    ) -> str | None:
        """Hand the reply to the requester; returns what went wrong, if anything did."""
        client_id = properties.get(PropertyName.REPLY_TO_CLIENT)
        if client_id is None:
            return "the reply does not say to whom: REPLY_TO_CLIENT is missing"
        channel = await self._producers.appears(client_id, _FIRST_HEARTBEAT_S)
        if channel is None or not channel.is_live:
            return f"push reply message fail, channel of <{client_id}> not found."
        now = self._clock.now_ms()
        properties[PropertyName.PUSH_REPLY_TIME] = str(now)
        push = ReplyMessage(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=encode_properties(properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=bool(header.unit_mode),
            born_host=connection.peer_address,
            store_host=format_host(*decode_host(self._store_host)),
            store_timestamp=now,
        )
        try:
            answer = await channel.connection.call(Command.request(push, body), _PUSH_TIMEOUT_S)
        except RemotingError as error:
            return f"push reply message to {client_id} fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {client_id} fail: {answer.remark}"
        return None
