"""The timer log, the wheel and the checkpoint: RocketMQ's bytes, and what a crash leaves."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketq.store.errors import StoreMismatch
from rocketq.store.files.disk import Disk
from rocketq.store.timer import (
    Slot,
    TimerCheckpoint,
    TimerLog,
    TimerMagic,
    TimerProgress,
    TimerUnit,
    TimerWheel,
    replay,
)
from tests.store.support import Golden

FILE_SIZE = 1_000  # 18 units and an end of file


def unit(slot_ms: int, previous: int = -1, position: int = 7) -> TimerUnit:
    return TimerUnit(previous, TimerMagic.DEFAULT, slot_ms - 500, 500, position, 99, 12345)


def opened_log(folder: Path) -> TimerLog:
    log = TimerLog(folder, FILE_SIZE, Disk())
    log.load()
    return log


def test_units_are_read_back_over_the_ends_of_files(tmp_path: Path) -> None:
    log = opened_log(tmp_path / "timerlog")
    log.truncate(0)
    units = [unit(1_000 * number, position=number) for number in range(50)]
    positions = [log.add(each) for each in units]
    log.write()

    assert [log.read(position) for position in positions] == units
    assert [each for _, each in log.units(0)] == units
    assert positions[18] == FILE_SIZE  # a unit and the end of a file need 68 bytes


def test_what_could_not_be_written_is_taken_back(tmp_path: Path) -> None:
    log = opened_log(tmp_path / "timerlog")
    log.truncate(0)
    log.add(unit(1_000))
    log.forget_added()

    assert log.end == 0
    assert log.read(0) is None


class FolderDisk(Disk):
    """Remembers which directories were synced."""

    def __init__(self) -> None:
        self.folders: set[Path] = set()

    def sync_folder(self, folder: Path) -> None:
        self.folders.add(folder)
        super().sync_folder(folder)


def test_what_is_durable_has_a_durable_name(tmp_path: Path) -> None:
    """A file whose name a loss of power takes is gone, with all the timers in it."""
    disk = FolderDisk()
    log = TimerLog(tmp_path / "timerlog", FILE_SIZE, disk)
    log.load()
    log.add(unit(1_000))
    log.write()
    log.sync(0)
    assert disk.folders == {tmp_path / "timerlog", tmp_path}

    disk.folders.clear()
    wheel = TimerWheel(tmp_path / "timerwheel", 1_000, disk)
    wheel.put(1_000, Slot(0, 0, 1))
    wheel.write(wheel.take_dirty())
    assert disk.folders == {tmp_path}

    disk.folders.clear()
    (tmp_path / "config").mkdir()
    TimerCheckpoint(tmp_path / "config" / "timercheck", disk).write(TimerProgress(read_ms=1_000))
    assert disk.folders == {tmp_path / "config"}


@settings(deadline=None, max_examples=30)
@given(
    slots=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    flushed=st.integers(0, 3_500),
    lost=st.integers(0, 10),
)
def test_replay_finds_every_chain_that_is_still_in_the_log(
    tmp_path_factory: pytest.TempPathFactory, slots: list[int], flushed: int, lost: int
) -> None:
    """Units in ten slots; the wheel was saved at some point, the log loses its last units."""
    folder = tmp_path_factory.mktemp("timer")
    log = opened_log(folder / "timerlog")
    log.truncate(0)
    wheel = TimerWheel(folder / "timerwheel", 1_000, Disk())
    chains: dict[int, list[int]] = {}
    positions = []
    saved = False
    for number, index in enumerate(slots):
        slot_ms = 1_000_000 + index * 1_000
        before = wheel.get(slot_ms)
        at = log.add(unit(slot_ms, before.last if before else -1, number))
        first = before.first if before else at
        wheel.put(slot_ms, Slot(first, at, number))
        positions.append(at)
        log.write()
        if not saved and log.end >= flushed:
            wheel.write(wheel.take_dirty())
            saved = True
            flushed = log.end
    flushed = min(flushed, log.end) if saved else 0
    kept = max(0, len(slots) - lost)
    log.truncate(positions[kept - 1] + 52 if kept else 0)
    log.close()
    for index, at in zip(slots[:kept], positions, strict=False):
        chains.setdefault(1_000_000 + index * 1_000, []).append(at)

    log = opened_log(folder / "timerlog")
    recovered = TimerWheel(folder / "timerwheel", 1_000, Disk())
    recovered.load()
    last, _ = replay(log, recovered, flushed, 0, lambda unit: True)

    assert (last.position if last else -1) == kept - 1
    for index in range(10):
        slot_ms = 1_000_000 + index * 1_000
        found = []
        slot = recovered.get(slot_ms)
        at = slot.last if slot else -1
        while at >= 0:
            found.append(at)
            each = log.read(at)
            assert each is not None
            at = each.previous
        assert found[::-1] == chains.get(slot_ms, [])
    log.close()


def test_slots_that_were_delivered_are_not_filled_again(tmp_path: Path) -> None:
    log = opened_log(tmp_path / "timerlog")
    log.truncate(0)
    log.add(unit(5_000))
    log.add(unit(9_000))
    log.write()
    wheel = TimerWheel(tmp_path / "timerwheel", 1_000, Disk())

    _, read_ms = replay(log, wheel, 0, 8_000, lambda unit: True)

    assert read_ms == 8_000
    assert wheel.get(5_000) is None
    assert wheel.get(9_000) == Slot(52, 52, 1)


def test_slots_that_were_filled_after_the_progress_was_written_count(tmp_path: Path) -> None:
    """The clock was set back: they lie before those that were delivered."""
    log = opened_log(tmp_path / "timerlog")
    log.truncate(0)
    log.add(unit(6_000))
    log.add(unit(9_000))
    log.add(unit(5_000))
    log.write()
    wheel = TimerWheel(tmp_path / "timerwheel", 1_000, Disk())

    _, read_ms = replay(log, wheel, 52, 8_000, lambda unit: True, placed_since=52)

    assert read_ms == 5_000
    assert wheel.get(6_000) is None
    assert wheel.get(9_000) == Slot(52, 52, 1)
    assert wheel.get(5_000) == Slot(104, 104, 1)


def test_a_slot_of_another_round_of_the_wheel_is_empty(tmp_path: Path) -> None:
    wheel = TimerWheel(tmp_path / "timerwheel", 1_000, Disk())
    wheel.put(5_000, Slot(1, 2, 3))

    assert wheel.get(5_000) == Slot(1, 2, 3)
    assert wheel.get(5_000 + 1_209_600_000) is None


def test_a_wheel_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "timerwheel").write_bytes(b"x" * 100)
    with pytest.raises(StoreMismatch, match="38707200"):
        TimerWheel(tmp_path / "timerwheel", 1_000, Disk()).load()


def test_files_of_java_are_understood(tmp_path: Path) -> None:
    root = Golden("store-5.5.0-timer-pop", tmp_path).root
    progress = TimerCheckpoint(root / "config" / "timercheck", Disk()).load()
    assert progress == TimerProgress(
        1794772468000, 1404, 27, 27, 0, progress.version_timestamp, 101
    )

    log = TimerLog(root / "timerlog", 102_400, Disk())
    log.load()
    units = dict(log.units(0))
    assert len(units) == 27
    wheel = TimerWheel(root / "timerwheel", 1_000, Disk())
    wheel.load()
    for each in units.values():
        slot = wheel.get(each.slot_ms)
        assert slot is not None
        assert units[slot.last].slot_ms == each.slot_ms
    assert (root / "config" / "timercheck").read_bytes()[:56] == progress.encode()


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    checkpoint = TimerCheckpoint(tmp_path / "timercheck", Disk())
    assert checkpoint.load() == TimerProgress()
    progress = TimerProgress(1, 2, 3, 3, 0, 4, 5)
    checkpoint.write(progress)

    assert checkpoint.load() == progress
    assert (tmp_path / "timercheck").stat().st_size == 4_096
    assert TimerProgress.decode(progress.encode()[:32]) == TimerProgress(1, 2, 3, 3)


@settings(deadline=None, max_examples=40)
@given(
    slots=st.lists(st.integers(0, 2), min_size=1, max_size=60),
    most=st.integers(1, 9),
)
def test_runs_of_a_chain_are_what_reading_one_by_one_finds(slots: list[int], most: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = TimerLog(Path(folder), 52 * 7 + 20, Disk())
        log.load()
        log.truncate(0)
        last: dict[int, int] = {}
        for slot in slots:
            last[slot] = log.add(unit(previous=last.get(slot, -1), slot_ms=slot * 1_000))
        log.write()
        for cursor in last.values():
            at, one_by_one = cursor, []
            while at >= 0:
                found = log.read(at)
                assert found is not None
                one_by_one.append(found)
                at = found.previous
            at, in_runs = cursor, []
            while at >= 0:
                run = log.chained_before(at, most)
                assert 0 < len(run) <= most
                in_runs += run
                at = run[-1].previous
            assert in_runs == one_by_one
        log.close()
        assert log.chained_before(log.end, 5) == []
