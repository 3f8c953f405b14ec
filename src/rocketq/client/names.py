"""The public names that `rocketq` and `rocketq.aio` share.

A list for type checkers, read as text by `rocketq.common.language.lazy_names`: nothing is
imported before it is used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketq.client import errors as errors
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
