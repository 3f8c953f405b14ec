"""The answer to a broker that asks about half messages nobody has ended (CHECK_TRANSACTION_STATE).

Those of a batch that is done, or of one before it, are left over: of tasks that died, that ran
twice, or whose batch was decided without them. They are rolled back. About all others nothing is
said: the driver ends them, or the one that is started in its place. Nobody commits here, because a
broker that is told twice stores twice.

Brokers ask any process of the producer group. The workers of Spark are such as long as they live.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.common.errors import RocketqError
from rocketq.message.flags import SysFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import wrap_namespace
from rocketq.remoting.headers import CheckTransactionState, EndTransaction
from rocketq.spark.options import ClusterAccess, SinkOptions
from rocketq.spark.wire.client import client_config
from rocketq.spark.write.once.task_name import BATCH_PROPERTY
from rocketq.spark.write.whole.ledger import find_home

logger = logging.getLogger(__name__)

_AT_A_TIME: Final = 8
_WAITING: Final = 2000

_checks: "dict[tuple[ClusterAccess, str], Checks]" = {}


def answer_checks(options: SinkOptions, topic: str) -> None:
    """Have this process answer from now on. `topic` as on the wire."""
    group = wrap_namespace(options.connection.namespace, options.producer_group)
    key = options.connection, group
    try:
        if key not in _checks:
            _checks[key] = loop_thread().run(Checks.started(options.connection, group))
        loop_thread().run(_checks[key].introduce(topic))
    except RocketqError as error:
        logger.info("brokers do not know yet whom to ask about half messages: %s", error)


class Checks:
    """A member of a producer group that only answers. Lives on the loop, as long as the process."""

    def __init__(self, client: ClientInstance, group: str) -> None:
        self._client = client
        self.group = group
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(_AT_A_TIME)
        self._over: dict[tuple[str, str], int] = {}  # topic and sink: its last batch that is done
        self._introduced: set[str] = set()

    @classmethod
    async def started(cls, access: ClusterAccess, group: str) -> "Checks":
        checks = cls(await ClientInstance.acquire(client_config(access)), group)
        checks._client.register_producer(checks)
        return checks

    def announced_topics(self) -> Iterable[str]:
        """None: `introduce` names them."""
        return ()

    async def introduce(self, topic: str) -> None:
        """Let the brokers of a topic know that somebody is here."""
        if topic not in self._introduced:
            await self._client.routes.publish_info(topic)
            await self._client.heartbeat()
            self._introduced.add(topic)

    def check_transaction(
        self, header: CheckTransactionState, message: MessageExt, address: str
    ) -> None:
        if len(self._tasks) < _WAITING:
            task = asyncio.get_running_loop().create_task(self._answer(header, message, address))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(
        self, header: CheckTransactionState, message: MessageExt, address: str
    ) -> None:
        try:
            async with self._places:
                if not await self._is_left_over(message):
                    return
            await self._client.api.end_transaction(
                address,
                EndTransaction(
                    producer_group=self.group,
                    tran_state_table_offset=header.tran_state_table_offset,
                    commit_log_offset=header.commit_log_offset,
                    commit_or_rollback=SysFlag.TRANSACTION_ROLLBACK,
                    from_transaction_check=True,
                    msg_id=message.unique_key or header.msg_id or "",
                    transaction_id=header.transaction_id,
                    topic=message.topic,
                    broker_name=header.broker_name,
                ),
            )
        except RocketqError as error:
            logger.info("a half message of %s is left for later: %s", message.topic, error)

    async def _is_left_over(self, message: MessageExt) -> bool:
        sink, _, number = (message.get_property(BATCH_PROPERTY) or "").partition(":")
        if not number.isdigit():
            return False
        topic, batch = message.topic, int(number)
        if self._over.get((topic, sink), -1) < batch:
            self._over[topic, sink] = await self._last_done(topic, sink)
        return self._over[topic, sink] >= batch

    async def _last_done(self, topic: str, sink: str) -> int:
        """The last batch of a sink that is done, -1 if there is none."""
        home = await find_home(self._client, topic, self.group)
        if home is None:
            return -1
        decided = await home.last_decided(sink)
        if decided is None:
            return -1
        # In this order: what is decided later is not taken to be done.
        left = (await home.tail()).left
        is_left = left is not None and (left.sink, left.batch) == (sink, decided.batch)
        return decided.batch - 1 if is_left else decided.batch
