"""The form of a decision."""

from collections.abc import Mapping
from dataclasses import dataclass

from rocketq.controller.broker_set import BrokerSet
from rocketq.remoting.codes import ResponseCode


@dataclass(frozen=True, slots=True)
class Sign:
    """What the heartbeats of a living broker have said of it."""

    epoch: int = -1
    max_offset: int = -1
    priority: int = 2**31 - 1
    timeout_ms: int = 10_000


Living = Mapping[int, Sign]
"""The brokers of one set that are alive, by id."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a request, and what is so from now on.

    The answer holds only once `state` is kept: it is given after that, and asked for anew
    when somebody else was faster.
    """

    code: ResponseCode
    remark: str
    state: BrokerSet | None
    # There is a new master, which the living are told at once.
    has_new_master: bool = False


def refused(code: ResponseCode, remark: str, state: BrokerSet | None) -> Decision:
    """A decision that changes nothing."""
    return Decision(code, remark, state)


def agreed(state: BrokerSet) -> Decision:
    return Decision(ResponseCode.SUCCESS, "", state)
