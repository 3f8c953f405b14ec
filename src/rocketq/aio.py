"""The asyncio SDK: the names of `rocketq`, as coroutines.

from rocketq.aio import Message, Producer, PushConsumer

async with Producer("orders-service", namesrv="127.0.0.1:9876") as producer:
    await producer.send(Message("orders", b"..."))
"""

from typing import TYPE_CHECKING

from rocketq.client.names import ASYNCIO
from rocketq.common.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, ASYNCIO)

if TYPE_CHECKING:
    from rocketq.client import errors as errors
    from rocketq.client.blocking.loop_thread import run as run
    from rocketq.client.consumer.allocation import AllocationStrategy as AllocationStrategy
    from rocketq.client.consumer.allocation import Average as Average
    from rocketq.client.consumer.allocation import AverageByCircle as AverageByCircle
    from rocketq.client.consumer.allocation import ConsistentHash as ConsistentHash
    from rocketq.client.consumer.allocation import FixedQueues as FixedQueues
    from rocketq.client.consumer.allocation import MachineRoom as MachineRoom
    from rocketq.client.consumer.allocation import MachineRoomNearby as MachineRoomNearby
    from rocketq.client.consumer.lite.consumer import LitePullConsumer as LitePullConsumer
    from rocketq.client.consumer.pull.consumer import PullConsumer as PullConsumer
    from rocketq.client.consumer.pull.schedule import PullSchedule as PullSchedule
    from rocketq.client.consumer.pull.schedule import PullTurn as PullTurn
    from rocketq.client.consumer.pull_result import PullResult as PullResult
    from rocketq.client.consumer.pull_result import PullStatus as PullStatus
    from rocketq.client.consumer.push.consumer import PushConsumer as PushConsumer
    from rocketq.client.consumer.push.listener import ConsumeLater as ConsumeLater
    from rocketq.client.consumer.push.listener import ConsumeStatus as ConsumeStatus
    from rocketq.client.consumer.push.listener import Delivery as Delivery
    from rocketq.client.consumer.start_offset import ConsumeFrom as ConsumeFrom
    from rocketq.client.consumer.subscription import Sql as Sql
    from rocketq.client.extras.log_handler import RocketqHandler as RocketqHandler
    from rocketq.client.extras.template import Template as Template
    from rocketq.client.producer.producer import Producer as Producer
    from rocketq.client.producer.request_reply import reply_to as reply_to
    from rocketq.client.producer.result import SendResult as SendResult
    from rocketq.client.producer.result import SendStatus as SendStatus
    from rocketq.client.producer.selectors import by_hash as by_hash
    from rocketq.client.producer.selectors import by_random as by_random
    from rocketq.client.producer.transaction import TransactionProducer as TransactionProducer
    from rocketq.client.producer.transaction import TransactionSendResult as TransactionSendResult
    from rocketq.client.producer.transaction import TransactionState as TransactionState
    from rocketq.common.errors import RocketqError as RocketqError
    from rocketq.message.message import Message as Message
    from rocketq.message.message import MessageExt as MessageExt
    from rocketq.message.queue import MessageQueue as MessageQueue
