"""The replication wire with epochs: understood in any number of parts, refused if it is none."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.store.replication.epoch_frames import (
    EpochPiece,
    MasterHello,
    MasterWords,
    SlaveHello,
    SlaveWords,
    encode_head,
    encode_master_hello,
    encode_report,
    encode_slave_hello,
)
from rocketq.store.replication.epochs import Epoch
from rocketq.store.replication.frames import InvalidFrame

positions = st.integers(0, 2**63 - 1)
epochs = st.builds(Epoch, st.integers(0, 2**31 - 1), positions)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


def test_the_layouts_are_rocketmqs() -> None:
    assert encode_slave_hello(7, from_last=True, is_learner=False).hex() == (
        "00000001" + "0001" + "0000" + "0000000000000007"
    )
    assert encode_report(9).hex() == "00000002" + "0000000000000009"
    assert encode_master_hello(5, [Epoch(3, 4)]).hex() == (
        "00000001" + "0000000c" + "0000000000000005" + "00000003" + "00000003" + "0000000000000004"
    )
    assert encode_head(1, 2, Epoch(3, 4), 5).hex() == (
        "00000002" + "00000001" + "0000000000000002" + "00000003" + "0000000000000004"
        "0000000000000005"
    )


@given(st.lists(positions), st.lists(st.integers(0, 10_000)), st.integers(1, 2**62), st.booleans())
def test_slaves_are_understood(
    said: list[int], places: list[int], broker_id: int, is_learner: bool
) -> None:
    data = encode_slave_hello(broker_id, from_last=not is_learner, is_learner=is_learner)
    data += b"".join(map(encode_report, said))
    words = SlaveWords()
    heard = [words.take(part) for part in cut(data, places)]
    assert words.hello == SlaveHello(not is_learner, is_learner, broker_id)
    known = [position for position in heard if position is not None]
    assert known[-1:] == said[-1:]


@given(
    positions,
    st.lists(epochs, max_size=20),
    st.lists(st.tuples(st.binary(max_size=40), epochs, positions), max_size=10),
    st.lists(st.integers(0, 10_000), max_size=40),
)
def test_masters_are_understood(
    end: int,
    known: list[Epoch],
    pieces: list[tuple[bytes, Epoch, int]],
    places: list[int],
) -> None:
    data, at = encode_master_hello(end, known), 0
    for body, epoch, confirmed in pieces:
        data += encode_head(len(body), at, epoch, confirmed) + body
        at += len(body)
    words = MasterWords()
    heard = [word for part in cut(data, places) for word in words.take(memoryview(part))]
    assert heard[0] == MasterHello(end, tuple(known))
    received = b""
    for word in heard[1:]:
        assert isinstance(word, EpochPiece)
        if word.data:
            assert word.position == len(received)
        received += word.data
    assert received == b"".join(body for body, _, _ in pieces)
    told = [(word.epoch, word.confirmed) for word in heard[1:] if isinstance(word, EpochPiece)]
    assert list(dict.fromkeys(told)) == list(dict.fromkeys((e, c) for _, e, c in pieces))


@pytest.mark.parametrize(
    "data",
    [
        encode_report(1),
        struct.pack(">i", 3),
        encode_slave_hello(1, from_last=False, is_learner=False) * 2,
    ],
)
def test_a_slave_that_speaks_out_of_turn_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidFrame):
        SlaveWords().take(data)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">iiqi", 2, 0, 0, 0),
        struct.pack(">iiqi", 1, 13, 0, 0),
        struct.pack(">iiqi", 1, -12, 0, 0),
        struct.pack(">iiqi", 1, 12 * 1001, 0, 0),
        encode_master_hello(0, []) + struct.pack(">iiqiqq", 2, -1, 0, 0, 0, 0),
        encode_master_hello(0, []) + struct.pack(">iiqiqq", 1, 1, 0, 0, 0, 0),
    ],
)
def test_what_no_master_sends_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidFrame):
        list(MasterWords().take(memoryview(data)))
