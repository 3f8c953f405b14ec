"""Who belongs to a broker set: ids, addresses, and the end of both."""

from typing import Final

from rocketq.common.numbers import parse_natural
from rocketq.controller.broker_set import FIRST_ID, BrokerSet, Replica
from rocketq.controller.decisions.decision import Decision, Living, agreed, refused
from rocketq.remoting.codes import ResponseCode

# Of one name; each copies the whole log.
REPLICA_LIMIT: Final = 64
_NAME_LIMIT: Final = 255
_TEXT_LIMIT: Final = 512


def next_id(state: BrokerSet | None) -> int:
    """The id to apply for. Asking reserves nothing."""
    return FIRST_ID if state is None else state.next_id


def apply_id(
    state: BrokerSet | None, cluster: str, name: str, broker_id: int, check_code: str
) -> Decision:
    """Give an id away. Whoever has not heard the answer may ask again, with its check code.

    Java gives any id that nobody has; ours gives the next one alone, so that an id is never
    given twice, not even after its first broker was cleaned away.
    """
    fault = _text_fault(cluster=cluster, name=name) or _long_text_fault(check_code)
    if fault is not None:
        return refused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, fault, state)
    before = state or BrokerSet(cluster=cluster, name=name)
    if before.cluster != cluster and before.is_known:
        return _of_another_cluster(before)
    has_it = before.replicas.get(broker_id)
    if has_it is not None and has_it.check_code == check_code:
        return agreed(before)
    if has_it is not None or broker_id != before.next_id:
        remark = f"broker id {broker_id} of {name} is not free; the next one is {before.next_id}"
        return refused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, state)
    if len(before.replicas) >= REPLICA_LIMIT:
        remark = f"broker-set {name} has {REPLICA_LIMIT} brokers, which is the most there can be"
        return refused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, state)
    address = check_code.partition(";")[0]
    if not before.is_known:  # its old cluster went with its old brokers
        before = _moved(before, cluster)
    return agreed(before.with_replica(broker_id, Replica(address, check_code)))


def register(
    state: BrokerSet | None, living: Living, cluster: str, name: str, broker_id: int, address: str
) -> Decision:
    """A broker that has its id says where it is."""
    replica = None if state is None else state.replicas.get(broker_id)
    if state is None or replica is None:
        remark = f"there is no broker {broker_id} of {name}; it has to apply for an id"
        return refused(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, state)
    if state.cluster != cluster:
        return _of_another_cluster(state)
    if replica.address == address:
        return agreed(state)
    fault = _long_text_fault(address)
    if fault is not None:
        return refused(ResponseCode.CONTROLLER_INVALID_REQUEST, fault, state)
    if broker_id in living:
        # Two brokers with one id would take turns in being it.
        remark = f"id {broker_id} of {name} is alive at {replica.address}"
        return refused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, state)
    return agreed(state.with_replica(broker_id, Replica(address, replica.check_code)))


def clean(
    state: BrokerSet | None, living: Living, ids_text: str | None, *, also_living: bool
) -> Decision:
    """Forget brokers: those listed (`1;2`), or all. Their ids and epochs stay used up."""

    def wrong(remark: str) -> Decision:
        return refused(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark, state)

    if state is None or not state.is_known:
        return wrong("there is no such broker set")
    if not ids_text:
        if not also_living and state.master_id is not None:
            return wrong(
                f"{state.name} has a master, broker {state.master_id} at {state.master_address}"
            )
        gone = frozenset(state.replicas)
    else:
        listed = [parse_natural(part.strip()) for part in ids_text.split(";")]
        if None in listed:
            return wrong(f"ids are written as 1;2;3, not {ids_text[:_NAME_LIMIT]!r}")
        gone = frozenset(number for number in state.replicas if number in listed)
    alive = gone.intersection(living)
    if alive and not also_living:
        return wrong(f"broker {min(alive)} is alive")
    return agreed(state.without_replicas(gone))


def _moved(state: BrokerSet, cluster: str) -> BrokerSet:
    return BrokerSet(
        cluster=cluster,
        name=state.name,
        next_id=state.next_id,
        master_epoch=state.master_epoch,
        in_sync_epoch=state.in_sync_epoch,
    )


def _of_another_cluster(state: BrokerSet) -> Decision:
    remark = f"broker-set {state.name} belongs to cluster {state.cluster}"
    return refused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, state)


def _text_fault(**texts: str) -> str | None:
    for what, text in texts.items():
        if not text or len(text) > _NAME_LIMIT or not text.isprintable():
            return f"the {what} is not a name of 1 to {_NAME_LIMIT} characters"
    return None


def _long_text_fault(text: str) -> str | None:
    if not text or len(text) > _TEXT_LIMIT or not text.isprintable():
        return f"not a text of 1 to {_TEXT_LIMIT} characters"
    return None
