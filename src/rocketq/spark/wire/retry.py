"""How long it is worth to try again.

Brokers restart, and queries live for months: what cannot be reached now is asked again, with
growing pauses, until the time that the option `retryTimeoutMs` gives is over. A broker that
answers, but with a refusal, is not asked for that long: most of those never end by themselves.
"""

import asyncio
import logging
import time
from typing import Final

from rocketq.client.errors import BrokerRejected
from rocketq.common.errors import RocketqError
from rocketq.remoting.codes import ResponseCode

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_REFUSALS: Final = 3
_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})


class Retry:
    """The attempts at one thing.

    retry = Retry(within_s)
    while True:
        try:
            return await ask()
        except RocketqError as error:
            await retry.pause(error)  # raises it when that is of no more use
    """

    def __init__(self, within_s: float) -> None:
        self._ends = time.monotonic() + within_s
        self._pause_s = _FIRST_PAUSE_S
        self._refusals = 0
        self.attempts = 1

    async def pause(self, error: RocketqError) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self._pause_after(error, is_passing=False))

    def wait(self, error: RocketqError, *, is_passing: bool = False) -> None:
        """The same for a thread. `is_passing`: known to be, whatever the error says."""
        time.sleep(self._pause_after(error, is_passing=is_passing))

    def _pause_after(self, error: RocketqError, *, is_passing: bool) -> float:
        if not (error.retriable or is_passing):
            raise error
        if isinstance(error, BrokerRejected) and error.code not in _BUSY:
            self._refusals += 1
            if self._refusals == _REFUSALS:
                raise error
        pause_s = self._pause_s
        if time.monotonic() + pause_s > self._ends:
            raise error
        logger.info("again in %g s: %s", pause_s, error)
        self._pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self.attempts += 1
        return pause_s
