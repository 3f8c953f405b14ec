"""Message ids of both kinds."""

import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message import hosts, ids
from rocketq.message.ids import InvalidMessageId, UniqueIds
from tests.message.record import golden_stores

MONTH_START_MS = 1_793_491_200_000  # 2026-11-01 00:00 UTC


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is UTC, as it was where the golden stores were made."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_offset_id_of_the_specification() -> None:
    host = hosts.encode_host("192.168.1.10", 10911)
    message_id = ids.offset_message_id(host, 1000)
    assert message_id == "C0A8010A00002A9F00000000000003E8"
    assert ids.parse_offset_message_id(message_id) == ("192.168.1.10", 10911, 1000)


@given(st.ip_addresses().map(str), st.integers(0, 65535), st.integers(0, 2**63 - 1))
def test_offset_ids_round_trip(host: str, port: int, offset: int) -> None:
    encoded = hosts.encode_host(host, port)
    message_id = ids.offset_message_id(encoded, offset)
    assert len(message_id) in (32, 56)
    assert ids.is_offset_message_id(message_id)
    parsed_host, parsed_port, parsed_offset = ids.parse_offset_message_id(message_id)
    assert hosts.encode_host(parsed_host, parsed_port) == encoded
    assert parsed_offset == offset


@pytest.mark.parametrize("text", ["", "C0A8", "Z" * 32, "0" * 33])
def test_other_text_is_no_id(text: str) -> None:
    assert not ids.is_offset_message_id(text)
    with pytest.raises(InvalidMessageId):
        ids.parse_offset_message_id(text)


@pytest.mark.usefixtures("utc")
def test_the_unique_id_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 12345)
    unique_ids = UniqueIds(
        address=bytes([192, 168, 1, 20]),
        constant=bytes.fromhex("14DAD5DC"),
        now_ms=lambda: MONTH_START_MS + 123_456_789,
    )
    assert unique_ids.next() == "C0A80114303914DAD5DC075BCD150000"
    assert unique_ids.next() == "C0A80114303914DAD5DC075BCD150001"


@given(
    st.integers(0, 4_000_000_000_000),
    st.sampled_from([4, 16]),
    st.integers(0, 20 * 24 * 3600 * 1000),
)
def test_the_time_comes_back_out_of_a_unique_id(
    made_ms: int, address_size: int, later_ms: int
) -> None:
    unique_id = UniqueIds(address=bytes(address_size), now_ms=lambda: made_ms).next()
    assert len(unique_id) == 24 + 2 * address_size
    assert ids.unique_id_time(unique_id, made_ms + later_ms) == made_ms


def test_an_id_from_last_month_is_not_taken_for_one_of_the_future() -> None:
    month_start, _ = ids.month_around(1_750_000_000_000)
    unique_id = UniqueIds(now_ms=lambda: month_start - 1).next()
    assert ids.unique_id_time(unique_id, month_start + 5) == month_start - 1


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("month", range(1, 13))
def test_months_begin_at_their_first_midnight(month: int) -> None:
    start = datetime(2024, month, 1, tzinfo=UTC)
    following = datetime(2024 + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    expected = (int(start.timestamp() * 1000), int(following.timestamp() * 1000))
    assert ids.month_around(expected[0]) == expected
    assert ids.month_around(expected[1] - 1) == expected


def test_ids_are_unique_over_threads_generators_and_the_wrap_of_the_counter() -> None:
    shared = UniqueIds()
    made: list[str] = []

    def make() -> None:
        own = UniqueIds()
        made.extend(shared.next() for _ in range(3000))
        made.extend(own.next() for _ in range(3000))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == len(made) == 24_000


def test_a_forked_child_does_not_repeat_its_parent() -> None:
    unique_ids = UniqueIds()
    unique_ids.next()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, unique_ids.next().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = pipe.read()
    ours = unique_ids.next()
    assert theirs[:8] == ours[:8], "the same host"
    assert theirs[8:20] != ours[8:20], "another process, another constant"


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("store", golden_stores.NAMES)
def test_ids_made_by_java_tell_when(store: str) -> None:
    newest = max(message["storeTimestamp"] for message in golden_stores.messages(store))
    for message in golden_stores.messages(store):
        # Later incarnations keep the id; pop makes ids of its own for what it stores.
        if message["reconsumeTimes"] or not ids.is_offset_message_id(message.get("uniqId", "")):
            continue
        made_ms = ids.unique_id_time(message["uniqId"], newest + 1)
        # A client makes the id about when it notes the time of birth.
        assert abs(message["bornTimestamp"] - made_ms) < 60_000, message


def test_the_host_comes_back_out_of_a_unique_id() -> None:
    assert ids.unique_id_host("C0A80114303914DAD5DC075BCD150001") == "192.168.1.20"
    assert ids.unique_id_host(UniqueIds(address=bytes(15) + b"\x01").next()) == "::1"


def test_the_local_address_is_an_address() -> None:
    assert len(ids.local_address()) == 4
