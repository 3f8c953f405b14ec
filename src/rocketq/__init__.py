"""rocketq: Apache RocketMQ's system in Python.

The blocking SDK is here (`from rocketq import Producer, PushConsumer, Message`), its asyncio
twin with the same names in `rocketq.aio`. Names load on first use, so that a broker does not
pay for the SDK nor a producer for the store.
"""

import os
from typing import TYPE_CHECKING

if os.environ.get("ROCKETQ_PURE") == "1":
    # Before any submodule: from here on the sources win over what was compiled from them.
    from rocketq.common import uncompiled

    uncompiled.prefer_sources()

from rocketq.client.names import BLOCKING
from rocketq.common.lazy_names import lazy_names

__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(__name__, BLOCKING)

if TYPE_CHECKING:
    from rocketq.client import errors as errors
    from rocketq.client.blocking.consumers import LitePullConsumer as LitePullConsumer
    from rocketq.client.blocking.consumers import PullConsumer as PullConsumer
    from rocketq.client.blocking.consumers import PullSchedule as PullSchedule
    from rocketq.client.blocking.consumers import PushConsumer as PushConsumer
    from rocketq.client.blocking.producer import Producer as Producer
    from rocketq.client.blocking.producer import TransactionProducer as TransactionProducer
    from rocketq.client.consumer.allocation import AllocationStrategy as AllocationStrategy
    from rocketq.client.consumer.allocation import Average as Average
    from rocketq.client.consumer.allocation import AverageByCircle as AverageByCircle
    from rocketq.client.consumer.allocation import ConsistentHash as ConsistentHash
    from rocketq.client.consumer.allocation import FixedQueues as FixedQueues
    from rocketq.client.consumer.allocation import MachineRoom as MachineRoom
    from rocketq.client.consumer.allocation import MachineRoomNearby as MachineRoomNearby
    from rocketq.client.consumer.pull.schedule import PullTurn as PullTurn
    from rocketq.client.consumer.pull_result import PullResult as PullResult
    from rocketq.client.consumer.pull_result import PullStatus as PullStatus
    from rocketq.client.consumer.push.listener import ConsumeLater as ConsumeLater
    from rocketq.client.consumer.push.listener import ConsumeStatus as ConsumeStatus
    from rocketq.client.consumer.push.listener import Delivery as Delivery
    from rocketq.client.consumer.start_offset import ConsumeFrom as ConsumeFrom
    from rocketq.client.consumer.subscription import Sql as Sql
    from rocketq.client.extras.log_handler import RocketqHandler as RocketqHandler
    from rocketq.client.producer.request_reply import reply_to as reply_to
    from rocketq.client.producer.result import SendResult as SendResult
    from rocketq.client.producer.result import SendStatus as SendStatus
    from rocketq.client.producer.selectors import by_hash as by_hash
    from rocketq.client.producer.selectors import by_random as by_random
    from rocketq.client.producer.transaction import TransactionSendResult as TransactionSendResult
    from rocketq.client.producer.transaction import TransactionState as TransactionState
    from rocketq.common.errors import RocketqError as RocketqError
    from rocketq.message.message import Message as Message
    from rocketq.message.message import MessageExt as MessageExt
    from rocketq.message.queue import MessageQueue as MessageQueue
