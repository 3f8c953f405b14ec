"""Opening stores that were stopped, killed, or damaged.

Each example damages a copy of the same store in one way and opens it: what was not damaged is
served, nothing is served that was never written, and the damage is reported.
"""

import asyncio
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketq.message.record.reader import check_record, decode_records
from rocketq.store import Disk, MessageStore, StoreConfig
from rocketq.store.inspect.check import Severity, check_store
from tests.store.support import message, read_everything, read_queue, small_config

QUEUES = 3
MESSAGES = 150

slow_examples = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True)
class Written:
    """A message as it was acknowledged."""

    position: int
    size: int
    queue_id: int
    queue_offset: int
    body: bytes
    key: str


class Template:
    """A directory, and what was put into it."""

    def __init__(self, root: Path, messages: list[Written]) -> None:
        self.root = root
        self.messages = messages

    @property
    def end(self) -> int:
        return self.messages[-1].position + self.messages[-1].size


def config_of(root: Path) -> StoreConfig:
    return small_config(root, mapped_file_size_commit_log=4096, enabled_append_prop_crc=True)


async def fill(store: MessageStore) -> list[Written]:
    written = []
    for number in range(MESSAGES):
        body = b"message %d " % number + b"x" * (number * 7 % 60)
        key = f"key{number}"
        queue_id = number * number % QUEUES
        result = store.append(message(body, queue_id=queue_id, keys=key, tags=f"T{number % 5}"))
        assert result.is_stored
        written.append(
            Written(result.physical_offset, result.size, queue_id, result.queue_offset, body, key)
        )
    return written


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A store that was closed in good order."""
    root = tmp_path_factory.mktemp("stopped")

    async def make() -> list[Written]:
        async with MessageStore(config_of(root)) as store:
            return await fill(store)

    return Template(root, asyncio.run(make()))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A store whose process died: the files as they were at that moment."""
    root = tmp_path_factory.mktemp("running")
    copy = tmp_path_factory.mktemp("killed") / "store"

    async def make() -> list[Written]:
        async with MessageStore(config_of(root)) as store:
            written = await fill(store)
            shutil.copytree(root, copy)
            return written

    return Template(copy, asyncio.run(make()))


@contextmanager
def copy_of(template: Template) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        shutil.copytree(template.root, root)
        yield root


@dataclass
class Served:
    """What a store serves after it was opened."""

    messages: dict[tuple[int, int], tuple[int, bytes]]
    """(queue id, offset) -> (position, body)"""
    ends: list[int]
    keys: dict[str, list[int]]
    is_damage_reported: bool
    rebuilt: list[str]
    is_clean: bool
    start: int
    end: int


def open_and_read(root: Path, *, keys: list[str] | None = None) -> Served:
    async def read() -> Served:
        async with MessageStore(config_of(root)) as store:
            assert store.recovery is not None
            messages = {}
            for queue_id in range(QUEUES):
                for found in read_queue(store, queue_id=queue_id):
                    messages[queue_id, found.queue_offset] = (found.physical_offset, found.body)
            by_key = {}
            for key in keys or []:
                buffers = store.query_keys("orders", key, 64, 0, 1 << 60).buffers
                found_by_key = [m for buffer in buffers for m in decode_records(buffer)]
                by_key[key] = [m.physical_offset for m in found_by_key if key in m.keys]
            return Served(
                messages,
                [store.max_offset("orders", queue_id) for queue_id in range(QUEUES)],
                by_key,
                bool(store.damages) or store.recovery.cut_from is not None,
                store.recovery.rebuilt_queues,
                store.recovery.is_clean,
                store.recovery.start,
                store.max_physical_offset,
            )

    return asyncio.run(read())


def expected(messages: list[Written]) -> dict[tuple[int, int], tuple[int, bytes]]:
    return {(m.queue_id, m.queue_offset): (m.position, m.body) for m in messages}


def change_log(root: Path, position: int, change: Callable[[bytearray, int], None]) -> None:
    path = root / "commitlog" / f"{position // 4096 * 4096:020d}"
    data = bytearray(path.read_bytes())
    change(data, position % 4096)
    path.write_bytes(data)


# Nothing is damaged


