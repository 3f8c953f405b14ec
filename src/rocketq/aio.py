"""The asyncio SDK: the names of `rocketq`, as coroutines.

from rocketq.aio import Message, Producer, PushConsumer

async with Producer("orders-service", namesrv="127.0.0.1:9876") as producer:
    await producer.send(Message("orders", b"..."))
"""

from typing import TYPE_CHECKING

from rocketq.client.public_names import ASYNCIO
from rocketq.common.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, ASYNCIO)

if TYPE_CHECKING:
    from rocketq.client import errors as errors
    from rocketq.client.allocation import AllocationStrategy as AllocationStrategy
    from rocketq.client.allocation import Average as Average
    from rocketq.client.allocation import AverageByCircle as AverageByCircle
    from rocketq.client.allocation import ConsistentHash as ConsistentHash
    from rocketq.client.allocation import FixedQueues as FixedQueues
    from rocketq.client.allocation import MachineRoom as MachineRoom
    from rocketq.client.allocation import MachineRoomNearby as MachineRoomNearby
    from rocketq.client.listener import ConsumeLater as ConsumeLater
    from rocketq.client.listener import ConsumeStatus as ConsumeStatus
    from rocketq.client.listener import Delivery as Delivery
    from rocketq.client.lite_pull_consumer import LitePullConsumer as LitePullConsumer
    from rocketq.client.log_handler import RocketqHandler as RocketqHandler
    from rocketq.client.loop_thread import run as run
    from rocketq.client.producer import Producer as Producer
    from rocketq.client.pull_consumer import PullConsumer as PullConsumer
    from rocketq.client.pull_result import PullResult as PullResult
    from rocketq.client.pull_result import PullStatus as PullStatus
    from rocketq.client.pull_schedule import PullSchedule as PullSchedule
    from rocketq.client.pull_schedule import PullTurn as PullTurn
    from rocketq.client.push_consumer import PushConsumer as PushConsumer
    from rocketq.client.request_reply import reply_to as reply_to
    from rocketq.client.selectors import by_hash as by_hash
    from rocketq.client.selectors import by_random as by_random
    from rocketq.client.send_result import SendResult as SendResult
    from rocketq.client.send_result import SendStatus as SendStatus
    from rocketq.client.start_offset import ConsumeFrom as ConsumeFrom
    from rocketq.client.subscription import Sql as Sql
    from rocketq.client.template import Template as Template
    from rocketq.client.transaction import TransactionProducer as TransactionProducer
    from rocketq.client.transaction import TransactionSendResult as TransactionSendResult
    from rocketq.client.transaction import TransactionState as TransactionState
    from rocketq.common.errors import RocketqError as RocketqError
    from rocketq.message.message import Message as Message
    from rocketq.message.message import MessageExt as MessageExt
    from rocketq.message.queue import MessageQueue as MessageQueue
