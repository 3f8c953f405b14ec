"""A server that was started by another process of rocketq, and stops with it.

Such a process is an ordinary `rocketq` command with `--with-parent`. It has two pipes to the
process that started it, and needs nothing else:

    stdin    nothing is ever written; its end means stop. The system closes it also when
             the parent is killed, so no server is left behind.
    stdout   its `ready` line

Settings that are secret are handed over in the environment: everybody on a machine sees the
arguments of its processes.

Signals are the parent's business: a service manager's SIGTERM goes to all processes of a
service, and would stop a broker before the parent knows that this is wanted.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Annotated, Final

from rocketq.cli.commands import Option

WITH_PARENT: Final = "--with-parent"
_SECRETS: Final = "ROCKETQ_SECRET_SETTINGS"

WithParent = Annotated[bool, Option(WITH_PARENT, hidden=True)]


# In the parent


def secrets_for_child(settings: Mapping[str, str]) -> dict[str, str]:
    """What its environment needs beside the parent's own."""
    return {_SECRETS: json.dumps(dict(settings))}


# In the child


def secrets_of_parent() -> dict[str, str]:
    """The settings that did not come with its arguments."""
    found: dict[str, str] = json.loads(os.environ.pop(_SECRETS, "{}"))
    return found


def stop_with_parent(stop: asyncio.Event) -> None:
    """Stop when stdin ends, and leave signals to the parent."""
    loop = asyncio.get_running_loop()
    stdin = sys.stdin.fileno()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)

    def readable() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            stop.set()

    loop.add_reader(stdin, readable)