def test_a_stopped_store_is_complete(stopped: Template) -> None:
    with copy_of(stopped) as root:
        assert not (root / "abort").exists()
        served = open_and_read(root, keys=[m.key for m in stopped.messages])
    assert served.is_clean
    assert served.messages == expected(stopped.messages)
    assert served.keys == {m.key: [m.position] for m in stopped.messages}
    assert not served.is_damage_reported
    assert served.end == stopped.end


def test_a_killed_store_is_complete(killed: Template) -> None:
    with copy_of(killed) as root:
        assert (root / "abort").exists()
        served = open_and_read(root, keys=[m.key for m in killed.messages])
    assert not served.is_clean
    assert served.messages == expected(killed.messages)
    assert served.keys == {m.key: [m.position] for m in killed.messages}
    assert not served.is_damage_reported


def test_a_store_is_complete_after_a_power_failure(
    killed: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Disk, "boot_id", lambda disk: b"another boot    ")
    with copy_of(killed) as root:
        served = open_and_read(root, keys=[m.key for m in killed.messages])
    assert served.messages == expected(killed.messages)
    assert served.keys == {m.key: [m.position] for m in killed.messages}


def test_a_log_that_the_power_took_whole_may_lack_its_end(
    killed: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that were ahead of it are told so, or they would pass over what comes next."""
    monkeypatch.setattr(Disk, "boot_id", lambda disk: b"another boot    ")

    async def opened(root: Path) -> None:
        async with MessageStore(config_of(root)) as store:
            assert store.max_physical_offset == 0
            assert store.recovery is not None
            assert store.recovery.may_lack_its_end

    with copy_of(killed) as root:
        shutil.rmtree(root / "commitlog")
        asyncio.run(opened(root))


def test_what_follows_a_recovery_survives_the_next(killed: Template) -> None:
    with copy_of(killed) as root:

        async def go_on(number: int) -> None:
            async with MessageStore(config_of(root)) as store:
                assert bodies_of(store)[-1] == (b"%d" % (number - 1) if number else bodies[-1])
                store.append(message(b"%d" % number))

        def bodies_of(store: MessageStore) -> list[bytes]:
            return [m.body for m in read_queue(store)]

        bodies = [m.body for m in killed.messages if m.queue_id == 0]
        for number in range(5):
            asyncio.run(go_on(number))


def test_a_start_reads_only_the_end_of_the_log(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=1 << 20)

    async def write(size: int) -> tuple[int, int]:
        async with MessageStore(config) as store:
            assert store.recovery is not None
            for _ in range(size // 50_000):
                store.append(message(bytes(50_000)))
            return store.recovery.start, store.recovery.end

    async def write_and_forget() -> None:
        await write(0)
        (tmp_path / "checkpoint").unlink()

    asyncio.run(write(12 << 20))
    start, end = asyncio.run(write(0))
    assert 4 << 20 <= end - start < 6 << 20
    # Everything was read once, for want of a checkpoint; not again after that.
    asyncio.run(write_and_forget())
    (tmp_path / "abort").touch()
    start, end = asyncio.run(write(0))
    assert start == 0
    start, end = asyncio.run(write(0))
    assert 4 << 20 <= end - start < 6 << 20


def test_queues_are_made_anew_when_somebody_deletes_them(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=1 << 20)

    async def write() -> None:
        async with MessageStore(config) as store:
            store.append(message(b"old", topic="old"))
            for _ in range(200):
                store.append(message(bytes(50_000)))

    async def read() -> list[bytes]:
        async with MessageStore(config) as store:
            return [m.body for m in read_queue(store, "old")]

    asyncio.run(write())
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "checkpoint").unlink()
    assert asyncio.run(read()) == [b"old"]


# The log is damaged


@slow_examples
@given(st.data())
def test_a_torn_last_record_is_cut_off(killed: Template, data: st.DataObject) -> None:
    last = killed.messages[-1]
    cut = data.draw(st.integers(0, last.size - 1), label="cut")
    with copy_of(killed) as root:

        def tear(log: bytearray, at: int) -> None:
            log[at + cut : at + last.size] = bytes(last.size - cut)

        change_log(root, last.position, tear)
        served = open_and_read(root)
    assert served.messages == expected(killed.messages[:-1])
    assert served.end == last.position
    assert served.is_damage_reported or cut <= 3  # up to there a record begins with zeros


def test_every_cut_of_the_last_record_is_noticed(killed: Template) -> None:
    """All of them, without opening a store for each: what recovery looks at."""
    last = killed.messages[-1]
    path = killed.root / "commitlog" / f"{last.position // 4096 * 4096:020d}"
    log = path.read_bytes()
    at = last.position % 4096
    for cut in range(last.size):
        torn = log[: at + cut] + bytes(len(log) - at - cut)
        is_whole = check_record(torn, at).is_valid and torn[at + last.size - 1] == 2
        assert not is_whole, cut


@slow_examples
@given(st.data())
def test_a_torn_record_without_property_checksum_is_cut_off(
    tmp_path: Path, data: st.DataObject
) -> None:
    """The checksum of the body says nothing about the properties behind it."""
    with tempfile.TemporaryDirectory() as folder:
        root, copy = Path(folder) / "running", Path(folder) / "killed"
        config = small_config(root)

        async def make() -> tuple[int, int]:
            async with MessageStore(config) as store:
                store.append(message(b"whole"))
                result = store.append(message(b"torn", tags="tag", keys="some keys"))
                shutil.copytree(root, copy)
                return result.physical_offset, result.size

        position, size = asyncio.run(make())
        cut = data.draw(st.integers(0, size - 1), label="cut")
        path = copy / "commitlog" / f"{0:020d}"
        log = bytearray(path.read_bytes())
        log[position + cut : position + size] = bytes(size - cut)
        path.write_bytes(log)

        async def read() -> list[bytes]:
            async with MessageStore(small_config(copy)) as store:
                return [m.body for m in read_queue(store)]

        assert asyncio.run(read()) == [b"whole"]


def test_a_property_with_a_zero_in_it_is_no_torn_record(tmp_path: Path) -> None:
    config, copy = small_config(tmp_path / "running"), small_config(tmp_path / "killed")

    async def make() -> None:
        async with MessageStore(config) as store:
            store.append(message(b"first", properties=b"name\1va\0lue\0"))
            store.append(message(b"second"))
            shutil.copytree(config.root, copy.root)

    async def read() -> list[bytes]:
        async with MessageStore(copy) as store:
            return [m.body for m in read_queue(store)]

    asyncio.run(make())
    assert asyncio.run(read()) == [b"first", b"second"]


def hit_by(template: Template, position: int) -> list[Written]:
    """The message whose record holds a position.

    None if it is the name of the checksum: without its name it is no checksum, the rest of
    the record is as it was, and that is all that can be known.
    """
    for written in template.messages:
        end = written.position + written.size
        if written.position <= position < end:
            return [] if end - 20 <= position < end - 11 else [written]
    return []


def assert_only_one_is_lost(template: Template, served: Served, position: int) -> None:
    """Everything is served but the record that holds the damaged position."""
    hit = hit_by(template, position)
    intact = [m for m in template.messages if m not in hit]
    assert served.messages == expected(intact)
    assert served.is_damage_reported or not hit


@slow_examples
@given(st.data())
def test_any_flipped_bit_costs_only_its_record(killed: Template, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, killed.end - 1), label="position")
    bit = data.draw(st.integers(0, 7), label="bit")
    with copy_of(killed) as root:
        change_log(root, position, lambda log, at: log.__setitem__(at, log[at] ^ (1 << bit)))
        served = open_and_read(root)
        assert_only_one_is_lost(killed, served, position)


@slow_examples
@given(st.data())
def test_a_flipped_bit_is_found_in_a_stopped_store_too(
    stopped: Template, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, stopped.end - 1), label="position")
    bit = data.draw(st.integers(0, 7), label="bit")
    hit = hit_by(stopped, position)
    with copy_of(stopped) as root:
        change_log(root, position, lambda log, at: log.__setitem__(at, log[at] ^ (1 << bit)))
        findings = list(check_store(root, config_of(root)))
        served = open_and_read(root)
    assert_only_one_is_lost(stopped, served, position)
    if hit:
        assert any(finding.severity is Severity.ERROR for finding in findings)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (12, b"\x7f"),  # queue id
        (20, b"\x01"),  # queue offset, far beyond
        (20, b"\xff"),  # queue offset, negative
        (27, b"\x00"),  # queue offset, that of another message
        (-30, b"/"),  # topic, see below
    ],
)
def test_nonsense_before_the_body_does_no_harm(tmp_path: Path, at: int, value: bytes) -> None:
    """Without a checksum in the properties nobody can say whether these fields are right."""
    root, copy = tmp_path / "running", tmp_path / "killed"
    properties = b"n\x01" + b"v" * 20 + b"\x02"  # the topic ends 25 bytes before the end

    async def make() -> tuple[int, int]:
        async with MessageStore(small_config(root)) as store:
            results = [
                store.append(message(b"%d" % number, properties=properties)) for number in range(10)
            ]
            shutil.copytree(root, copy)
            return results[5].physical_offset, results[5].size

    position, size = asyncio.run(make())
    path = copy / "commitlog" / f"{0:020d}"
    log = bytearray(path.read_bytes())
    place = position + (at if at >= 0 else size + at)
    log[place : place + 1] = value
    path.write_bytes(log)

    async def read() -> list[bytes]:
        async with MessageStore(small_config(copy)) as store:
            found = read_queue(store)
            assert store.append(message(b"next")).queue_offset == 10
            assert store.topics() == ["orders"]
            return [m.body for m in found]

    served = asyncio.run(read())
    whole = [b"%d" % number for number in range(10)]
    assert served in (whole, whole[:5] + whole[6:])


def test_a_lost_log_file_costs_only_its_messages(stopped: Template) -> None:
    with copy_of(stopped) as root:
        (root / "commitlog" / f"{8192:020d}").unlink()
        served = open_and_read(root)
    intact = [m for m in stopped.messages if not 8192 <= m.position < 12288]
    assert served.messages == expected(intact)
    assert served.is_damage_reported


def test_old_records_behind_the_end_do_not_come_back(killed: Template) -> None:
    """A broker cut the log once and wrote on; behind its new end lie whole old records."""
    cut = killed.messages[-40]
    with copy_of(killed) as root:

        def tear(log: bytearray, at: int) -> None:
            log[at + 4 : at + 8] = bytes(4)

        # As RocketMQ does it: the end is moved back, the bytes stay, and are overwritten by
        # what comes next. The files behind are deleted.
        change_log(root, cut.position, tear)
        for path in (root / "commitlog").iterdir():
            if int(path.name) > cut.position:
                path.unlink()
        (root / "checkpoint").unlink()
        served = open_and_read(root)
        survivors = [
            m
            for m in killed.messages
            if m.position < cut.position
            or (cut.position < m.position and m.position < (cut.position // 4096 + 1) * 4096)
        ]
        assert set(served.messages.values()) <= set(expected(survivors).values())


def test_a_log_without_files_starts_anew(stopped: Template) -> None:
    with copy_of(stopped) as root:
        shutil.rmtree(root / "commitlog")
        served = open_and_read(root, keys=["key1"])
    assert served.messages == {}
    assert served.ends == [0, 0, 0]
    assert served.keys == {"key1": []}
    assert served.end == 0


def test_an_empty_last_file_is_one_whose_making_was_interrupted(stopped: Template) -> None:
    with copy_of(stopped) as root:
        names = sorted(path.name for path in (root / "commitlog").iterdir())
        following = root / "commitlog" / f"{int(names[-1]) + 4096:020d}"
        following.touch()
        served = open_and_read(root)
        assert not following.exists()
    assert served.messages == expected(stopped.messages)


# Derived data is damaged


def derived_files(root: Path) -> list[Path]:
    found = [*root.glob("consumequeue/*/*/*"), *root.glob("index/*")]
    return sorted(found)


file_damages = st.dictionaries(
    st.integers(0, 1000),
    st.one_of(st.none(), st.floats(0, 1, exclude_max=True)),
    min_size=1,
    max_size=4,
)
"""Which files are hit, and how much is left of each: nothing at all, or a part."""


@slow_examples
@given(st.booleans(), file_damages)
def test_any_lost_or_cut_file_is_made_again(
    stopped: Template, killed: Template, was_killed: bool, damages: dict[int, float | None]
) -> None:
    template = killed if was_killed else stopped
    with copy_of(template) as root:
        files = derived_files(root)
        for number, part in damages.items():
            path = files[number % len(files)]
            if part is None:
                path.unlink(missing_ok=True)
            elif path.exists():
                with open(path, "r+b") as file:
                    file.truncate(int(path.stat().st_size * part))
        served = open_and_read(root, keys=[m.key for m in template.messages])
    assert served.messages == expected(template.messages)
    assert not served.is_damage_reported
    lost_keys = [key for key, positions in served.keys.items() if not positions]
    assert lost_keys == []


@pytest.mark.parametrize("name", ["consumequeue", "index"])
def test_all_derived_data_is_made_again(stopped: Template, killed: Template, name: str) -> None:
    for template in (stopped, killed):
        with copy_of(template) as root:
            shutil.rmtree(root / name)
            served = open_and_read(root, keys=[m.key for m in template.messages])
        assert served.messages == expected(template.messages)
        assert served.keys == {m.key: [m.position] for m in template.messages}


@slow_examples
@given(st.data())
def test_entries_that_are_zeroed_are_written_again(killed: Template, data: st.DataObject) -> None:
    with copy_of(killed) as root:
        files = sorted(root.glob("consumequeue/*/*/*"))
        path = files[data.draw(st.integers(0, 1000), label="file") % len(files)]
        content = bytearray(path.read_bytes())
        entry = data.draw(st.integers(0, 19), label="entry")
        content[entry * 20 :] = bytes(len(content) - entry * 20)
        path.write_bytes(content)
        served = open_and_read(root)
    assert served.messages == expected(killed.messages)


def test_entries_for_what_the_log_lost_are_dropped(killed: Template) -> None:
    """The queue's pages reached the disk, those of the log did not."""
    kept = killed.messages[:100]
    with copy_of(killed) as root:
        (root / "checkpoint").unlink()
        cut = killed.messages[100]
        for path in (root / "commitlog").iterdir():
            start = int(path.name)
            if start > cut.position:
                path.write_bytes(bytes(4096))
            elif start + 4096 > cut.position:
                content = bytearray(path.read_bytes())
                content[cut.position - start :] = bytes(4096 - (cut.position - start))
                path.write_bytes(content)
        served = open_and_read(root)
        assert served.messages == expected(kept)
        assert served.end == cut.position
        # And the numbers are given again, without a gap.
        ends = [max(m.queue_offset for m in kept if m.queue_id == q) + 1 for q in (0, 1)]
        assert served.ends[:2] == ends


def test_a_lost_checkpoint_only_costs_time(stopped: Template, killed: Template) -> None:
    for template in (stopped, killed):
        with copy_of(template) as root:
            (root / "checkpoint").unlink()
            served = open_and_read(root, keys=[m.key for m in template.messages])
        assert served.messages == expected(template.messages)
        assert served.keys == {m.key: [m.position] for m in template.messages}


@slow_examples
@given(st.binary(max_size=100), st.integers(0, 1200))
def test_a_damaged_checkpoint_misleads_nobody(killed: Template, bad: bytes, at: int) -> None:
    with copy_of(killed) as root:
        page = bytearray((root / "checkpoint").read_bytes())
        page[at : at + len(bad)] = bad
        (root / "checkpoint").write_bytes(page)
        served = open_and_read(root)
    # RocketMQ's part has no checksum: times in the future start recovery in the last file,
    # but the log itself is never cut short by them.
    assert served.end == killed.end


async def test_a_log_that_ends_with_a_full_file_is_whole_at_every_start(tmp_path: Path) -> None:
    """Killed when the next file was made and nothing was in it yet."""
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        while store.max_physical_offset + 200 < config.mapped_file_size_commit_log:
            store.append(message(b"body"))
        end = store.max_physical_offset
    size = config.mapped_file_size_commit_log
    first, second = (tmp_path / "commitlog" / f"{start:020d}" for start in (0, size))
    log = bytearray(first.read_bytes())
    log[end : end + 8] = struct.pack(">iI", size - end, 0xCBD43194)
    first.write_bytes(log)
    second.write_bytes(bytes(size))
    (tmp_path / "abort").write_text("1")
    for turn in range(3):
        async with MessageStore(config) as store:
            assert store.damages == []
            assert store.max_physical_offset == size
            everything = read_everything(store)
            assert len(everything["orders", 0]) > 50
        assert not (tmp_path / "aside").exists(), turn
    async with MessageStore(config) as store:
        assert store.append(message(b"next")).physical_offset == size
        assert read_queue(store)[-1].body == b"next"
