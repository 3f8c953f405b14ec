"""The directory of a store: lock, abort file, files that do not belong there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketq.store import MessageStore, StoreLocked, StoreMismatch
from rocketq.store.files.directory_lock import DirectoryLock
from tests.store.support import bodies, message, small_config

LOCK_LIKE_JAVA = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
except OSError:
    sys.exit(3)
print("locked", flush=True)
sys.stdin.read()
"""


def lock_elsewhere(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", LOCK_LIKE_JAVA, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def times(root: Path) -> dict[Path, int]:
    """When each file was last changed."""
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


async def test_a_store_can_be_opened_once(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        with pytest.raises(StoreLocked, match="in this process"):
            await MessageStore(config).open()
        other = lock_elsewhere(tmp_path / "lock")
        other.communicate()
        assert other.returncode == 3
        assert (tmp_path / "lock").read_bytes() == b"lock"
        assert store.append(message()).is_stored
    async with MessageStore(config) as store:
        assert bodies(store) == [b"body"]


async def test_a_directory_that_another_process_has_open_is_not_touched(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        store.append(message())
    other = lock_elsewhere(tmp_path / "lock")
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        before = times(tmp_path)
        with pytest.raises(StoreLocked, match="another process"):
            await MessageStore(config).open()
        assert times(tmp_path) == before
    finally:
        other.communicate()
    async with MessageStore(config) as store:
        assert bodies(store) == [b"body"]


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(3):
        lock = DirectoryLock(tmp_path)
        lock.acquire()  # raises StoreLocked while somebody has it
        lock.release()


async def test_the_abort_file_lives_as_long_as_the_store_is_open(tmp_path: Path) -> None:
    store = MessageStore(small_config(tmp_path))
    await store.open()
    assert (tmp_path / "abort").read_text() == str(os.getpid())
    await store.close()
    assert not (tmp_path / "abort").exists()
    await store.close()  # once more does no harm


async def test_log_files_of_another_size_are_refused(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        store.append(message())
    other = small_config(tmp_path, mapped_file_size_commit_log=8192)
    with pytest.raises(StoreMismatch, match="16384 bytes"):
        await MessageStore(other).open()
    async with MessageStore(small_config(tmp_path)) as store:
        assert bodies(store) == [b"body"]


async def test_queue_and_index_files_of_another_configuration_are_refused(
    tmp_path: Path,
) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        for queue_id in range(3):
            store.append(message(queue_id=queue_id, keys="k"))
    before = times(tmp_path)
    for settings in (
        {"mapped_file_size_consume_queue": 200},
        {"mapped_file_size_consume_queue": 6_000_000},
        {"max_index_num": 32},
    ):
        with pytest.raises(StoreMismatch, match="configured"):
            await MessageStore(small_config(tmp_path, **settings)).open()
    after = times(tmp_path)
    assert {path: after[path] for path in before if path.is_file() and path.name != "lock"} == {
        path: before[path] for path in before if path.is_file() and path.name != "lock"
    }
    async with MessageStore(small_config(tmp_path)) as store:
        assert bodies(store, queue_id=2) == [b"body"]


async def test_a_stray_file_in_the_log_is_refused(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        store.append(message())
    stray = tmp_path / "commitlog" / "notes.txt"
    stray.write_bytes(bytes(16_384))
    with pytest.raises(StoreMismatch, match=r"notes\.txt"):
        await MessageStore(small_config(tmp_path)).open()
    stray.unlink()
    (tmp_path / "commitlog" / "folder").mkdir()  # folders are let be
    async with MessageStore(small_config(tmp_path)) as store:
        assert bodies(store) == [b"body"]


async def test_nothing_but_what_rocketmq_knows_lies_among_the_files(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        for number in range(300):
            store.append(message(b"%d" % number, queue_id=number % 3, keys=f"k{number}"))
    for path in (tmp_path / "commitlog").iterdir():
        assert path.name.isdigit()
        assert len(path.name) == 20
        assert path.stat().st_size == 16_384
    for path in (tmp_path / "consumequeue").glob("*/*/*"):
        assert path.name.isdigit()
        assert len(path.name) == 20
        assert path.stat().st_size == 400
    for path in (tmp_path / "index").iterdir():
        assert path.name.isdigit()
        assert len(path.name) == 17
        assert path.stat().st_size == 40 + 16 * 4 + 64 * 20
    assert (tmp_path / "checkpoint").stat().st_size == 4096
