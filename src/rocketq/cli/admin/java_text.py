"""Objects as RocketMQ's tools print them: in the form of Java's `toString`.

People grep for these lines, and scripts cut them up, so they stay what they are.
"""

from collections.abc import Mapping
from typing import Any

from rocketq.message.flags import Permission
from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import PropertyName
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult


def text_of(value: Any) -> str:
    """A plain value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def map_text(entries: Mapping[Any, Any]) -> str:
    return "{" + ", ".join(f"{key}={text_of(value)}" for key, value in entries.items()) + "}"


def queue_text(queue: MessageQueue) -> str:
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def topic_text(config: TopicConfig) -> str:
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={Permission.text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={text_of(config.order)}, attributes={map_text(config.attributes)}]"
    )


def group_fields(config: SubscriptionGroupConfig) -> dict[str, str]:
    """The settings of a group in the order in which they are shown."""
    policy = config.group_retry_policy
    return {
        "groupName": config.group_name,
        "consumeEnable": text_of(config.consume_enable),
        "consumeFromMinEnable": text_of(config.consume_from_min_enable),
        "consumeBroadcastEnable": text_of(config.consume_broadcast_enable),
        "consumeMessageOrderly": text_of(config.consume_message_orderly),
        "retryQueueNums": text_of(config.retry_queue_nums),
        "retryMaxTimes": text_of(config.retry_max_times),
        "groupRetryPolicy": f"GroupRetryPolicy{map_text(policy_fields(policy))}",
        "brokerId": text_of(config.broker_id),
        "whichBrokerWhenConsumeSlowly": text_of(config.which_broker_when_consume_slowly),
        "notifyConsumerIdsChangedEnable": text_of(config.notify_consumer_ids_changed_enable),
        "groupSysFlag": text_of(config.group_sys_flag),
        "consumeTimeoutMinute": text_of(config.consume_timeout_minute),
        "subscriptionDataSet": text_of(config.subscription_data_set),
        "attributes": map_text(config.attributes),
    }


def policy_fields(policy: Any) -> dict[str, Any]:
    plain = policy.to_json() if policy is not None else {}
    return {
        "type": plain.get("type", "CUSTOMIZED"),
        "exponentialRetryPolicy": plain.get("exponentialRetryPolicy"),
        "customizedRetryPolicy": plain.get("customizedRetryPolicy"),
    }


def group_text(config: SubscriptionGroupConfig) -> str:
    inner = ", ".join(f"{key}={value}" for key, value in group_fields(config).items())
    return f"SubscriptionGroupConfig{{{inner}}}"


def message_text(message: MessageExt) -> str:
    """A stored message with everything it carries."""
    born_host, born_port = message.born_host
    store_host, store_port = message.store_host
    body = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in message.body)
    return (
        f"MessageExt [brokerName={message.broker_name or 'null'}, queueId={message.queue_id}, "
        f"storeSize={message.store_size}, queueOffset={message.queue_offset}, "
        f"sysFlag={message.sys_flag}, bornTimestamp={message.born_timestamp}, "
        f"bornHost=/{born_host}:{born_port}, storeTimestamp={message.store_timestamp}, "
        f"storeHost=/{store_host}:{store_port}, msgId={message.offset_msg_id}, "
        f"commitLogOffset={message.physical_offset}, bodyCRC={message.body_crc}, "
        f"reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, "
        f"toString()=Message{{topic='{message.topic}', flag={message.flag}, "
        f"properties={map_text(message.properties)}, body=[{body}], "
        f"transactionId='{_transaction_id(message)}'}}]"
    )


def direct_result_text(result: ConsumeMessageDirectlyResult) -> str:
    """How a client consumed a message it was handed."""
    return (
        f"ConsumeMessageDirectlyResult [order={text_of(result.order)}, "
        f"autoCommit={text_of(result.auto_commit)}, "
        f"consumeResult={text_of(result.consume_result)}, remark={text_of(result.remark)}, "
        f"spentTimeMills={result.spent_time_mills}]"
    )


def _transaction_id(message: MessageExt) -> str:
    """Java's clients set it for messages of transactions only."""
    is_of_transaction = message.get_property(PropertyName.TRANSACTION_PREPARED) == "true"
    return text_of(message.transaction_id if is_of_transaction else None)
