"""Where the SDK's public names are defined: what `rocketq` and `rocketq.aio` offer.

Only text, no imports: the names are loaded when they are used.
"""

from typing import Final

SHARED: Final = {
    "AllocationStrategy": "rocketq.client.consumer.allocation",
    "Average": "rocketq.client.consumer.allocation",
    "AverageByCircle": "rocketq.client.consumer.allocation",
    "ConsistentHash": "rocketq.client.consumer.allocation",
    "ConsumeFrom": "rocketq.client.consumer.start_offset",
    "ConsumeLater": "rocketq.client.consumer.push.listener",
    "ConsumeStatus": "rocketq.client.consumer.push.listener",
    "Delivery": "rocketq.client.consumer.push.listener",
    "FixedQueues": "rocketq.client.consumer.allocation",
    "MachineRoom": "rocketq.client.consumer.allocation",
    "MachineRoomNearby": "rocketq.client.consumer.allocation",
    "Message": "rocketq.message.message",
    "MessageExt": "rocketq.message.message",
    "MessageQueue": "rocketq.message.queue",
    "PullResult": "rocketq.client.consumer.pull_result",
    "PullStatus": "rocketq.client.consumer.pull_result",
    "PullTurn": "rocketq.client.consumer.pull.schedule",
    "RocketqError": "rocketq.common.errors",
    "RocketqHandler": "rocketq.client.extras.log_handler",
    "SendResult": "rocketq.client.producer.result",
    "SendStatus": "rocketq.client.producer.result",
    "Sql": "rocketq.client.consumer.subscription",
    "TransactionSendResult": "rocketq.client.producer.transaction",
    "TransactionState": "rocketq.client.producer.transaction",
    "by_hash": "rocketq.client.producer.selectors",
    "by_random": "rocketq.client.producer.selectors",
    "errors": "rocketq.client.errors",
    "reply_to": "rocketq.client.producer.request_reply",
}

BLOCKING: Final = {
    **SHARED,
    "LitePullConsumer": "rocketq.client.blocking.consumers",
    "Producer": "rocketq.client.blocking.producer",
    "PullConsumer": "rocketq.client.blocking.consumers",
    "PullSchedule": "rocketq.client.blocking.consumers",
    "PushConsumer": "rocketq.client.blocking.consumers",
    "TransactionProducer": "rocketq.client.blocking.producer",
}

ASYNCIO: Final = {
    **SHARED,
    "LitePullConsumer": "rocketq.client.consumer.lite.consumer",
    "Producer": "rocketq.client.producer.producer",
    "PullConsumer": "rocketq.client.consumer.pull.consumer",
    "PullSchedule": "rocketq.client.consumer.pull.schedule",
    "PushConsumer": "rocketq.client.consumer.push.consumer",
    "TransactionProducer": "rocketq.client.producer.transaction",
    "Template": "rocketq.client.extras.template",
    "run": "rocketq.client.blocking.loop_thread",
}
