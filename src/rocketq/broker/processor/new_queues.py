"""Queues that messages make, a few in each turn of the loop.

The first message of a queue makes a file, which is a millisecond in everybody's time, and one
read of a connection may bring first messages of hundreds of queues. Those above the limit wait
in their connection, and with them whatever it has sent after them: the order of its requests
stays. Connections that wait go on in the order they came, one in each turn.
"""

import asyncio
from collections import deque
from typing import Final

from rocketq.remoting import Command, Connection

_A_TURN: Final = 8


class NewQueues:
    """Owned by the loop."""

    def __init__(self) -> None:
        self._made = 0
        self._waiting: deque[Connection] = deque()
        self._is_end_planned = False

    def may_make(self) -> bool:
        """Whether one more may be made in this turn; it counts as made then."""
        self._plan_end()
        if self._made >= _A_TURN:
            return False
        self._made += 1
        return True

    def wait(self, connection: Connection, requests: list[Command]) -> None:
        """Handle these requests, and all behind them, when it is the connection's turn."""
        connection.put_off(requests)
        self._waiting.append(connection)
        self._plan_end()

    def _plan_end(self) -> None:
        if not self._is_end_planned:
            self._is_end_planned = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_end_planned = False
        self._made = 0
        if self._waiting:
            # Taken out first: it may have to wait again, behind the others.
            connection = self._waiting.popleft()
            if self._waiting:
                self._plan_end()
            connection.take_up()
