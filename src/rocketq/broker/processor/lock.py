"""Locks and unlocks queues for consumers that consume in order."""

from rocketq.broker.queue_locks import QueueLocks
from rocketq.remoting import Command, Connection, RequestCode, Routes
from rocketq.remoting.bodies.locks import LockBatchRequest, LockBatchResponse, UnlockBatchRequest


class LockProcessor:
    """Hands out what `QueueLocks` grants."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks

    def routes(self) -> Routes:
        return {
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
        }

    def _lock(self, request: Command, connection: Connection) -> Command:
        asked = LockBatchRequest.from_request(request)
        held = self._locks.lock(asked.consumer_group, asked.client_id, asked.mq_set)
        return request.reply(body=LockBatchResponse(lock_ok_mq_set=sorted(held)).encode())

    def _unlock(self, request: Command, connection: Connection) -> Command:
        asked = UnlockBatchRequest.from_request(request)
        self._locks.unlock(asked.consumer_group, asked.client_id, asked.mq_set)
        return request.reply()
