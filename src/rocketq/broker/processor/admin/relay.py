"""Questions only a client can answer: passed on to it, and its answer passed back."""

import asyncio
from typing import Final

from rocketq.broker.access.references import References
from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.config import LiveConfig
from rocketq.broker.remarks import PRESET
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.message.ids import InvalidMessageId, parse_offset_message_id
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import read_record
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RemotingError,
    RequestHeader,
    RequestRejected,
    RequestTimeout,
    ResponseCode,
)
from rocketq.remoting.bodies.running_info import ConsumerStatus
from rocketq.remoting.headers import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    GetConsumerStatus,
    GetConsumerStatusFromClient,
)
from rocketq.store import MessageStore

_ANSWER_WITHIN_S: Final = 10.0
_STATUS_WITHIN_S: Final = 5.0
_OLDEST_ASKABLE_CLIENT: Final = 62
_OLDEST_CLIENT_WITH_STATUS: Final = 28


class RelayAdminProcessor:
    """Stands between administrators and the consumers they ask about."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        consumers: ConsumerTable,
        store: MessageStore,
        references: References,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._store = store
        self._references = references

    def handlers(self) -> Handlers:
        return {
            GetConsumerRunningInfo.CODE: self._running_info,
            ConsumeMessageDirectly.CODE: self._consume_directly,
            GetConsumerStatus.CODE: self._status,
        }

    async def _running_info(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetConsumerRunningInfo)
        channel = self._channel(header.consumer_group, header.client_id)
        return await self._relay(request, channel, header.consumer_group, header)

    async def _consume_directly(self, request: Command, connection: Connection) -> Command:
        header = request.header(ConsumeMessageDirectly)
        channel = self._channel(header.consumer_group, header.client_id)
        topic = self._topics.get(header.topic or "")
        group = self._groups.get(header.consumer_group)
        complete = ConsumeMessageDirectly(
            consumer_group=header.consumer_group,
            client_id=header.client_id,
            msg_id=header.msg_id,
            broker_name=self._live.broker.broker_name,
            topic=header.topic,
            topic_sys_flag=0 if topic is None else topic.topic_sys_flag,
            group_sys_flag=0 if group is None else group.group_sys_flag,
        )
        body = bytes(request.body)
        if header.msg_id:
            body = self._message(header.msg_id)
            self._references.check_consumed(
                *(request, connection, read_record(body).topic.decode("utf-8", "replace")),
                *(header.consumer_group, header.topic),
            )
        return await self._relay(request, channel, header.consumer_group, complete, body)

    def _message(self, message_id: str) -> bytes:
        try:
            _, _, offset = parse_offset_message_id(message_id)
        except InvalidMessageId as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        record = self._store.look_up(offset)
        if record is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"no message {message_id} here")
        return bytes(record)

    def _channel(self, group: str, client_id: str | None) -> ClientChannel:
        """The client named, or any of the group when none is."""
        found = self._consumers.find(group)
        channels = [] if found is None else list(found.channels.values())
        channel = next(
            (each for each in channels if not client_id or each.client_id == client_id), None
        )
        if channel is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online"
            )
        if channel.version < _OLDEST_ASKABLE_CLIENT:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{channel.client_id}> Version <{channel.version}> too low to "
                "finish, please upgrade it to V3_1_8_SNAPSHOT",
            )
        return channel

    async def _relay(
        self,
        request: Command,
        channel: ClientChannel,
        group: str,
        header: RequestHeader,
        body: bytes = b"",
    ) -> Command:
        question = Command.request(header, body)
        try:
            answer = await channel.connection.call(question, _ANSWER_WITHIN_S)
        except RequestTimeout as error:
            raise RequestRejected(
                ResponseCode.CONSUME_MSG_TIMEOUT,
                f"consumer <{group}> <{channel.client_id}> Timeout: {error}",
            ) from None
        except RemotingError as error:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"invoke consumer <{group}> <{channel.client_id}> Exception: {error}",
            ) from None
        return request.reply(body=bytes(answer.body), code=answer.code, remark=answer.remark)

    async def _status(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetConsumerStatus)
        group = self._consumers.find(header.group)
        channels = [] if group is None else list(group.channels.values())
        if not channels:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"No Any Consumer online in the consumer group: [{header.group}]",
            )
        for channel in channels:
            if channel.version < _OLDEST_CLIENT_WITH_STATUS:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR,
                    f"the client does not support this feature. version={channel.version}",
                )
        asked = [
            channel
            for channel in channels
            if not header.client_addr or channel.client_id == header.client_addr
        ]
        question = GetConsumerStatusFromClient(topic=header.topic, group=header.group)
        tables = await asyncio.gather(*(self._status_of(channel, question) for channel in asked))
        body = ConsumerStatus(
            consumer_table={
                channel.client_id: table
                for channel, table in zip(asked, tables, strict=True)
                if table is not None
            }
        )
        return request.reply(body=body.encode(), remark=PRESET)

    async def _status_of(
        self, channel: ClientChannel, question: GetConsumerStatusFromClient
    ) -> dict[MessageQueue, int] | None:
        """What one consumer says; None from one that says nothing."""
        try:
            answer = await channel.connection.call(Command.request(question), _STATUS_WITHIN_S)
        except RemotingError:
            return None
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return None
        return ConsumerStatus.decode(answer.body).message_queue_table
