"""Where the scripts begin, before anything else is imported.

Importing takes some hundred milliseconds. Whoever presses Ctrl-C in that time wants the
program to end, not to read where Python was. The modules used here are built into the
interpreter; `rocketq.cli.interrupts` takes over once it is loaded.
"""

import sys
from _signal import SIG_IGN, SIGINT, getsignal, signal  # type: ignore[import-not-found]
from posix import _exit

# Ending a server or `tail` with Ctrl-C is the usual way; ending anything else cuts it short.
ENDLESS = frozenset(
    "up namesrv broker controller proxy console tail mqnamesrv mqbroker mqcontroller".split()
)


def interrupted_code(command: str) -> int:
    """The exit code of a command that Ctrl-C ended."""
    return 0 if command in ENDLESS else 130


def _guard(command: str) -> None:
    if getsignal(SIGINT) is not SIG_IGN:  # in the background of a script nobody means us
        code = interrupted_code(command)
        signal(SIGINT, lambda *_: _exit(code))


def rocketq() -> None:
    _guard(sys.argv[1] if len(sys.argv) > 1 else "")
    from rocketq.cli import main

    main()


def mqnamesrv() -> None:
    _guard("mqnamesrv")
    from rocketq.cli import mqnamesrv

    mqnamesrv()


def mqbroker() -> None:
    _guard("mqbroker")
    from rocketq.cli import mqbroker

    mqbroker()


def mqcontroller() -> None:
    _guard("mqcontroller")
    from rocketq.cli import mqcontroller

    mqcontroller()


def mqadmin() -> None:
    _guard("mqadmin")
    from rocketq.cli import mqadmin

    mqadmin()


def mqshutdown() -> None:
    _guard("mqshutdown")
    from rocketq.cli import mqshutdown

    mqshutdown()
