"""Creating, changing, deleting and listing consumer groups."""

from dataclasses import replace

from rocketq.broker.config import LiveConfig
from rocketq.broker.processor.admin.paging import page_of
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.attributes import GROUP_ATTRIBUTES, InvalidAttribute, apply_changes
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import FORBID_READ, SubscriptionGroups
from rocketq.common.loop.turns import Turns
from rocketq.message.names import InvalidName, is_system_group, validate_group
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
)
from rocketq.remoting.headers import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroupConfig,
    GetAllSubscriptionGroupConfigResponse,
    GetSubscriptionGroupConfig,
    UpdateGroupForbidden,
)


class GroupAdminProcessor:
    """Changes the table of groups on request."""

    def __init__(
        self,
        live: LiveConfig,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        turns: Turns,
    ) -> None:
        self._live = live
        self._turns = turns
        self._groups = groups
        self._offsets = offsets
        self._stats = stats

    def handlers(self) -> Handlers:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._create,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._create_list,
            DeleteSubscriptionGroup.CODE: self._delete,
            GetAllSubscriptionGroupConfig.CODE: self._all,
            GetSubscriptionGroupConfig.CODE: self._one,
            UpdateGroupForbidden.CODE: self._forbid,
        }

    async def _create(self, request: Command, connection: Connection) -> Command:
        await self._put([SubscriptionGroupConfig.from_request(request)])
        return request.reply()

    async def _create_list(self, request: Command, connection: Connection) -> Command:
        await self._put(SubscriptionGroupList.from_request(request).group_config_list)
        return request.reply()

    async def _put(self, configs: list[SubscriptionGroupConfig]) -> None:
        is_system = any(is_system_group(config.group_name) for config in configs)
        with self._stats.creating(self._stats.group_creations, is_system=is_system):
            self._groups.put_all([self._checked(config) for config in configs])
            # Who asked for a group may rely on it: the answer waits for the file.
            await self._groups.saved()

    def _checked(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        try:
            validate_group(config.group_name)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from None
        most = self._live.broker.max_queue_nums
        if not 0 <= config.retry_queue_nums <= most:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"retryQueueNums must lie between 0 and {most} (maxQueueNums)",
            )
        known = self._groups.get(config.group_name)
        current = None if known is None else known.attributes or {}
        try:
            after = apply_changes(GROUP_ATTRIBUTES, current, config.attributes or {})
        except InvalidAttribute as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return replace(config, attributes=after)

    async def _delete(self, request: Command, connection: Connection) -> Command:
        header = request.header(DeleteSubscriptionGroup)
        self._groups.delete(header.group_name)
        if header.clean_offset:
            self._offsets.remove_group(header.group_name)
        self._stats.forget_group(header.group_name)
        await self._groups.saved()
        return request.reply()

    async def _all(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetAllSubscriptionGroupConfig)
        whole = self._groups.body()
        table = whole.subscription_group_table

        def encoded() -> bytes:
            page = page_of(
                table,
                whole.data_version,
                first=header.group_seq,
                count=header.max_group_num,
                read_version=header.data_version,
            )
            return replace(whole, subscription_group_table=page).encode()

        is_paged = header.group_seq is not None
        answer = (
            GetAllSubscriptionGroupConfigResponse(total_group_num=len(table)) if is_paged else None
        )
        return request.reply(answer, await self._turns.in_thread(encoded))

    def _one(self, request: Command, connection: Connection) -> Command:
        group = request.header(GetSubscriptionGroupConfig).group
        # RocketMQ's proxy asks this before a group's first consumer is there, and relies on
        # the broker to make it.
        config = self._groups.get_or_make(group, connection)
        if config is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"No group in this broker. group: {group}",
            )
        return request.reply(body=config.encode())

    async def _forbid(self, request: Command, connection: Connection) -> Command:
        header = request.header(UpdateGroupForbidden)
        bits = self._groups.forbidden(header.group, header.topic)
        if header.readable is not None:
            bits = bits & ~FORBID_READ if header.readable else bits | FORBID_READ
            self._groups.set_forbidden(header.group, header.topic, bits)
            await self._groups.saved()
        body = GroupForbidden(
            group=header.group, topic=header.topic, readable=not bits & FORBID_READ
        )
        return request.reply(body=body.encode(), remark="")
