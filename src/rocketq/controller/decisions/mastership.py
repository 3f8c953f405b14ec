"""Who is master, and who has everything that was acknowledged.

Only brokers of the sync-state set may follow a master: they have what it has confirmed. A set
whose members are all gone waits for one of them, unless unclean election is allowed, which
takes any replica and gives up what the others had more.
"""

from collections.abc import Iterable
from typing import Final

from rocketq.controller.broker_set import BrokerSet
from rocketq.controller.decisions.decision import Decision, Living, Sign, agreed, refused
from rocketq.remoting.codes import ResponseCode

_EPOCHS_AHEAD: Final = 1_000_000


def elect(
    state: BrokerSet | None,
    living: Living,
    *,
    asked_by: int | None = None,
    is_designated: bool = False,
    unclean: bool = False,
) -> Decision:
    """Find a master. `asked_by` is a broker's id, or the one that an administrator wants.

    A master that lives stays, unless another one is designated. Nobody named asks on behalf
    of the controller itself, when a master is gone: then having none is a decision, too.
    """
    is_stranger = asked_by is not None and state is not None and asked_by not in state.replicas
    if state is None or not state.is_known or is_stranger:
        remark = "the broker is not registered here"
        return refused(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, state)
    if not state.in_sync and asked_by is not None:
        # The first one ever, or all that were in sync were cleaned away: whoever asks.
        return _new_master(state, asked_by, living)
    designated = asked_by if is_designated else None
    chosen = _choose(state, state.in_sync, living, designated)
    if chosen is None and unclean:
        chosen = _choose(state, state.replicas, living, designated)
    if chosen is None:
        return _nobody(state, asked_by)
    if chosen == state.master_id:
        remark = f"the master, broker {chosen}, is alive and stays"
        return Decision(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, remark, state)
    return _new_master(state, chosen, living)


def _choose(
    state: BrokerSet, pool: Iterable[int], living: Living, designated: int | None
) -> int | None:
    candidates = {number: living[number] for number in pool if number in living}
    master = state.master_id
    if master in candidates and designated in (None, master):
        return master
    if designated is not None:
        return designated if designated in candidates else None
    return max(candidates, key=lambda number: _rank(number, candidates[number]), default=None)


def _rank(number: int, sign: Sign) -> tuple[int, int, int, int]:
    """Whoever has the longest log of the latest epoch; between equals the lower numbers win."""
    return sign.epoch, sign.max_offset, -sign.priority, -number


def _new_master(state: BrokerSet, broker_id: int, living: Living) -> Decision:
    # Brokers may know later epochs than a state that was restored from an old copy, and refuse
    # to go back; a number far from all others is somebody's mistake.
    limit = state.master_epoch + _EPOCHS_AHEAD
    known = max((each.epoch for each in living.values() if each.epoch <= limit), default=0)
    sign = living.get(broker_id, Sign())
    elected = state.with_master(broker_id, sign.timeout_ms, epoch_above=known)
    return Decision(ResponseCode.SUCCESS, "", elected, has_new_master=True)


def _nobody(state: BrokerSet, asked_by: int | None) -> Decision:
    if asked_by is not None:
        remark = f"no broker of {state.name} that may be master is alive"
        return refused(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, remark, state)
    remark = f"{state.name} has no master: no broker that may be it is alive"
    # Once is enough. Java raises the epoch with each attempt.
    after = state if state.master_id is None else state.without_master()
    return Decision(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, remark, after)


def alter_in_sync(
    state: BrokerSet | None,
    living: Living,
    *,
    master_id: int,
    master_epoch: int,
    members: frozenset[int],
    in_sync_epoch: int,
) -> Decision:
    """A master says who has everything. It must be master, and know the latest set."""

    def wrong(code: ResponseCode, remark: str) -> Decision:
        return refused(code, f"the sync-state set stays as it is: {remark}", state)

    if state is None or not state.is_known:
        return wrong(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "nobody knows the set")
    if members == state.in_sync:
        return wrong(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "it has these members")
    if master_id != state.master_id:
        return wrong(ResponseCode.CONTROLLER_INVALID_MASTER, f"the master is {state.master_id}")
    if master_epoch != state.master_epoch:
        remark = f"the master's epoch is {state.master_epoch}, not {master_epoch}"
        return wrong(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark)
    if in_sync_epoch != state.in_sync_epoch:
        remark = f"its epoch is {state.in_sync_epoch}, not {in_sync_epoch}"
        return wrong(ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark)
    for member in sorted(members):
        if member not in state.replicas:
            return wrong(ResponseCode.CONTROLLER_INVALID_REPLICAS, f"there is no broker {member}")
        if member not in living:
            return wrong(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"broker {member} is not alive")
    if master_id not in members:
        return wrong(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "the master must be in it"
        )
    return agreed(state.with_in_sync(members))
