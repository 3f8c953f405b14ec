"""Administration of topics and groups on a broker."""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic(RequestHeader):
    """Creates or changes a topic; also 513, with the queue mapping in the body."""

    CODE: ClassVar = RequestCode.UPDATE_AND_CREATE_TOPIC

    topic: str
    default_topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str
    topic_sys_flag: int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicList(RequestHeader):
    """Creates or changes many topics; they are in the body."""

    CODE: ClassVar = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicInBroker(RequestHeader):
    """Deletes a topic and its messages."""

    CODE: ClassVar = RequestCode.DELETE_TOPIC_IN_BROKER

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfig(RequestHeader):
    """Asks for all topics; from 5.5.0 on page by page."""

    CODE: ClassVar = RequestCode.GET_ALL_TOPIC_CONFIG

    topic_seq: int | None = None
    max_topic_num: int | None = None
    data_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigResponse(ResponseHeader):
    """How many there are in all."""

    total_topic_num: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicConfig(RequestHeader):
    """Asks for one topic."""

    CODE: ClassVar = RequestCode.GET_TOPIC_CONFIG

    topic: str
    logical: bool | None = field(default=None, metadata=wire("lo"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptionGroupConfig(RequestHeader):
    """Asks for all groups; from 5.5.0 on page by page."""

    CODE: ClassVar = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG

    group_seq: int | None = None
    max_group_num: int | None = None
    data_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptionGroupConfigResponse(ResponseHeader):
    """How many there are in all."""

    total_group_num: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetSubscriptionGroupConfig(RequestHeader):
    """Asks for one group."""

    CODE: ClassVar = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscriptionGroup(RequestHeader):
    """Deletes a group, and its offsets if asked to; 4.9 has another name for that."""

    CODE: ClassVar = RequestCode.DELETE_SUBSCRIPTIONGROUP

    group_name: str
    clean_offset: bool = field(default=False, metadata=wire("cleanOffset", "removeOffset"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateGroupForbidden(RequestHeader):
    """Forbids a group to read a topic, or allows it again."""

    CODE: ClassVar = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN

    group: str
    topic: str
    readable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicStatsInfo(RequestHeader):
    """Asks for the offsets of a topic's queues."""

    CODE: ClassVar = RequestCode.GET_TOPIC_STATS_INFO

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopicConsumeByWho(RequestHeader):
    """Asks which groups consume a topic."""

    CODE: ClassVar = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopicsByConsumer(RequestHeader):
    """Asks which topics a group consumes."""

    CODE: ClassVar = RequestCode.QUERY_TOPICS_BY_CONSUMER

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySubscriptionByConsumer(RequestHeader):
    """Asks what a group subscribed to."""

    CODE: ClassVar = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER

    group: str
    topic: str | None = None
