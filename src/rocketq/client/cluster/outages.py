"""Servers that do not answer: said when it begins, now and then while it lasts, and when it ends.

Everything that asks a server that is away fails again and again, many times per second in a busy
process. The log gets one warning for each outage, not one for each caller: the table is shared
by all clients of the process.
"""

import logging
from dataclasses import dataclass
from typing import Final

from rocketq.client.errors import NameServersUnavailable
from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.remoting.errors import ConnectFailed, ConnectionLost, RequestTimeout

logger = logging.getLogger(__name__)

_REMIND_EVERY_S: Final = 300.0


@dataclass(slots=True)
class _Outage:
    began: float
    said: float
    failures: int = 1


class Outages:
    """Which servers do not answer. Any thread may use it."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._by_server: dict[str, _Outage] = {}

    def failed(self, server: str, error: BaseException) -> None:
        """A request to a server came to nothing; `server` is its kind and address."""
        now = self._clock.monotonic()
        outage = self._by_server.get(server)
        if outage is None:
            self._by_server[server] = _Outage(now, now)
            logger.warning("%s does not answer: %s", server, error)
            return
        outage.failures += 1
        if now - outage.said >= _REMIND_EVERY_S:
            outage.said = now
            logger.warning(
                "%s still does not answer, after %.0f s and %d attempts: %s",
                server,
                now - outage.began,
                outage.failures,
                error,
            )

    def answered(self, server: str) -> None:
        """A server has answered, whatever it said."""
        if server not in self._by_server:  # as nearly always
            return
        outage = self._by_server.pop(server, None)
        if outage is not None:
            logger.info(
                "%s answers again, after %.0f s; it did not %d times more",
                server,
                self._clock.monotonic() - outage.began,
                outage.failures - 1,
            )


OUTAGES: Final = Outages()
"""Of this process."""


def is_outage(error: BaseException) -> bool:
    """Whether an error means that a server is away, and not that it refused something."""
    return isinstance(
        error, ConnectFailed | ConnectionLost | RequestTimeout | NameServersUnavailable
    )
