"""How a command ends when it cannot do what it was asked: one line on stderr, code 1."""

import sys
from typing import NoReturn

from rocketq.cli.servers.logs import log_to_stderr

__all__ = ["AlreadyTold", "CannotStart", "explained", "fail", "log_to_stderr"]

_NOT_SUPPORTED = 3
# Requests that only NameServers answer: whoever refuses one of them is something else.
_NAME_SERVERS_OWN = ("GET_ROUTEINFO_BY_TOPIC", "GET_BROKER_CLUSTER_INFO", "GET_ALL_TOPIC_LIST")


class CannotStart(Exception):
    """Something outside the program is in its way, now or later; the text says what."""


class AlreadyTold(Exception):
    """The reason has been written to stderr; only the exit code is left."""


def fail(reason: object) -> NoReturn:
    print(f"rocketq: {explained(reason)}", file=sys.stderr)
    raise SystemExit(1)


def explained(reason: object) -> str:
    """An error in words that lead on, where the usual cause is known."""
    error: object = reason
    while isinstance(error, BaseException):
        code, request = getattr(error, "code", None), getattr(error, "request", "")
        if code == _NOT_SUPPORTED and any(each in request for each in _NAME_SERVERS_OWN):
            address = getattr(error, "address", "it")
            return f"{address} is not a NameServer; a broker? -n wants the NameServer's address"
        error = error.__cause__
    return str(reason)
