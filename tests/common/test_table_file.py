"""Tables on disk: written soon, written whole, written once more at the end."""

import asyncio
import threading
from pathlib import Path

import pytest

from rocketq.common.table_file import TableFile


async def test_a_change_is_on_the_disk_when_it_is_saved(tmp_path: Path) -> None:
    file = TableFile(tmp_path / "table.json", lambda: b"content")

    file.save()
    assert not (tmp_path / "table.json").exists()
    await file.saved()

    assert (tmp_path / "table.json").read_bytes() == b"content"
    assert not file.is_stale


async def test_changes_during_a_write_cost_one_more_write(tmp_path: Path) -> None:
    table = [0]
    written = []

    def encode() -> bytes:
        written.append(table[0])
        return str(table[0]).encode()

    file = TableFile(tmp_path / "table.json", encode)
    file.save()
    await asyncio.sleep(0)  # the first write has begun
    for value in range(1, 100):
        table[0] = value
        file.save()
    await file.saved()

    assert written == [0, 99]
    assert (tmp_path / "table.json").read_bytes() == b"99"
    assert (tmp_path / "table.json.bak").read_bytes() == b"0"


async def test_a_large_table_is_encoded_outside_the_loop(tmp_path: Path) -> None:
    threads = []

    def encode() -> bytes:
        threads.append(threading.current_thread())
        return b"{}"

    file = TableFile(tmp_path / "table.json", lambda: encode)
    file.save()
    await file.saved()

    assert threads
    assert threads[0] is not threading.main_thread()


async def test_a_noted_change_waits_for_the_next_save_or_the_end(tmp_path: Path) -> None:
    file = TableFile(tmp_path / "table.json", lambda: b"content")

    file.touch()
    await file.saved()
    assert not (tmp_path / "table.json").exists()
    await file.close()

    assert (tmp_path / "table.json").exists()


async def test_a_disk_that_refuses_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocker = tmp_path / "config"
    blocker.write_text("a file where a folder should be")
    file = TableFile(blocker / "table.json", lambda: b"content")

    file.save()
    await file.saved()
    assert "could not be written" in caplog.text
    assert file.is_stale
    blocker.unlink()
    await file.close()

    assert (blocker / "table.json").read_bytes() == b"content"


async def test_a_copy_is_written_when_what_it_speaks_of_is_on_the_disk(tmp_path: Path) -> None:
    table = [1]
    answers = [True, False]
    file = TableFile(tmp_path / "table.json", lambda: str(table[0]).encode())

    async def log_is_flushed() -> bool:
        table[0] += 1  # while the disk is waited for
        return answers.pop(0)

    file.after = log_is_flushed
    file.save()
    await file.saved()
    assert (tmp_path / "table.json").read_bytes() == b"1"

    file.save()
    await file.saved()
    assert (tmp_path / "table.json").read_bytes() == b"1"
    assert file.is_stale
