"""Locks on queues, held at their brokers by orderly consumers.

One member of a group at a time may consume a queue in order. A broker keeps a lock for 60
seconds after it was last asked for; its holder renews it every 20 and stops relying on it after
30, so two members never both believe they hold it.
"""

import asyncio
import logging
from collections.abc import Iterable

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.outages import is_outage
from rocketq.client.consumer.process_queue import ProcessQueue
from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)


class QueueLocks:
    """Takes and returns the locks of one group on behalf of one client."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def lock(
        self, queues: Iterable[MessageQueue]
    ) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Ask the brokers; answers which queues are granted, and which nobody decided about."""
        granted: set[MessageQueue] = set()
        undecided: set[MessageQueue] = set()

        async def ask(broker_name: str, wanted: list[MessageQueue]) -> None:
            address = self._instance.routes.master(broker_name)
            if address is None:
                undecided.update(wanted)
                return
            try:
                granted.update(
                    await self._instance.api.lock(
                        address, self._instance.client_id, self._group, wanted
                    )
                )
            except RocketqError as error:
                level = logging.DEBUG if is_outage(error) else logging.WARNING
                logger.log(level, "queues of %s could not be locked: %s", broker_name, error)
                undecided.update(wanted)

        await asyncio.gather(*(ask(*group) for group in _by_broker(queues).items()))
        return granted, undecided

    async def renew(self, process_queues: Iterable[ProcessQueue]) -> None:
        """Take the locks of these queues, or keep them; note in each what came of it."""
        by_queue = {process_queue.queue: process_queue for process_queue in process_queues}
        granted, undecided = await self.lock(by_queue)
        now_ms = self._instance.clock.now_ms()
        for queue, process_queue in by_queue.items():
            if queue in granted:
                if not process_queue.locked:
                    logger.info("locked %s", queue)
                process_queue.locked = True
                process_queue.last_lock_ms = now_ms
            elif queue not in undecided:
                # Another client holds it. Unreachable brokers decide nothing: the lock runs out.
                if process_queue.locked:
                    logger.warning("the lock on %s is lost", queue)
                process_queue.locked = False

    async def unlock(self, queues: Iterable[MessageQueue], *, acknowledged: bool = False) -> None:
        """Give locks back, so that the next owner need not wait for them to run out."""

        async def tell(broker_name: str, held: list[MessageQueue]) -> None:
            address = self._instance.routes.master(broker_name)
            if address is None:
                return
            try:
                await self._instance.api.unlock(
                    address,
                    self._instance.client_id,
                    self._group,
                    held,
                    oneway=not acknowledged,
                )
            except RocketqError as error:
                level = logging.DEBUG if is_outage(error) else logging.WARNING
                logger.log(level, "queues of %s could not be unlocked: %s", broker_name, error)

        await asyncio.gather(*(tell(*group) for group in _by_broker(queues).items()))


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    groups: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        groups.setdefault(queue.broker_name, []).append(queue)
    return groups
