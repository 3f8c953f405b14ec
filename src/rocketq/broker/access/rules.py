"""What each request to a broker needs: the one table from codes to resources and actions.

RocketMQ leaves some codes to everybody who has a user, among them changing the broker's
configuration and making groups. Here every code has its rule; what is not in the table is for
super users. A retry topic counts as its group.
"""

from collections.abc import Iterable
from typing import Final

from rocketq.common.access import Need
from rocketq.message import names
from rocketq.message.pop_topics import retry_topic_v1, retry_topic_v2
from rocketq.remoting.access.needs import (
    CREATE,
    DELETE,
    GET,
    PUB,
    SUB,
    SUB_OR_GET,
    SUB_OR_UPDATE,
    UPDATE,
    FieldRule,
    group_need,
    of_both,
    of_cluster,
    of_group,
    of_topic,
    topic_need,
)
from rocketq.remoting.access.rules import Rules
from rocketq.remoting.bodies.assignment import (
    BatchAckRequest,
    QueryAssignmentRequest,
    SetMessageRequestMode,
)
from rocketq.remoting.bodies.heartbeat import HeartbeatData
from rocketq.remoting.bodies.locks import LockBatchRequest
from rocketq.remoting.codes import RequestCode as Code
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.wire.command import Command

# In headers whose names are one letter.
_V2_TOPIC: Final = "b"

# A heartbeat of some thousand groups.
_LARGEST_BODY: Final = 256 * 1024


def _short(request: Command) -> Command:
    """A request whose needs are in its body, if reading them keeps nobody waiting."""
    if len(request.body) > _LARGEST_BODY:
        raise RequestRejected(
            ResponseCode.NO_PERMISSION,
            f"{len(request.body)} bytes are more than are looked through for what they need "
            f"({_LARGEST_BODY})",
        )
    return request


def _heartbeat(request: Command) -> Iterable[Need]:
    for consumer in HeartbeatData.from_request(_short(request)).consumer_data_set:
        yield group_need(consumer.group_name, SUB)
        for subscription in consumer.subscription_data_set:
            if not names.is_retry_topic(subscription.topic):
                yield topic_need(subscription.topic, SUB)


def _unregister(request: Command) -> Iterable[Need]:
    group = request.ext_fields.get("consumerGroup")
    return (group_need(group, SUB),) if group else ()


def _end_transaction(request: Command) -> Iterable[Need]:
    """Old clients name no topic, and answers to a question that of the question.

    The handler asks for the right to the topic that the message is meant for.
    """
    topic = request.ext_fields.get("topic")
    is_named = topic and topic != names.TRANSACTION_HALF_TOPIC
    return (topic_need(topic or "", PUB),) if is_named else ()


def _locks(request: Command) -> Iterable[Need]:
    asked = LockBatchRequest.from_request(_short(request))
    yield group_need(asked.consumer_group, SUB)
    for topic in {queue.topic for queue in asked.mq_set}:
        if not names.is_retry_topic(topic):
            yield topic_need(topic, SUB)


def _batch_ack(request: Command) -> Iterable[Need]:
    for ack in BatchAckRequest.from_request(_short(request)).acks:
        yield group_need(ack.consumer_group, SUB)
        yield topic_need(ack.topic, SUB)


def _popped(values: tuple[str, ...]) -> Iterable[Need]:
    """A popped message comes again from a retry topic of its group and its topic."""
    topic, group = values
    for retries in (retry_topic_v1(group, ""), retry_topic_v2(group, "")):
        if group and topic.startswith(retries):
            topic = topic.removeprefix(retries)
    return topic_need(topic, SUB), group_need(group, SUB)


def _assignment(request: Command) -> Iterable[Need]:
    asked = QueryAssignmentRequest.from_request(_short(request))
    return group_need(asked.consumer_group, SUB), topic_need(asked.topic, SUB)


def _request_mode(request: Command) -> Iterable[Need]:
    asked = SetMessageRequestMode.from_request(_short(request))
    return group_need(asked.consumer_group, UPDATE), topic_need(asked.topic, UPDATE)


_pop: Final = of_both(SUB)
_answer_to_pop: Final = FieldRule(("topic", "consumerGroup"), _popped)

