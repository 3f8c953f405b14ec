"""Whatever happens in whatever order, the decisions keep their promises."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketq.controller.broker_set import BrokerSet, Replica
from rocketq.controller.decisions.decision import Decision, Sign
from rocketq.controller.decisions.mastership import alter_in_sync, elect
from rocketq.controller.decisions.membership import (
    REPLICA_LIMIT,
    apply_id,
    clean,
    next_id,
    register,
)
from rocketq.remoting.codes import ResponseCode

OK = ResponseCode.SUCCESS


def address(number: int) -> str:
    return f"10.0.0.{number}:10911"


def a_set(count: int = 3, **changes: object) -> BrokerSet:
    """Brokers 1 to `count`, nobody master yet."""
    state: BrokerSet | None = None
    for number in range(1, count + 1):
        decision = apply_id(state, "c", "b", number, f"{address(number)};17")
        assert decision.code == OK
        state = decision.state
    assert state is not None
    return replace(state, **changes)  # type: ignore[arg-type]


def alive(*numbers: int, **signs: Sign) -> Mapping[int, Sign]:
    return {number: signs.get(f"n{number}", Sign(epoch=1, max_offset=100)) for number in numbers}


def in_force(decision: Decision) -> BrokerSet:
    assert decision.code == OK, decision
    assert decision.state is not None
    return decision.state


# Ids


def test_the_first_id_is_one_and_asking_reserves_nothing() -> None:
    assert next_id(None) == 1
    state = in_force(apply_id(None, "c", "b", 1, "10.0.0.1:10911;17"))
    assert state.replicas == {1: Replica("10.0.0.1:10911", "10.0.0.1:10911;17")}
    assert next_id(state) == 2


def test_an_id_is_given_again_only_to_who_has_it() -> None:
    state = a_set(1)
    again = apply_id(state, "c", "b", 1, f"{address(1)};17")
    assert again.code == OK
    assert again.state == state
    other = apply_id(state, "c", "b", 1, f"{address(9)};18")
    assert other.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert other.state == state


@pytest.mark.parametrize("number", [0, -1, 2, 2**63 - 1])
def test_only_the_next_id_is_given(number: int) -> None:
    assert apply_id(None, "c", "b", number, "a;1").code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def test_ids_and_epochs_go_on_after_a_set_was_cleaned_away() -> None:
    state = a_set(2, master_epoch=7, in_sync_epoch=9)
    gone = in_force(clean(state, {}, None, also_living=True))
    assert not gone.is_known
    assert elect(gone, {}, asked_by=1).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert next_id(gone) == 3
    back = in_force(apply_id(gone, "other", "b", 3, "a;1"))
    assert back.cluster == "other"
    assert in_force(elect(back, {}, asked_by=3)).master_epoch == 8


def test_a_name_belongs_to_one_cluster() -> None:
    state = a_set(1)
    assert apply_id(state, "d", "b", 2, "a;1").code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    refused = register(state, {}, "d", "b", 1, address(1))
    assert refused.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb"])
def test_names_that_are_none_are_refused(name: str) -> None:
    assert apply_id(None, "c", name, 1, "a;1").code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert apply_id(None, "c", "b", 1, "x" * 600).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def test_a_set_has_its_limit() -> None:
    state = a_set(REPLICA_LIMIT)
    refused = apply_id(state, "c", "b", REPLICA_LIMIT + 1, "a;1")
    assert refused.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


# Registration


def test_a_broker_that_moved_is_found_at_its_new_address() -> None:
    state = a_set(1)
    moved = in_force(register(state, {}, "c", "b", 1, "10.9.9.9:1"))
    assert moved.replicas[1].address == "10.9.9.9:1"
    assert moved.next_id == state.next_id


def test_two_brokers_do_not_share_an_id() -> None:
    refused = register(a_set(1), alive(1), "c", "b", 1, "10.9.9.9:1")
    assert refused.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def test_a_broker_without_an_id_has_to_apply_for_one() -> None:
    need = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert register(None, {}, "c", "b", 1, address(1)).code == need
    assert register(a_set(1), {}, "c", "b", 2, address(2)).code == need


# Elections


def test_the_first_master_is_the_broker_that_asks() -> None:
    decision = elect(a_set(3), {}, asked_by=2)
    state = in_force(decision)
    assert decision.has_new_master
    assert (state.master_id, state.master_epoch) == (2, 1)
    assert state.in_sync == {2}
    assert state.in_sync_epoch == 1


def with_master(*in_sync: int) -> BrokerSet:
    return a_set(3, master_id=1, master_epoch=4, in_sync=frozenset(in_sync), in_sync_epoch=6)


def test_a_master_that_lives_stays() -> None:
    state = with_master(1, 2)
    for asked_by in (None, 2, 3):
        decision = elect(state, alive(1, 2, 3), asked_by=asked_by)
        assert decision.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        assert decision.state == state
        assert not decision.has_new_master


@pytest.mark.parametrize(
    ("second", "third", "winner"),
    [
        (Sign(epoch=4, max_offset=10), Sign(epoch=3, max_offset=99), 2),
        (Sign(epoch=4, max_offset=10), Sign(epoch=4, max_offset=11), 3),
        (Sign(4, 2**40), Sign(4, 2**40 + 2**32), 3),  # Java compares 32 bits of the difference
        (Sign(4, 10, priority=5), Sign(4, 10, priority=4), 3),
        (Sign(4, 10), Sign(4, 10), 2),
    ],
)
def test_the_longest_log_of_the_latest_epoch_wins(second: Sign, third: Sign, winner: int) -> None:
    decision = elect(with_master(1, 2, 3), {2: second, 3: third})
    assert in_force(decision).master_id == winner
    assert in_force(decision).in_sync == {winner}
    assert in_force(decision).master_epoch == 5


def test_epochs_go_on_where_brokers_know_later_ones() -> None:
    """The state may be an old copy, or lost; brokers refuse a role of an epoch that they had."""
    first = elect(a_set(2), {1: Sign(epoch=7), 2: Sign(epoch=9)}, asked_by=1)
    assert in_force(first).master_epoch == 10
    mad = elect(with_master(1, 2), {2: Sign(epoch=2**31 - 1)})
    assert in_force(mad).master_epoch == 5


def test_only_those_in_sync_follow_a_master() -> None:
    state = with_master(1, 2)
    decision = elect(state, alive(3))
    assert decision.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert decision.state is not None
    assert decision.state.master_id is None
    assert decision.state.master_epoch == 5
    assert decision.state.in_sync == state.in_sync  # they are still the ones to wait for


def test_having_no_master_is_decided_once() -> None:
    first = elect(with_master(1), {}).state
    assert first is not None
    again = elect(first, alive(2, 3))
    assert again.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert again.state == first


def test_a_broker_that_asks_in_vain_changes_nothing() -> None:
    state = with_master(1)
    decision = elect(state, alive(3), asked_by=3)
    assert decision.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert decision.state == state


def test_an_unclean_election_takes_anybody_but_prefers_those_in_sync() -> None:
    assert in_force(elect(with_master(1), alive(3), unclean=True)).master_id == 3
    ahead = {2: Sign(1, 1), 3: Sign(9, 9)}
    assert in_force(elect(with_master(1, 2), ahead, unclean=True)).master_id == 2


def test_an_administrator_may_choose_among_those_in_sync() -> None:
    state = with_master(1, 2)
    chosen = elect(state, alive(1, 2, 3), asked_by=2, is_designated=True)
    assert in_force(chosen).master_id == 2
    same = elect(state, alive(1, 2, 3), asked_by=1, is_designated=True)
    assert same.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    for numbers in ((1, 2, 3), (1, 2)):  # not in sync; not alive
        refused = elect(state, alive(*numbers), asked_by=3, is_designated=True)
        assert refused.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED


def test_a_stranger_is_not_elected() -> None:
    need = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert elect(None, {}, asked_by=1).code == need
    assert elect(a_set(2), {}, asked_by=3).code == need
    assert elect(a_set(2), {}, asked_by=0).code == need


# The sync-state set


def test_a_master_enlarges_and_shrinks_the_set() -> None:
    state = with_master(1)
    larger = in_force(
        alter_in_sync(
            state,
            alive(1, 2),
            master_id=1,
            master_epoch=4,
            members=frozenset({1, 2}),
            in_sync_epoch=6,
        )
    )
    assert larger.in_sync == {1, 2}
    assert larger.in_sync_epoch == 7
    assert larger.master_epoch == 4


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"members": frozenset({1})}, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        ({"master_id": 2}, ResponseCode.CONTROLLER_INVALID_MASTER),
        ({"master_epoch": 3}, ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH),
        ({"in_sync_epoch": 5}, ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH),
        ({"members": frozenset({1, 8})}, ResponseCode.CONTROLLER_INVALID_REPLICAS),
        ({"members": frozenset({1, 3})}, ResponseCode.CONTROLLER_BROKER_NOT_ALIVE),
        ({"members": frozenset({2})}, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        # The first that is wrong is the one that is told.
        ({"master_id": 2, "master_epoch": 3}, ResponseCode.CONTROLLER_INVALID_MASTER),
    ],
)
def test_what_a_master_may_not_say(changes: dict[str, object], code: ResponseCode) -> None:
    state = with_master(1)
    asked: dict[str, object] = {
        "master_id": 1,
        "master_epoch": 4,
        "members": frozenset({1, 2}),
        "in_sync_epoch": 6,
    }
    decision = alter_in_sync(state, alive(1, 2), **{**asked, **changes})  # type: ignore[arg-type]
    assert decision.code == code
    assert decision.state == state


# Cleaning


def test_cleaning_spares_the_living() -> None:
    wrong = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    state = with_master(1, 2)
    assert clean(None, {}, "1", also_living=False).code == wrong
    assert clean(state, {}, None, also_living=False).code == wrong  # it has a master
    assert clean(state, alive(2), "2;3", also_living=False).code == wrong
    assert clean(state, {}, "2;x", also_living=False).code == wrong
    assert clean(state, {}, "2;" + "9" * 50, also_living=False).code == wrong
    left = in_force(clean(state, alive(1), "2; 3", also_living=False))
    assert set(left.replicas) == {1}
    assert left.in_sync == {1}
    assert (left.master_id, left.master_epoch) == (1, 4)


def test_cleaning_the_living_heeds_the_list_too() -> None:
    left = in_force(clean(with_master(1, 2), alive(1, 2, 3), "1", also_living=True))
    assert set(left.replicas) == {2, 3}
    assert left.master_id is None
    assert left.master_epoch == 5
    assert left.in_sync == {2}


# Any sequence


@dataclass
class World:
    """What a controller knows, and what an observer has noted of it."""

    unclean: bool
    state: BrokerSet | None = None
    living: dict[int, Sign] = field(default_factory=dict)
    ids_given: dict[int, str] = field(default_factory=dict)
    masters: dict[int, int] = field(default_factory=dict)  # epoch -> id

    def take(self, decision: Decision) -> None:
        before, after = self.state, decision.state
        if before is not None:
            assert after is not None
            assert after.master_epoch >= before.master_epoch
            assert after.in_sync_epoch >= before.in_sync_epoch
            assert after.next_id >= before.next_id
            changed_master = after.master_id != before.master_id
            assert not changed_master or after.master_epoch > before.master_epoch
            changed_set = after.in_sync != before.in_sync
            assert not changed_set or after.in_sync_epoch == before.in_sync_epoch + 1
            if decision.has_new_master and not self.unclean and before.in_sync:
                assert after.master_id in before.in_sync
        if after is not None:
            if after.master_id is not None:
                assert after.master_id in after.replicas
                assert after.master_id in after.in_sync
                assert self.masters.setdefault(after.master_epoch, after.master_id) == (
                    after.master_id
                )
            assert after.in_sync <= set(after.replicas)
            for number, replica in after.replicas.items():
                code = self.ids_given.setdefault(number, replica.check_code)
                assert code == replica.check_code
            assert BrokerSet.decode(after.encode()) == after
        self.state = after


numbers = st.integers(1, 5)
signs = st.builds(
    Sign,
    epoch=st.integers(-1, 4),
    max_offset=st.integers(0, 5),
    priority=st.integers(1, 3),
    timeout_ms=st.just(2500),
)
sets = st.frozensets(numbers, max_size=4)
events = st.one_of(
    st.tuples(st.just("apply"), numbers, st.sampled_from(["x;1", "y;2"])),
    st.tuples(st.just("apply next"), st.text("ab", min_size=1, max_size=3)),
    st.tuples(st.just("register"), numbers, st.sampled_from(["x", "y"])),
    st.tuples(st.just("beat"), numbers, signs),
    st.tuples(st.just("die"), numbers),
    st.tuples(st.just("ask"), numbers, st.booleans()),
    st.tuples(st.just("watch")),
    st.tuples(st.just("alter"), sets, st.booleans()),
    st.tuples(st.just("clean"), st.one_of(st.none(), sets), st.booleans()),
)


@settings(max_examples=200, deadline=None)
@given(st.booleans(), st.lists(events, max_size=60))
def test_promises_hold_whatever_happens(unclean: bool, history: list[tuple[object, ...]]) -> None:
    """Epochs never go back, an epoch has one master, which is in sync; an id has one owner."""
    world = World(unclean)
    for event in history:
        state, living = world.state, world.living
        match event:
            case ("apply", int(number), str(code)):
                world.take(apply_id(state, "c", "b", number, code))
            case ("apply next", str(code)):
                world.take(apply_id(state, "c", "b", next_id(state), code))
            case ("register", int(number), str(where)):
                world.take(register(state, living, "c", "b", number, where))
            case ("beat", int(number), Sign() as sign):
                living[number] = sign
            case ("die", int(number)):
                living.pop(number, None)
            case ("ask", int(number), bool(designated)):
                world.take(
                    elect(
                        state,
                        living,
                        asked_by=number,
                        is_designated=designated,
                        unclean=unclean,
                    )
                )
            case ("watch",):
                world.take(elect(state, living, unclean=unclean))
            case ("alter", frozenset() as members, bool(is_current)) if state is not None:
                master_id = state.master_id or 1
                world.take(
                    alter_in_sync(
                        state,
                        living,
                        master_id=master_id,
                        master_epoch=state.master_epoch,
                        members=members | {master_id},
                        in_sync_epoch=state.in_sync_epoch - (not is_current),
                    )
                )
            case ("clean", members, bool(also_living)):
                text = ";".join(map(str, members)) if isinstance(members, frozenset) else None
                world.take(clean(state, living, text, also_living=also_living))


@given(st.binary(max_size=200) | st.recursive(st.integers() | st.text(), st.lists).map(repr))
def test_a_damaged_state_is_an_error_and_no_state(text: bytes | str) -> None:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(ValueError):  # noqa: PT011
        BrokerSet.decode(data)
