"""Creating, changing, deleting and listing topics."""

from collections.abc import Mapping
from dataclasses import replace

from rocketq.broker.config import LiveConfig
from rocketq.broker.processor.admin.paging import page_of
from rocketq.broker.remarks import PRESET
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.attributes import (
    MESSAGE_TYPE,
    MIXED,
    TOPIC_ATTRIBUTES,
    InvalidAttribute,
    apply_changes,
    parse_changes,
)
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.topics import Topics, check_topic_name
from rocketq.common.loop.turns import Turns
from rocketq.message.names import RETRY_PREFIX
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.registration import TopicConfig, TopicConfigList
from rocketq.remoting.bodies.route import TopicList
from rocketq.remoting.headers import (
    CreateTopic,
    CreateTopicList,
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetAllTopicConfigResponse,
    GetTopicConfig,
)
from rocketq.store import MessageStore


class TopicAdminProcessor:
    """Changes the table of topics on request."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        offsets: ConsumerOffsets,
        store: MessageStore,
        stats: BrokerStats,
        turns: Turns,
    ) -> None:
        self._live = live
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._stats = stats
        self._turns = turns

    def handlers(self) -> Handlers:
        return {
            CreateTopic.CODE: self._create,
            CreateTopicList.CODE: self._create_list,
            DeleteTopicInBroker.CODE: self._delete,
            GetAllTopicConfig.CODE: self._all,
            GetTopicConfig.CODE: self._one,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._system_topics,
        }

    async def _create(self, request: Command, connection: Connection) -> Command:
        header = request.header(CreateTopic)
        self._check_name(header.topic)
        try:
            changes = parse_changes(header.attributes or "")
        except InvalidAttribute as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        config = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type or "SINGLE_TAG",
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
        )
        await self._put([self._with_attributes(config, changes)])
        return request.reply(remark=PRESET)

    async def _create_list(self, request: Command, connection: Connection) -> Command:
        configs = TopicConfigList.from_request(request).topic_config_list
        for config in configs:
            self._check_name(config.topic_name)
        await self._put(
            [self._with_attributes(config, config.attributes or {}) for config in configs]
        )
        return request.reply(remark=PRESET)

    def _check_queues(self, config: TopicConfig) -> None:
        most = self._live.broker.max_queue_nums
        if not (0 <= config.read_queue_nums <= most and 0 <= config.write_queue_nums <= most):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"The topic[{config.topic_name}] may have up to {most} queues (maxQueueNums).",
            )
        if not 0 <= config.perm <= 7:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"The topic[{config.topic_name}] cannot have the permission {config.perm}.",
            )

    async def _put(self, configs: list[TopicConfig]) -> None:
        is_system = any(self._topics.is_system(config.topic_name) for config in configs)
        with self._stats.creating(self._stats.topic_creations, is_system=is_system):
            for config in configs:
                self._check_queues(config)
            changed = [each for each in configs if each != self._topics.get(each.topic_name)]
            if changed:
                self._topics.put_all(changed)
            # Who asked for a topic may rely on it: the answer waits for the file.
            await self._topics.published()

    def _check_name(self, topic: str) -> None:
        check_topic_name(topic)
        if self._live.broker.validate_system_topic_when_update_topic:
            self._refuse_system_topic(topic)

    def _refuse_system_topic(self, topic: str) -> None:
        if self._topics.is_system(topic):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"The topic[{topic}] is conflict with system topic.",
            )

    def _with_attributes(self, config: TopicConfig, changes: Mapping[str, str]) -> TopicConfig:
        """A topic with its attributes after the changes asked for."""
        is_mixed = changes.get(f"+{MESSAGE_TYPE}") == MIXED
        if is_mixed and not self._live.broker.enable_mixed_message_type:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported."
            )
        known = self._topics.get(config.topic_name)
        current = None if known is None else known.attributes or {}
        try:
            after = apply_changes(TOPIC_ATTRIBUTES, current, changes)
        except InvalidAttribute as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return replace(config, attributes=after)

    async def _delete(self, request: Command, connection: Connection) -> Command:
        topic = request.header(DeleteTopicInBroker).topic
        if not topic.strip():
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        if self._live.broker.validate_system_topic_when_update_topic:
            self._refuse_system_topic(topic)
        doomed = [topic]
        if self._live.broker.clear_retry_topic_when_delete_topic:
            doomed += self._pop_retry_topics(topic)
        for name in doomed:
            self._topics.delete(name)
            self._offsets.remove_topic(name)
            self._stats.forget_topic(name)
            await self._store.delete_topic(name)
        await self._topics.published()
        return request.reply()

    def _pop_retry_topics(self, topic: str) -> list[str]:
        """Retry topics that exist for one pair of group and topic, as pop consumers have them."""
        return [
            name
            for group in self._offsets.groups_of(topic)
            for name in (f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}")
            if name in self._topics
        ]

    async def _all(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetAllTopicConfig)
        marks = self._store.beginnings.marks()
        whole = replace(self._topics.body(), topic_beginnings=marks or None)
        table = whole.topic_config_table

        def encoded() -> bytes:
            page = page_of(
                table,
                whole.data_version,
                first=header.topic_seq,
                count=header.max_topic_num,
                read_version=header.data_version,
            )
            return replace(whole, topic_config_table=page).encode()

        is_paged = header.topic_seq is not None
        answer = GetAllTopicConfigResponse(total_topic_num=len(table)) if is_paged else None
        return request.reply(answer, await self._turns.in_thread(encoded))

    def _one(self, request: Command, connection: Connection) -> Command:
        topic = request.header(GetTopicConfig).topic
        config = self._topics.get(topic)
        if config is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}"
            )
        return request.reply(body=config.encode())

    def _system_topics(self, request: Command, connection: Connection) -> Command:
        return request.reply(body=TopicList(topic_list=sorted(self._topics.system_topics)).encode())
