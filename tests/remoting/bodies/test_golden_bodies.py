"""JSON bodies hold everything that real programs put into theirs."""

from typing import Any

import pytest

from rocketq.common import json
from rocketq.remoting.bodies import access
from rocketq.remoting.bodies.access import AclInfo, UserInfo
from rocketq.remoting.bodies.assignment import (
    BatchAckRequest,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestMode,
)
from rocketq.remoting.bodies.body import Body
from rocketq.remoting.bodies.connections import (
    ConsumerConnection,
    ProducerConnection,
    ProducerTable,
)
from rocketq.remoting.bodies.groups import (
    GroupForbidden,
    GroupList,
    GroupSubscription,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from rocketq.remoting.bodies.heartbeat import CheckClientRequest, ConsumerIds, HeartbeatData
from rocketq.remoting.bodies.locks import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from rocketq.remoting.bodies.offsets import (
    ConsumerOffsetWrapper,
    CorrectionOffsets,
    DelayOffsetWrapper,
    MessageRequestModeWrapper,
)
from rocketq.remoting.bodies.registration import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfigAndQueueMapping,
    TopicConfigList,
    TopicConfigWrapper,
)
from rocketq.remoting.bodies.replication import HARuntimeInfo, TimerMetrics
from rocketq.remoting.bodies.reset import ResetOffsetBody
from rocketq.remoting.bodies.route import (
    BrokerMemberGroup,
    ClusterInfo,
    KVTable,
    TopicList,
    TopicRouteData,
)
from rocketq.remoting.bodies.running_info import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
)
from rocketq.remoting.bodies.stats import (
    BrokerStatsData,
    ConsumeQueueView,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpans,
    RocksdbProgress,
    TopicStatsTable,
)
from rocketq.remoting.wire.frame import decode_frame
from tests.remoting.golden import Recorded, all_recorded

REQUESTS: dict[str, type[Body]] = {
    "REGISTER_BROKER": RegisterBrokerBody,
    "QUERY_DATA_VERSION": DataVersion,
    "HEART_BEAT": HeartbeatData,
    "CHECK_CLIENT_CONFIG": CheckClientRequest,
    "LOCK_BATCH_MQ": LockBatchRequest,
    "UNLOCK_BATCH_MQ": UnlockBatchRequest,
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP": SubscriptionGroupConfig,
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST": SubscriptionGroupList,
    "UPDATE_AND_CREATE_TOPIC_LIST": TopicConfigList,
    "QUERY_ASSIGNMENT": QueryAssignmentRequest,
    "SET_MESSAGE_REQUEST_MODE": SetMessageRequestMode,
    "BATCH_ACK_MESSAGE": BatchAckRequest,
    "RESET_CONSUMER_CLIENT_OFFSET": ResetOffsetBody,
    "AUTH_CREATE_USER": UserInfo,
    "AUTH_UPDATE_USER": UserInfo,
    "AUTH_CREATE_ACL": AclInfo,
    "AUTH_UPDATE_ACL": AclInfo,
}
RESPONSES: dict[str, type[Body]] = {
    "REGISTER_BROKER": KVTable,
    "QUERY_DATA_VERSION": DataVersion,
    "GET_ROUTEINFO_BY_TOPIC": TopicRouteData,
    "GET_BROKER_CLUSTER_INFO": ClusterInfo,
    "GET_BROKER_MEMBER_GROUP": BrokerMemberGroup,
    "GET_KVLIST_BY_NAMESPACE": KVTable,
    "GET_ALL_TOPIC_LIST_FROM_NAMESERVER": TopicList,
    "GET_TOPICS_BY_CLUSTER": TopicList,
    "GET_SYSTEM_TOPIC_LIST_FROM_NS": TopicList,
    "GET_SYSTEM_TOPIC_LIST_FROM_BROKER": TopicList,
    "GET_UNIT_TOPIC_LIST": TopicList,
    "GET_HAS_UNIT_SUB_TOPIC_LIST": TopicList,
    "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST": TopicList,
    "QUERY_TOPICS_BY_CONSUMER": TopicList,
    "GET_BROKER_RUNTIME_INFO": KVTable,
    "GET_ALL_TOPIC_CONFIG": TopicConfigWrapper,
    "GET_TOPIC_CONFIG": TopicConfigAndQueueMapping,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": SubscriptionGroupWrapper,
    "GET_SUBSCRIPTIONGROUP_CONFIG": SubscriptionGroupConfig,
    "UPDATE_AND_GET_GROUP_FORBIDDEN": GroupForbidden,
    "QUERY_TOPIC_CONSUME_BY_WHO": GroupList,
    "QUERY_SUBSCRIPTION_BY_CONSUMER": GroupSubscription,
    "GET_CONSUMER_LIST_BY_GROUP": ConsumerIds,
    "LOCK_BATCH_MQ": LockBatchResponse,
    "GET_ALL_CONSUMER_OFFSET": ConsumerOffsetWrapper,
    "GET_ALL_DELAY_OFFSET": DelayOffsetWrapper,
    "GET_ALL_MESSAGE_REQUEST_MODE": MessageRequestModeWrapper,
    "GET_TIMER_METRICS": TimerMetrics,
    "GET_TOPIC_STATS_INFO": TopicStatsTable,
    "GET_CONSUME_STATS": ConsumeStats,
    "GET_BROKER_CONSUME_STATS": ConsumeStatsList,
    "QUERY_CONSUME_TIME_SPAN": ConsumeTimeSpans,
    "QUERY_CORRECTION_OFFSET": CorrectionOffsets,
    "VIEW_BROKER_STATS_DATA": BrokerStatsData,
    "QUERY_CONSUME_QUEUE": ConsumeQueueView,
    "CHECK_ROCKSDB_CQ_WRITE_PROGRESS": RocksdbProgress,
    "GET_CONSUMER_CONNECTION_LIST": ConsumerConnection,
    "GET_PRODUCER_CONNECTION_LIST": ProducerConnection,
    "GET_ALL_PRODUCER_INFO": ProducerTable,
    "GET_CONSUMER_RUNNING_INFO": ConsumerRunningInfo,
    "CONSUME_MESSAGE_DIRECTLY": ConsumeMessageDirectlyResult,
    "GET_CONSUMER_STATUS_FROM_CLIENT": ConsumerStatus,
    "INVOKE_BROKER_TO_GET_CONSUMER_STATUS": ConsumerStatus,
    "INVOKE_BROKER_TO_RESET_OFFSET": ResetOffsetBody,
    "QUERY_ASSIGNMENT": QueryAssignmentResponse,
    "GET_BROKER_HA_STATUS": HARuntimeInfo,
    "AUTH_GET_USER": UserInfo,
    "AUTH_GET_ACL": AclInfo,
}
# Derived by Java from what is there anyway, and of no use to anybody.
BY_PRODUCTS = {"groupTopicMap", "pullOffsetTable"}
# Not JSON, or JSON of no fixed shape.
OTHER = {
    "SEND_MESSAGE",
    "SEND_MESSAGE_V2",
    "SEND_BATCH_MESSAGE",
    "SEND_REPLY_MESSAGE",
    "SEND_REPLY_MESSAGE_V2",
    "PUSH_REPLY_MESSAGE_TO_CLIENT",
    "CHECK_TRANSACTION_STATE",
    "PULL_MESSAGE",
    "LITE_PULL_MESSAGE",
    "POP_MESSAGE",
    "PEEK_MESSAGE",
    "QUERY_MESSAGE",
    "VIEW_MESSAGE_BY_ID",
    "GET_NAMESRV_CONFIG",
    "UPDATE_NAMESRV_CONFIG",
    "GET_BROKER_CONFIG",
    "UPDATE_BROKER_CONFIG",
    "UPDATE_COLD_DATA_FLOW_CTR_CONFIG",
    "REMOVE_COLD_DATA_FLOW_CTR_CONFIG",
    "GET_COLD_DATA_FLOW_CTR_INFO",
    "GET_BROKER_LITE_INFO",
    "GET_TIMER_CHECK_POINT",
    "AUTH_LIST_USER",
    "AUTH_LIST_ACL",
}


