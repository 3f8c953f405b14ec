"""Small files that survive crashes."""

import os
from pathlib import Path

import pytest

from rocketq.common import json
from rocketq.common.files import backup_of, read_with_backup, write_atomically


def test_the_last_content_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    write_atomically(path, b'{"a":1}')
    write_atomically(path, b'{"a":2}')
    assert read_with_backup(path, json.loads) == {"a": 2}
    assert backup_of(path).read_bytes() == b'{"a":1}'
    assert sorted(os.listdir(path.parent)) == ["topics.json", "topics.json.bak"]


def test_no_backup_is_kept_where_none_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_atomically(path, b"1", keep_backup=False)
    write_atomically(path, b"2", keep_backup=False)
    assert os.listdir(tmp_path) == ["t"]


def test_nothing_is_read_where_nothing_is(tmp_path: Path) -> None:
    assert read_with_backup(tmp_path / "t", json.loads) is None


@pytest.mark.parametrize("damage", [b"", b"  \n", b'{"a":', None])
def test_the_backup_stands_in_for_a_file_that_is_damaged_or_gone(
    tmp_path: Path, damage: bytes | None
) -> None:
    path = tmp_path / "t"
    write_atomically(path, b'{"a":1}')
    write_atomically(path, b'{"a":2}')
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert read_with_backup(path, json.loads) == {"a": 1}


def test_a_damaged_file_without_backup_does_not_pass_for_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"{")
    with pytest.raises(json.JsonError):
        read_with_backup(path, json.loads)
