"""Looking at directories without opening them."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from rocketq.cli.store import check as check_command
from rocketq.store import MessageStore
from rocketq.store.inspect.check import Finding, Severity, check_store
from rocketq.store.inspect.dump import dump_store
from tests.store.support import Golden, message, small_config


def problems(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is not Severity.INFO]


@pytest.mark.parametrize("name", ["store-5.5.0", "store-4.9.8"])
def test_stores_of_java_are_in_order(tmp_path: Path, name: str) -> None:
    golden = Golden(name, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert problems(list(check_store(tmp_path, golden.config))) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_crashed_store_shows_what_was_done_to_it(tmp_path: Path) -> None:
    golden = Golden("store-5.5.0-crashed", tmp_path)
    found = [str(finding) for finding in problems(list(check_store(tmp_path, golden.config)))]
    assert any("CrashA/0" in text and "have no entry" in text for text in found)
    assert any("CrashB/0" in text and "have no entry" in text for text in found)
    assert any("CrashBatch/0" in text and "have no entry" in text for text in found)


@pytest.mark.parametrize("name", ["store-5.5.0", "store-4.9.8", "store-5.5.0-timer-pop"])
def test_every_message_of_a_java_store_is_dumped(tmp_path: Path, name: str) -> None:
    golden = Golden(name, tmp_path)
    dumped = {found.physical_offset: found for found in dump_store(tmp_path)}
    for expected in golden.manifest["messages"]:
        found = dumped[expected["commitLogOffset"]]
        assert found.topic == expected["topic"]
        assert found.queue_offset == expected["queueOffset"]
        assert found.properties == expected["properties"]
    by_topic = Counter(found.topic for found in dumped.values())
    for topic, count in by_topic.items():
        assert len(list(dump_store(tmp_path, topic))) == count


async def test_a_live_store_is_in_order(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        for number in range(300):
            store.append(message(b"%d" % number, queue_id=number % 3, keys=f"k{number} all"))
        assert problems(list(check_store(tmp_path, config))) == []
        assert len(list(dump_store(tmp_path, config=config))) == 300
        assert len(list(dump_store(tmp_path, "nothing", config))) == 0
        assert store.append(message()).is_stored
    assert problems(list(check_store(tmp_path, config))) == []


async def test_sizes_are_read_off_the_files(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        store.append(message(keys="k"))
    assert problems(list(check_store(tmp_path))) == []


async def damaged(tmp_path: Path) -> Path:
    async with MessageStore(small_config(tmp_path)) as store:
        for number in range(100):
            store.append(message(b"message %d" % number, keys=f"k{number}"))
    return tmp_path


async def test_a_wrong_entry_is_an_error(tmp_path: Path) -> None:
    root = await damaged(tmp_path)
    path = root / "consumequeue" / "orders" / "0" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[47] ^= 1  # the position of the third message
    path.write_bytes(content)
    (finding,) = problems(list(check_store(root, small_config(root))))
    assert finding.severity is Severity.ERROR
    assert "offset 2 points at" in finding.text


async def test_a_lost_queue_and_a_lost_index_are_warnings(tmp_path: Path) -> None:
    root = await damaged(tmp_path)
    shutil.rmtree(root / "consumequeue" / "orders")
    shutil.rmtree(root / "index")
    found = problems(list(check_store(root, small_config(root))))
    assert {finding.severity for finding in found} == {Severity.WARNING}
    assert [finding.place for finding in found] == ["consumequeue orders/0", "index"]


async def test_a_broken_chain_of_the_index_is_found(tmp_path: Path) -> None:
    root = await damaged(tmp_path)
    path = min((root / "index").iterdir())
    content = bytearray(path.read_bytes())
    content[40:44] = bytes(4)  # a slot forgets its entries
    path.write_bytes(content)
    found = problems(list(check_store(root, small_config(root))))
    assert any("cannot be reached" in finding.text for finding in found)
    assert any("cannot be found" in finding.text for finding in found)


async def test_a_slot_that_leads_out_of_a_full_file_of_the_index_is_found(tmp_path: Path) -> None:
    root = await damaged(tmp_path)
    config = small_config(root)
    path = min((root / "index").iterdir())
    content = bytearray(path.read_bytes())
    content[36:44] = 2 * config.max_index_num.to_bytes(4, "big")
    path.write_bytes(content)
    found = problems(list(check_store(root, config)))
    assert any(f"leads to entry {config.max_index_num}" in finding.text for finding in found)


def test_an_empty_directory_is_in_order(tmp_path: Path) -> None:
    assert problems(list(check_store(tmp_path))) == []
    assert list(dump_store(tmp_path)) == []


@pytest.mark.parametrize(("count", "number"), [(1, 0), (5, 0), (5, 2), (5, 4)])
async def test_a_record_that_names_another_topic_is_an_error(
    tmp_path: Path, count: int, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        results = [store.append(message(b"body")) for _ in range(count)]
        store.append(message(b"body", topic="others"))
    path = tmp_path / "commitlog" / f"{0:020d}"
    log = path.read_bytes()
    at = log.index(b"orders", results[number].physical_offset)
    path.write_bytes(log[: at + 5] + b"t" + log[at + 6 :])
    findings = list(check_store(tmp_path, config))
    assert any(f.severity is Severity.ERROR and "no message" in f.text for f in findings)
    with pytest.raises(SystemExit) as exit_code:
        check_command(tmp_path)
    assert exit_code.value.code == 1
    assert "error: consumequeue orders/0" in capsys.readouterr().out


async def test_a_wrong_tag_code_is_an_error(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        store.append(message(b"body", tags="tag"))
    path = tmp_path / "consumequeue" / "orders" / "0" / f"{0:020d}"
    entry = bytearray(path.read_bytes())
    entry[19] ^= 1
    path.write_bytes(entry)
    findings = list(check_store(tmp_path, config))
    assert [f.text for f in findings if f.severity is Severity.ERROR] == [
        "offset 0 has the tag code 114587, its message 114586"
    ]
