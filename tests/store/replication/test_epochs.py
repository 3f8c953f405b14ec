"""The reigns in a log: the file, and where two logs part."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.store.replication.epochs import FILE_NAME, OPEN_END, Epoch, Epochs


def epochs_of(*entries: tuple[int, int]) -> Epochs:
    return Epochs(None, [Epoch(*entry) for entry in entries])


def test_the_file_is_written_as_rocketmq_does(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path / FILE_NAME)
    epochs.begin(7, 7000)
    epochs.begin(8, 8000)
    assert (tmp_path / FILE_NAME).read_bytes() == b"2\n773307083\n7-7000\n8-8000\n"
    again = Epochs(tmp_path / FILE_NAME)
    again.load()
    assert again.entries() == (Epoch(7, 7000), Epoch(8, 8000))


def test_a_damaged_file_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    for text in (
        b"2\n773307083\n7-7000\n8-8001\n",
        b"2\n0\n7-7000\n",
        b"1\n0\nx-1\n",
        b"1\n0\n1\n",
    ):
        path.write_bytes(text)
        with pytest.raises(ValueError, match=r"epoch|checksum"):
            Epochs(path).load()
    path.write_bytes(b"1\n0\n7-7000\n")  # 0: not checked
    epochs = Epochs(path)
    epochs.load()
    assert epochs.last == Epoch(7, 7000)


def test_the_backup_is_read_where_the_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    epochs = Epochs(path)
    epochs.begin(1, 0)
    epochs.begin(2, 10)
    path.write_bytes(b"")
    again = Epochs(path)
    again.load()
    assert again.entries() == (Epoch(1, 0),)


def test_a_reign_that_begins_where_the_last_one_did_is_kept() -> None:
    epochs = epochs_of((4, 500))
    for number in range(5, 2000):
        epochs.begin(number, 1000)
    assert epochs.entries() == (Epoch(4, 500), Epoch(5, 1000), Epoch(1999, 1000))
    assert epochs.at(1000) == Epoch(1999, 1000)
    assert epochs.end_of(Epoch(5, 1000)) == 1000


def test_what_lies_before_all_reigns_counts_as_the_firsts() -> None:
    epochs = epochs_of((1, 500), (2, 900))
    assert epochs.at(0) == Epoch(1, 500)
    assert epochs.next_start(0) == 500
    assert epochs.next_start(500) == 900
    assert epochs.next_start(900) == OPEN_END


def test_cutting_forgets_stale_reigns(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    epochs = Epochs(path)
    epochs.begin(1, 0)
    epochs.begin(2, 100)
    epochs.begin(3, 200)
    epochs.cut_at(200)
    assert epochs.entries() == (Epoch(1, 0), Epoch(2, 100))
    again = Epochs(path)
    again.load()
    assert again.entries() == epochs.entries()
    epochs.cut_at(0)
    assert not path.exists()
    empty = Epochs(path)
    empty.load()
    assert empty.last_number == -1


def test_deleted_files_take_their_reigns_along() -> None:
    epochs = epochs_of((1, 0), (2, 100), (3, 200))
    epochs.forget_before(150)
    assert epochs.entries() == (Epoch(2, 100), Epoch(3, 200))


def test_a_reign_that_began_where_the_log_does_is_kept_although_it_is_empty() -> None:
    epochs = epochs_of((1, 0), (4, 0), (5, 200))
    epochs.forget_before(0)
    assert epochs.entries() == (Epoch(1, 0), Epoch(4, 0), Epoch(5, 200))


@pytest.mark.parametrize(
    ("own", "own_end", "theirs", "their_end", "common"),
    [
        ([(1, 0), (2, 500), (3, 900)], 1200, [(1, 0), (2, 500), (4, 800)], 2000, 800),
        ([(1, 0)], 700, [(1, 0)], 900, 700),
        ([(1, 0)], 900, [(1, 0)], 700, 700),
        ([(1, 0)], 900, [(1, 0), (2, 400)], 5000, 400),
        ([(5, 1000)], 1500, [(5, 1000), (6, 1000)], 1800, 1000),
        ([(1, 0), (2, 50)], 80, [(1, 0), (3, 60)], 90, 50),
        ([(1, 0)], 900, [(2, 0)], 700, None),
    ],
)
def test_logs_are_equal_up_to_the_end_of_their_newest_common_reign(
    own: list[tuple[int, int]],
    own_end: int,
    theirs: list[tuple[int, int]],
    their_end: int,
    common: int | None,
) -> None:
    assert epochs_of(*own).common_end(own_end, epochs_of(*theirs), their_end) == common


@given(st.data())
def test_the_common_end_is_where_the_logs_part(data: st.DataObject) -> None:
    """Logs as lists of who wrote each byte; elected are those who may be missing some of it."""
    logs: list[list[int]] = [[], [], []]
    reigns: list[Epochs] = [Epochs(None) for _ in logs]
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        master = data.draw(st.integers(0, 2))
        reigns[master].begin(number, len(logs[master]))
        logs[master] += [number] * data.draw(st.integers(0, 5))
        for slave in range(3):
            if slave == master or not data.draw(st.booleans()):
                continue
            common = reigns[slave].common_end(len(logs[slave]), reigns[master], len(logs[master]))
            if common is None:
                common = 0  # its directory has to be deleted
            parted = next(
                (
                    at
                    for at, (one, other) in enumerate(zip(logs[slave], logs[master], strict=False))
                    if one != other
                ),
                min(len(logs[slave]), len(logs[master])),
            )
            assert common <= parted, "what is kept is the master's"
            del logs[slave][common:]
            reigns[slave].cut_at(common)
            upto = data.draw(st.integers(common, len(logs[master])))
            for at in range(common, upto):
                writer = reigns[master].at(at)
                if writer.number > reigns[slave].last_number:
                    reigns[slave].begin(*writer)
                logs[slave].append(logs[master][at])
            assert logs[slave] == logs[master][: len(logs[slave])]


def test_what_cannot_be_written_has_not_begun(tmp_path: Path) -> None:
    """A broker that is elected with a full disk tries again, and must find it undone."""
    epochs = Epochs(tmp_path / FILE_NAME)
    epochs.begin(7, 7000)
    in_the_way = tmp_path / (FILE_NAME + ".tmp")
    in_the_way.mkdir()
    for number, start in ((8, 8000), (9, 500)):
        with pytest.raises(OSError, match=in_the_way.name):
            epochs.begin(number, start)
        assert epochs.entries() == (Epoch(7, 7000),)
    in_the_way.rmdir()
    epochs.begin(8, 8000)
    again = Epochs(tmp_path / FILE_NAME)
    again.load()
    assert again.entries() == (Epoch(7, 7000), Epoch(8, 8000))
