"""Requests whose answers are large, and take long to make: a few of them at a time.

Such an answer is complete in memory before it leaves, and while many were made side by side,
all of them would lie there half done. One connection makes one at a time, and all of them a
few; a question that waits for its turn is small.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from rocketq.remoting import Command, Connection, Handlers, RequestCode
from rocketq.remoting.link.handlers import Handler, RunHandler

_FEW: Final = 8
_LOCK: Final = "makes a large answer"

LARGE: Final = frozenset(
    {
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    }
)


class LargeAnswers:
    """Of one broker; used in its loop only."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(_FEW)

    def limited(self, handlers: Handlers) -> Handlers:
        """The same handlers; those of large answers run when their turn has come."""
        return {
            code: self._in_turn(handler)
            if code in LARGE and not isinstance(handler, RunHandler)
            else handler
            for code, handler in handlers.items()
        }

    def _in_turn(self, handler: Handler) -> Handler:
        async def in_turn(request: Command, connection: Connection) -> Command | None:
            lock: asyncio.Lock = connection.attributes.setdefault(_LOCK, asyncio.Lock())
            async with lock:
                await connection.writable()  # who does not read has enough answers
                async with self._room:
                    if connection.is_closing:
                        return None
                    answer = handler(request, connection)
                    return await answer if isinstance(answer, Awaitable) else answer

        return in_turn
