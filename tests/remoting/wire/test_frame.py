"""Cutting a stream of bytes into frames."""

import itertools
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.remoting import BadFrame, Command, SerializeType
from rocketq.remoting.wire.frame import FRAME_LIMIT, FrameSplitter, decode_frame

GOOD = b"".join(Command(1, ext_fields={"a": "b"}, body=b"body").encode())


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(0, 3000), max_size=10))
def test_frames_come_out_whole_wherever_the_stream_is_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(b"".join(Command(1, body=body).encode()) for body in bodies)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = FrameSplitter()
    commands = []
    for start, end in itertools.pairwise(edges):
        commands += splitter.feed(stream[start:end])
    assert [command.body for command in commands] == bodies
    assert splitter.buffered == 0
    assert splitter.error is None


def bad_frames() -> dict[str, bytes]:
    def frame(header: bytes, kind: int = 0, header_size: int | None = None) -> bytes:
        size = len(header) if header_size is None else header_size
        return struct.pack(">iI", 4 + len(header), kind << 24 | size) + header

    def binary(remark_size: int = 0, ext_size: int = 0, rest: bytes = b"") -> bytes:
        return frame(
            struct.pack(">hbhiii", 1, 0, 0, 1, 0, remark_size) + struct.pack(">i", ext_size) + rest,
            SerializeType.ROCKETMQ,
        )

    return {
        "zero length": struct.pack(">i", 0),
        "negative length": struct.pack(">i", -1),
        "length without header word": struct.pack(">i", 3) + b"abc",
        "giant length": struct.pack(">i", 2**31 - 1),
        "one byte over the limit": struct.pack(">i", FRAME_LIMIT - 3),
        "HTTP": b"GET / HTTP/1.1\r\n\r\n",
        "TLS": bytes.fromhex("16030102000100"),
        "header longer than the frame": frame(b"{}", header_size=3),
        "no header": frame(b""),
        "bad JSON": frame(b'{"code":1'),
        "JSON that is no object": frame(b"[1]"),
        "code that is no number": frame(b'{"code":"x"}'),
        "opaque beyond 32 bits": frame(b'{"code":1,"opaque":4294967296}'),
        "code with a fraction": frame(b'{"code":1.5}'),
        "ext fields that are no object": frame(b'{"code":1,"extFields":[1]}'),
        "unknown encoding": frame(b"{}", kind=2),
        "truncated binary header": frame(b"\x00" * 20, kind=1),
        "remark beyond the header": binary(remark_size=10),
        "negative remark": binary(remark_size=-1),
        "ext fields beyond the header": binary(ext_size=1),
        "negative ext fields": binary(ext_size=-1),
        "name beyond the ext fields": binary(ext_size=8, rest=struct.pack(">h", 9) + b"\x00" * 6),
        "negative name": binary(ext_size=8, rest=struct.pack(">h", -1) + b"\x00" * 6),
        "value beyond the ext fields": binary(
            ext_size=7, rest=struct.pack(">h", 1) + b"a" + struct.pack(">i", 1)
        ),
        "negative value": binary(
            ext_size=7, rest=struct.pack(">h", 1) + b"a" + struct.pack(">i", -1)
        ),
        "cut off name": binary(ext_size=1, rest=b"\x00"),
    }


@pytest.mark.parametrize("bad", bad_frames().values(), ids=bad_frames().keys())
def test_a_bad_frame_ends_the_stream_but_not_what_came_before_it(bad: bytes) -> None:
    splitter = FrameSplitter()
    commands = splitter.feed(GOOD + GOOD + bad + GOOD)
    assert [command.body for command in commands] == [b"body", b"body"]
    assert isinstance(splitter.error, BadFrame)
    assert splitter.feed(GOOD) == []
    assert splitter.buffered == 0


@pytest.mark.parametrize("bad", bad_frames().values(), ids=bad_frames().keys())
def test_a_bad_frame_is_found_out_byte_by_byte_as_well(bad: bytes) -> None:
    splitter = FrameSplitter()
    for at in range(len(bad)):
        assert splitter.feed(bad[at : at + 1]) == []
    splitter.feed(GOOD)
    assert isinstance(splitter.error, BadFrame)


def test_the_longest_frame_is_taken() -> None:
    header = b"".join(Command(1).encode())[8:]
    body = bytes(FRAME_LIMIT - 8 - len(header))
    frame = b"".join(Command(1, body=body).encode())
    assert len(frame) == FRAME_LIMIT
    splitter = FrameSplitter()
    commands = []
    for at in range(0, len(frame), 256_000):
        commands += splitter.feed(frame[at : at + 256_000])
    assert [len(command.body) for command in commands] == [len(body)]


def test_no_memory_is_taken_on_the_word_of_a_length_field() -> None:
    splitters = [FrameSplitter() for _ in range(100)]
    tracemalloc.start()
    try:
        for splitter in splitters:
            splitter.feed(struct.pack(">iI", FRAME_LIMIT - 4, FRAME_LIMIT - 9) + b"{")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_bodies_outlive_the_piece_they_came_in() -> None:
    splitter = FrameSplitter()
    frame = b"".join(Command(1, body=b"x" * 10_000).encode())
    (first,) = splitter.feed(bytearray(frame))
    assert splitter.feed(frame[:5000]) == []
    (second,) = splitter.feed(frame[5000:] + frame[:100])
    (third,) = splitter.feed(frame[100:])
    for command in (first, second, third):
        assert command.body == b"x" * 10_000


@given(st.binary(max_size=200))
def test_nothing_but_bad_frame_comes_out_of_garbage(data: bytes) -> None:
    FrameSplitter().feed(data)
    try:
        decode_frame(data)
    except BadFrame:
        pass


header_bytes = st.binary(max_size=80) | st.text(
    '{}[]:,"\\ \n0123456789-+.eutrfalsn', max_size=80
).map(str.encode)


@given(header_bytes, st.integers(0, 2))
def test_any_header_is_understood_or_refused(header: bytes, kind: int) -> None:
    frame = struct.pack(">iI", 4 + len(header), kind << 24 | len(header)) + header
    splitter = FrameSplitter()
    for command in splitter.feed(frame + GOOD):
        assert repr(command)
        assert command.encode()
