"""The asyncio SDK: the names of `rocketq`, as coroutines.

from rocketq.aio import Message, Producer, PushConsumer

async with Producer("orders-service", namesrv="127.0.0.1:9876") as producer:
    await producer.send(Message("orders", b"..."))
"""

from typing import TYPE_CHECKING

from rocketq.common.language.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from rocketq.client.blocking.loop_thread import run as run
    from rocketq.client.consumer.lite.consumer import LitePullConsumer as LitePullConsumer
    from rocketq.client.consumer.pull.consumer import PullConsumer as PullConsumer
    from rocketq.client.consumer.pull.schedule import PullSchedule as PullSchedule
    from rocketq.client.consumer.push.consumer import PushConsumer as PushConsumer
    from rocketq.client.consumer.simple.consumer import SimpleConsumer as SimpleConsumer
    from rocketq.client.extras.template import Template as Template
    from rocketq.client.names import *  # noqa: F403
    from rocketq.client.producer.producer import Producer as Producer
    from rocketq.client.producer.transaction import TransactionProducer as TransactionProducer

__all__ = _lazy_names(__name__)
