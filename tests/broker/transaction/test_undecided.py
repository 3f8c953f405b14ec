"""Which half messages are open, how far the queue is settled, what is due next."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rocketq.broker.transaction.undecided import Undecided


def opened(*dues: int) -> Undecided:
    table = Undecided()
    for offset, due_ms in enumerate(dues):
        table.add(offset, due_ms)
    return table


def test_progress_stops_at_the_first_open_half_message() -> None:
    table = opened(10, 20, 30)

    table.close(1)
    assert table.progress == 0
    table.close(0)
    assert table.progress == 2
    table.close(2)
    assert table.progress == 3


def test_nothing_open_means_nothing_due() -> None:
    table = opened(10, 20)
    assert table.next_due_ms == 10

    table.close(0)
    assert table.next_due_ms == 20
    table.close(1)
    assert table.next_due_ms is None


def test_what_is_due_is_taken_once_and_never_more_than_asked_for() -> None:
    table = opened(10, 10, 10, 99)

    assert table.take_due(50, limit=2) == [0, 1]
    assert table.take_due(50, limit=2) == [2]
    assert table.take_due(50, limit=2) == []


def test_a_decision_about_an_earlier_copy_closes_the_present_one() -> None:
    table = opened(10)
    table.take_due(10, limit=1)
    table.move(0, to=1, due_ms=40)
    table.take_due(40, limit=1)
    table.move(1, to=2, due_ms=70)

    assert table.progress == 2
    assert 0 in table
    assert table.close(0) == 2
    assert table.next_due_ms is None
    assert all(table.was_closed(offset) for offset in (0, 1, 2))


def test_a_second_decision_is_recognised() -> None:
    table = opened(10)
    table.close(0)

    assert table.close(0) is None
    assert table.was_closed(0)
    assert not table.was_closed(1)


def test_one_old_transaction_does_not_make_the_table_grow() -> None:
    table = opened(10**9)
    for offset in range(1, 50_000):
        table.add(offset, due_ms=10**8)
        table.close(offset)

    assert table.progress == 0
    assert len(table._order) < 10_000
    assert len(table._dues) < 10_000


@given(st.lists(st.sampled_from(["add", "close", "move"]), max_size=60), st.randoms())
def test_progress_is_always_the_lowest_open_offset(steps: list[str], random: Random) -> None:
    table = Undecided()
    present: list[int] = []
    for step in steps:
        if step == "add" or not present:
            present.append(table.end)
            table.add(table.end, due_ms=0)
            continue
        offset = random.choice(present)
        present.remove(offset)
        if step == "move":
            present.append(table.end)
            table.move(offset, to=table.end, due_ms=0)
        else:
            assert table.close(offset) == offset
        assert table.progress == min(present, default=table.end)
        assert len(table) == len(present)
