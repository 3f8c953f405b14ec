"""The replication wire: what is said in any number of parts is understood as if said at once."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.store.replication.frames import (
    InvalidFrame,
    Pieces,
    Reports,
    encode_head,
    encode_report,
)

positions = st.integers(0, 2**63 - 1)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


@given(st.lists(positions, min_size=1), st.lists(st.integers(0, 10_000)))
def test_the_newest_whole_report_counts(said: list[int], places: list[int]) -> None:
    reports = Reports()
    heard = [reports.take(part) for part in cut(b"".join(map(encode_report, said)), places)]

    known = [position for position in heard if position is not None]
    assert known[-1] == said[-1]
    assert [each for each in said if each in known][-1] == said[-1]


@given(
    st.integers(0, 2**40),
    st.lists(st.binary(max_size=50), max_size=20),
    st.lists(st.integers(0, 10_000), max_size=40),
)
def test_pieces_give_the_log_in_its_order(
    start: int, parts: list[bytes], places: list[int]
) -> None:
    said, at = b"", start
    for part in parts:
        said += encode_head(at, len(part)) + part
        at += len(part)

    pieces, received, expected = Pieces(), b"", start
    for data in cut(said, places):
        for position, piece in pieces.take(memoryview(data)):
            if piece:
                assert position == expected
            received += piece
            expected += len(piece)

    assert received == b"".join(parts)
    assert expected == at


def test_a_negative_size_is_no_piece() -> None:
    with pytest.raises(InvalidFrame):
        list(Pieces().take(memoryview(struct.pack(">qi", 0, -1))))


def test_a_sign_of_life_is_an_empty_piece() -> None:
    (piece,) = Pieces().take(memoryview(encode_head(77, 0)))
    assert (piece.position, bytes(piece.data)) == (77, b"")
