"""Where the SDK's public names are defined: what `rocketq` and `rocketq.aio` offer.

Only text, no imports: the names are loaded when they are used.
"""

from typing import Final

SHARED: Final = {
    "AllocationStrategy": "rocketq.client.allocation",
    "Average": "rocketq.client.allocation",
    "AverageByCircle": "rocketq.client.allocation",
    "ConsistentHash": "rocketq.client.allocation",
    "ConsumeFrom": "rocketq.client.start_offset",
    "ConsumeLater": "rocketq.client.listener",
    "ConsumeStatus": "rocketq.client.listener",
    "Delivery": "rocketq.client.listener",
    "FixedQueues": "rocketq.client.allocation",
    "MachineRoom": "rocketq.client.allocation",
    "MachineRoomNearby": "rocketq.client.allocation",
    "Message": "rocketq.message.message",
    "MessageExt": "rocketq.message.message",
    "MessageQueue": "rocketq.message.queue",
    "PullResult": "rocketq.client.pull_result",
    "PullStatus": "rocketq.client.pull_result",
    "PullTurn": "rocketq.client.pull_schedule",
    "RocketqError": "rocketq.common.errors",
    "RocketqHandler": "rocketq.client.log_handler",
    "SendResult": "rocketq.client.send_result",
    "SendStatus": "rocketq.client.send_result",
    "Sql": "rocketq.client.subscription",
    "TransactionSendResult": "rocketq.client.transaction",
    "TransactionState": "rocketq.client.transaction",
    "by_hash": "rocketq.client.selectors",
    "by_random": "rocketq.client.selectors",
    "errors": "rocketq.client.errors",
    "reply_to": "rocketq.client.request_reply",
}

BLOCKING: Final = {
    **SHARED,
    "LitePullConsumer": "rocketq.client.blocking_consumers",
    "Producer": "rocketq.client.blocking",
    "PullConsumer": "rocketq.client.blocking_consumers",
    "PullSchedule": "rocketq.client.blocking_consumers",
    "PushConsumer": "rocketq.client.blocking_consumers",
    "TransactionProducer": "rocketq.client.blocking",
}

ASYNCIO: Final = {
    **SHARED,
    "LitePullConsumer": "rocketq.client.lite_pull_consumer",
    "Producer": "rocketq.client.producer",
    "PullConsumer": "rocketq.client.pull_consumer",
    "PullSchedule": "rocketq.client.pull_schedule",
    "PushConsumer": "rocketq.client.push_consumer",
    "TransactionProducer": "rocketq.client.transaction",
    "Template": "rocketq.client.template",
    "run": "rocketq.client.loop_thread",
}
