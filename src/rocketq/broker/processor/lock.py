"""Locks and unlocks queues for consumers that consume in order."""

from typing import Final

from rocketq.broker.queue_locks import QueueLocks
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics, queue_count
from rocketq.common.loop.turns import Turns
from rocketq.message.queue import MessageQueue
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.locks import LockBatchRequest, LockBatchResponse, UnlockBatchRequest

_QUEUES_A_STEP: Final = 500


class LockProcessor:
    """Hands out what `QueueLocks` grants."""

    def __init__(
        self, locks: QueueLocks, topics: Topics, groups: SubscriptionGroups, turns: Turns
    ) -> None:
        self._locks = locks
        self._topics = topics
        self._groups = groups
        self._turns = turns

    def handlers(self) -> Handlers:
        return {
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
        }

    async def _lock(self, request: Command, connection: Connection) -> Command:
        asked = LockBatchRequest.from_request(request)
        if asked.consumer_group not in self._groups:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {asked.consumer_group}",
            )
        held: list[MessageQueue] = []
        async for first in self._turns.over(range(0, len(asked.mq_set), _QUEUES_A_STEP)):
            # Only what can be consumed here: locks of invented queues would only take up room.
            queues = filter(self._is_there, asked.mq_set[first : first + _QUEUES_A_STEP])
            held += self._locks.lock(asked.consumer_group, asked.client_id, queues)
        return request.reply(body=LockBatchResponse(lock_ok_mq_set=held).encode())

    def _is_there(self, queue: MessageQueue) -> bool:
        topic = self._topics.get(queue.topic)
        return topic is not None and 0 <= queue.queue_id < queue_count(topic)

    def _unlock(self, request: Command, connection: Connection) -> Command:
        asked = UnlockBatchRequest.from_request(request)
        self._locks.unlock(asked.consumer_group, asked.client_id, asked.mq_set)
        return request.reply()
