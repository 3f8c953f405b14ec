"""Which code is answered by what: the table between frames and the programs above.

A handler takes a request and the connection it came on. It may answer in three ways:

    return a Command          answered in the same turn of the loop, no task is made
    return an awaitable       (an `async def` handler) becomes a task, answered when done
    return None               no answer now: a oneway request, or one that is held and
                              answered later with `connection.send(request.reply(...))`

Requests that come in thousands per second are better taken in runs: `RunHandler(handle_run)`
is handed all neighbouring requests of its code from one read, and returns their replies
(or some of them, or None) in any order.

A handler that has done enough for one turn of the loop gives requests back with
`connection.put_off(requests)`: they, and all behind them, wait for `connection.take_up()`.

To refuse a request a handler raises `RequestRejected`. Whatever else it raises is logged
and answered with SYSTEM_ERROR.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from rocketq.remoting.wire.command import Command

if TYPE_CHECKING:
    from rocketq.remoting.link.connection import Connection

Handler = Callable[
    [Command, "Connection"], Command | Awaitable[Command] | Awaitable[Command | None] | None
]
HandleRun = Callable[[list[Command], "Connection"], list[Command] | None]


class RunHandler:
    """A handler that takes neighbouring requests of one code together."""

    __slots__ = ("handle_run",)

    def __init__(self, handle_run: HandleRun) -> None:
        self.handle_run = handle_run


Handlers = dict[int, Handler | RunHandler]
"""By request code."""


class RpcHook(Protocol):
    """Looks at every request before and after; raises `RequestRejected` to refuse one.

    On the calling side the hooks see requests before they are sent (to sign them) and the
    responses; on the answering side, requests before they are handled and the replies. A
    request that is held and answered later is not seen again.
    """

    def before_request(self, peer: str, request: Command) -> None: ...

    def after_response(self, peer: str, request: Command, response: Command) -> None: ...
