"""Compressed bodies."""

import hashlib
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message import compression
from rocketq.message.compression import CompressionError
from rocketq.message.flags import CompressionType, SysFlag, with_compression
from rocketq.message.record.reader import decode_record
from tests.message.record import golden_stores

kinds = st.sampled_from(CompressionType)


@given(kinds, st.integers(1, 9), st.binary(max_size=2000))
def test_bodies_round_trip(kind: CompressionType, level: int, body: bytes) -> None:
    packed = compression.compress(kind, level, body)
    assert compression.decompress(with_compression(0, kind), packed) == body
    assert compression.decompress(with_compression(0, kind), memoryview(packed)) == body


@pytest.mark.parametrize("kind", CompressionType)
def test_text_gets_smaller(kind: CompressionType) -> None:
    body = b"the same words again " * 500
    assert len(compression.compress(kind, 5, memoryview(body))) < len(body) / 10


def test_without_a_type_the_compressed_bit_means_zlib() -> None:
    assert compression.decompress(SysFlag.COMPRESSED, zlib.compress(b"body")) == b"body"


def test_a_plain_body_comes_as_it_is() -> None:
    assert compression.decompress(0, memoryview(b"body")) == b"body"


@pytest.mark.parametrize("kind", CompressionType)
def test_a_body_that_would_explode_is_refused(kind: CompressionType) -> None:
    bomb = compression.compress(kind, 9, bytes(100_000))
    flag = with_compression(0, kind)
    assert len(compression.decompress(flag, bomb, max_size=100_000)) == 100_000
    with pytest.raises(CompressionError, match="more than 99999 bytes"):
        compression.decompress(flag, bomb, max_size=99_999)


@pytest.mark.parametrize("kind", CompressionType)
def test_a_body_cut_short_is_refused(kind: CompressionType) -> None:
    packed = compression.compress(kind, 5, bytes(range(256)) * 20)
    for cut in (0, 1, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CompressionError, match="damaged"):
            compression.decompress(with_compression(0, kind), packed[:cut])


@given(kinds, st.binary(max_size=50))
def test_garbage_is_refused_or_opened_but_nothing_else(
    kind: CompressionType, garbage: bytes
) -> None:
    try:
        compression.decompress(with_compression(0, kind), garbage)
    except CompressionError:
        pass


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(CompressionError, match="type 4 is not known"):
        compression.decompress(SysFlag.COMPRESSED | 0x400, b"x")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(CompressionError, match="needs the package lz4"):
        compression.compress(CompressionType.LZ4, 5, b"x")


@pytest.mark.parametrize("store", ["store-5.5.0", "store-4.9.8"])
def test_bodies_compressed_by_java_open(store: str) -> None:
    seen = set()
    for expected in golden_stores.messages(store):
        if not expected["sysFlag"] & SysFlag.COMPRESSED:
            continue
        message = decode_record(golden_stores.commit_log(store), expected["commitLogOffset"])
        body = compression.decompress(message.sys_flag, message.raw_body)
        assert hashlib.sha256(body).hexdigest() == expected["bodySha256"]
        assert message.body == body
        seen.add(message.sys_flag & SysFlag.COMPRESSION_MASK)
    zlib_only = {SysFlag.COMPRESSION_ZLIB}
    others = {SysFlag.COMPRESSION_LZ4, SysFlag.COMPRESSION_ZSTD}
    assert seen == (zlib_only if store == "store-4.9.8" else zlib_only | others)
