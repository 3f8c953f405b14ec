"""The audit log: refused requests, and changes of who may do what.

A refusal is a record at once. The same again (code, peer, user, reason) within a second is
counted, and the count is a record at its end: whoever is refused thousands of times must not
keep the others waiting while it is written down.
"""

import asyncio
import logging
from typing import Final

from rocketq.remoting.access.signature import ACCESS_KEY
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.hot.signed import field_of
from rocketq.remoting.wire.command import Command

audit = logging.getLogger("rocketq.audit")

_LONGEST_NAME: Final = 256
_INTERVAL_S: Final = 1.0
# So many different refusals are written per interval; of further ones the peer is.
_MOST: Final = 100

_Key = tuple[int | str, str, str, str]
"""Code or RPC, peer, user, reason."""


class Refusals:
    """What was refused in this second. Belongs to one loop."""

    def __init__(self) -> None:
        self._again: dict[_Key, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, peer: str, request: Command, cause: RequestRejected) -> None:
        self.note(request.code, peer, field_of(request, ACCESS_KEY), cause.remark or "")

    def note(self, what: int | str, peer: str, user: str, reason: str) -> None:
        """`what` is the code of a request, or the name of an RPC."""
        key: _Key = (what, peer, user[:_LONGEST_NAME], reason)
        if key not in self._again and len(self._again) >= _MOST:
            key = (0, peer.rpartition(":")[0], "", "too many different refusals to name")
        if key in self._again:
            self._again[key] += 1
            return
        self._again[key] = 0
        _write(key, 1)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_INTERVAL_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        again, self._again = self._again, {}
        for key, times in again.items():
            if times:
                _write(key, times)


def _write(key: _Key, times: int) -> None:
    what, peer, user, reason = key
    named = {"rpc": what} if isinstance(what, str) else {"code": what}
    audit.warning(
        "refused", extra={**named, "peer": peer, "user": user, "reason": reason, "times": times}
    )


def change_line(change: str, peer: str, request: Command, subject: str) -> None:
    audit.info(
        change,
        extra={
            "subject": subject,
            "peer": peer,
            "user": request.ext_fields.get(ACCESS_KEY, "")[:_LONGEST_NAME],
        },
    )