def bodies(kind: str) -> list[Recorded]:
    return [
        each
        for each in all_recorded()
        if (each.kind == "response") == (kind == "response") and each.body
    ]


def without_by_products(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: without_by_products(item)
            for name, item in value.items()
            if name not in BY_PRODUCTS
        }
    if isinstance(value, list):
        return [without_by_products(item) for item in value]
    return value


def assert_holds_all_of(written: Any, original: Any, where: str) -> None:
    """What Java wrote is in ours; ours may say more, where a newer version does."""
    if isinstance(original, dict):
        assert isinstance(written, dict), where
        for name, item in original.items():
            assert name in written, f"{where}: {name} is missing"
            assert_holds_all_of(written[name], item, f"{where}.{name}")
    elif isinstance(original, list):
        assert isinstance(written, list), where
        assert len(written) == len(original), where
        for number, item in enumerate(original):
            assert_holds_all_of(written[number], item, f"{where}[{number}]")
    else:
        assert written == original, where


@pytest.mark.parametrize("kind", ["request", "response"])
def test_recorded_bodies_round_trip(kind: str) -> None:
    table = RESPONSES if kind == "response" else REQUESTS
    seen = set()
    for each in bodies(kind):
        if each.exchange in OTHER or (kind == "request" and each.exchange not in table):
            assert each.exchange in OTHER | {"CONSUME_MESSAGE_DIRECTLY"}, each
            continue
        cls = table[each.exchange]
        body = cls.decode(decode_frame(each.frame).body)
        written = json.loads(body.encode())
        if isinstance(body, ResetOffsetBody) and each.body.startswith(b'{"offsetTable":['):
            written = json.loads(body.encode_as_list())
        original = without_by_products(json.loads(each.body))
        assert_holds_all_of(written, original, str(each))
        assert cls.decode(body.encode()) == body
        seen.add(each.exchange)
    assert len(seen) > (12 if kind == "request" else 30)


def test_bodies_of_5_5_0_are_written_byte_for_byte() -> None:
    """Where nothing but the order of a map's entries could differ, which is kept."""
    exact = {
        "GET_BROKER_CLUSTER_INFO",
        "GET_CONSUMER_LIST_BY_GROUP",
        "LOCK_BATCH_MQ",
        "GET_ALL_DELAY_OFFSET",
        "GET_TOPIC_STATS_INFO",
        "GET_CONSUME_STATS",
        "GET_CONSUMER_CONNECTION_LIST",
        "INVOKE_BROKER_TO_RESET_OFFSET",
        "QUERY_ASSIGNMENT",
        "GET_TOPIC_CONFIG",
    }
    seen = set()
    for each in bodies("response"):
        if each.capture == "v4.9.8" or each.exchange not in exact:
            continue
        assert RESPONSES[each.exchange].decode(each.body).encode() == each.body, each
        seen.add(each.exchange)
    assert seen == exact


def test_lists_of_users_and_policies_round_trip() -> None:
    for each in bodies("response"):
        if each.exchange == "AUTH_LIST_USER":
            users = access.decode_users(each.body)
            assert json.loads(access.encode_users(users)) == json.loads(each.body)
        elif each.exchange == "AUTH_LIST_ACL":
            acls = access.decode_acls(each.body)
            assert json.loads(access.encode_acls(acls)) == json.loads(each.body)
