"""The driver's questions to brokers, and what it says of messages that are gone.

The driver decides what is read: which queues, from where to where. A range of one queue is a
partition, and `task` reads it.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue
from rocketq.spark.options import SourceOptions
from rocketq.spark.read.data_loss import DataLoss, raise_or_warn
from rocketq.spark.read.offsets import Offsets
from rocketq.spark.read.topics import SourceTopics
from rocketq.spark.wire.client import opened
from rocketq.spark.wire.retry import Retry

T = TypeVar("T")


class Driver:
    """Asks brokers on behalf of a reader. Its client is opened when it is first needed.

    Readers are sent to executors, and this goes with them as the options alone.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._opening: AbstractAsyncContextManager[ClientInstance] | None = None
        self._client: ClientInstance | None = None

    def ask(self, question: Callable[[SourceTopics], Awaitable[T]]) -> T:
        """The answer, as often as it takes to get one within the time for that."""

        async def answer() -> T:
            retry = Retry(self._options.connection.retry_within_s)
            while True:
                try:
                    if self._client is None:
                        self._opening = opened(self._options.connection)
                        self._client = await self._opening.__aenter__()
                    return await question(SourceTopics(self._client, self._options))
                except RocketqError as error:
                    await retry.pause(error)

        return loop_thread().run(answer())

    def close(self) -> None:
        opening, self._opening, self._client = self._opening, None, None
        if opening is not None:
            loop_thread().run(opening.__aexit__(None, None, None))

    def __reduce__(self) -> tuple[Any, ...]:
        return Driver, (self._options,)


def report_loss(
    options: SourceOptions, queue: MessageQueue, start: int, end: int | None, why: str
) -> None:
    raise_or_warn(DataLoss(queue, start, end, why), fails=options.fail_on_data_loss)


def skip_expired(
    options: SourceOptions, start: Offsets, end: Mapping[MessageQueue, int], first: Offsets
) -> None:
    """Move `start` to what is still there, and say so where that leaves something out."""
    for queue, beginning in first.items():
        if start[queue] < min(beginning, end[queue]):
            until = min(beginning, end[queue])
            report_loss(options, queue, start[queue], until, f"the queue now begins at {beginning}")
            start[queue] = until