BROKER_RULES: Final[Rules] = {
    # Sending
    Code.SEND_MESSAGE: of_topic(PUB, of_group=SUB),
    Code.SEND_MESSAGE_V2: of_topic(PUB, _V2_TOPIC, of_group=SUB),
    Code.SEND_BATCH_MESSAGE: of_topic(PUB, _V2_TOPIC, of_group=SUB),
    Code.SEND_REPLY_MESSAGE: of_topic(PUB),
    Code.SEND_REPLY_MESSAGE_V2: of_topic(PUB, _V2_TOPIC),
    Code.RECALL_MESSAGE: of_topic(PUB),
    Code.END_TRANSACTION: _end_transaction,
    Code.CONSUMER_SEND_MSG_BACK: of_group(SUB, "group"),
    # Consuming
    Code.PULL_MESSAGE: of_both(SUB),
    Code.LITE_PULL_MESSAGE: of_both(SUB),
    Code.POP_MESSAGE: _pop,
    Code.PEEK_MESSAGE: _pop,
    Code.ACK_MESSAGE: _answer_to_pop,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _answer_to_pop,
    Code.NOTIFICATION: _pop,
    Code.BATCH_ACK_MESSAGE: _batch_ack,
    Code.POLLING_INFO: of_both(GET),
    Code.QUERY_ASSIGNMENT: _assignment,
    Code.HEART_BEAT: _heartbeat,
    Code.UNREGISTER_CLIENT: _unregister,
    Code.CHECK_CLIENT_CONFIG: of_both(SUB),
    Code.GET_CONSUMER_LIST_BY_GROUP: of_group(SUB_OR_GET),
    Code.QUERY_CONSUMER_OFFSET: of_both(SUB_OR_GET),
    Code.UPDATE_CONSUMER_OFFSET: of_both(SUB_OR_UPDATE),
    Code.LOCK_BATCH_MQ: _locks,
    Code.UNLOCK_BATCH_MQ: _locks,
    Code.QUERY_MESSAGE: of_topic(SUB_OR_GET),
    Code.VIEW_MESSAGE_BY_ID: of_topic(GET),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: of_topic(GET),
    Code.GET_MAX_OFFSET: of_topic(GET),
    Code.GET_MIN_OFFSET: of_topic(GET),
    Code.GET_EARLIEST_MSG_STORETIME: of_topic(GET),
    # Topics and groups
    Code.UPDATE_AND_CREATE_TOPIC: of_topic(CREATE),
    Code.DELETE_TOPIC_IN_BROKER: of_topic(DELETE),
    Code.GET_TOPIC_CONFIG: of_topic(GET),
    Code.GET_TOPIC_STATS_INFO: of_topic(GET),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: of_topic(GET),
    Code.QUERY_CONSUME_QUEUE: of_both(GET),
    Code.DELETE_SUBSCRIPTIONGROUP: of_group(DELETE, "groupName"),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: of_group(GET, "group"),
    Code.GET_CONSUMER_CONNECTION_LIST: of_group(GET),
    Code.GET_CONSUMER_RUNNING_INFO: of_group(GET),
    Code.QUERY_TOPICS_BY_CONSUMER: of_group(GET, "group"),
    Code.GET_PRODUCER_CONNECTION_LIST: of_cluster(GET),
    Code.GET_CONSUME_STATS: of_both(GET),
    Code.QUERY_CONSUME_TIME_SPAN: of_both(GET, group="group"),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: of_both(GET, group="group"),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: of_both(GET, group="group"),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: of_both(UPDATE, group="group"),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: of_both(UPDATE, group="group"),
    Code.CLONE_GROUP_OFFSET: of_both(UPDATE, group="destGroup"),
    Code.CONSUME_MESSAGE_DIRECTLY: of_both(SUB),
    Code.SET_MESSAGE_REQUEST_MODE: _request_mode,
    Code.RESUME_CHECK_HALF_MESSAGE: of_topic(UPDATE),
    # The broker as a whole
    **{
        code: of_cluster(GET)
        for code in (
            Code.GET_ALL_TOPIC_CONFIG,
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            Code.GET_ALL_CONSUMER_OFFSET,
            Code.GET_ALL_DELAY_OFFSET,
            Code.GET_ALL_MESSAGE_REQUEST_MODE,
            Code.GET_ALL_PRODUCER_INFO,
            Code.GET_BROKER_CONFIG,
            Code.GET_BROKER_RUNTIME_INFO,
            Code.GET_BROKER_HA_STATUS,
            Code.GET_BROKER_EPOCH_CACHE,
            Code.GET_BROKER_CONSUME_STATS,
            Code.GET_COLD_DATA_FLOW_CTR_INFO,
            Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            Code.GET_TIMER_CHECK_POINT,
            Code.GET_TIMER_METRICS,
            Code.QUERY_CORRECTION_OFFSET,
            Code.VIEW_BROKER_STATS_DATA,
            Code.GET_BROKER_CLUSTER_ACL_INFO,
            Code.GET_BROKER_CLUSTER_ACL_CONFIG,
            Code.AUTH_GET_USER,
            Code.AUTH_LIST_USER,
            Code.AUTH_GET_ACL,
            Code.AUTH_LIST_ACL,
        )
    },
    **{
        code: of_cluster(UPDATE)
        for code in (
            Code.UPDATE_AND_CREATE_TOPIC_LIST,
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            Code.UPDATE_BROKER_CONFIG,
            Code.RESET_MASTER_FLUSH_OFFSET,
            Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
            Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
            Code.SET_COMMITLOG_READ_MODE,
            Code.CLEAN_EXPIRED_CONSUMEQUEUE,
            Code.CLEAN_UNUSED_TOPIC,
            Code.DELETE_EXPIRED_COMMITLOG,
            Code.EXCHANGE_BROKER_HA_INFO,
            Code.NOTIFY_BROKER_ROLE_CHANGED,
            Code.UPDATE_AND_CREATE_ACL_CONFIG,
            Code.DELETE_ACL_CONFIG,
            Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            Code.AUTH_CREATE_USER,
            Code.AUTH_UPDATE_USER,
            Code.AUTH_DELETE_USER,
            Code.AUTH_CREATE_ACL,
            Code.AUTH_UPDATE_ACL,
            Code.AUTH_DELETE_ACL,
        )
    },
}
