"""Headers of HTTP/2, held against another reader and writer of them."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.proxy.http2.hpack import BadHeaders, HeaderDecoder, HeadersTooLarge, literal

NAMES = st.one_of(
    st.sampled_from([":path", ":method", "x-mq-client-id", "authorization", "te"]),
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20),
)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=200)
BLOCKS = st.lists(st.dictionaries(NAMES, VALUES, max_size=10), max_size=20)


@given(BLOCKS, st.booleans(), st.sampled_from([0, 64, 500, 4096]))
def test_what_others_write_is_read(
    blocks: list[dict[str, str]], is_coded: bool, table_size: int
) -> None:
    encoder, decoder = hpack.Encoder(), HeaderDecoder()
    encoder.header_table_size = table_size
    for headers in blocks:
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        assert decoder.decode(encoder.encode(pairs, huffman=is_coded)) == headers


@given(st.dictionaries(NAMES, VALUES, max_size=10))
def test_what_we_write_is_read_by_others(headers: dict[str, str]) -> None:
    block = b"".join(literal(name, value) for name, value in headers.items())
    read = dict(hpack.Decoder(max_header_list_size=1 << 20).decode(block, raw=True))
    expected = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    assert read == expected


@given(st.binary(max_size=300))
def test_any_bytes_are_headers_or_refused(block: bytes) -> None:
    decoder = HeaderDecoder()
    try:
        decoder.decode(block)
    except (BadHeaders, HeadersTooLarge):
        pass


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # entry 0
        b"\xff\x80\x80\x80\x80\x80\x01",  # a number without end
        b"\xc0",  # an entry that was never sent
        b"\x00\x05ab",  # a text that ends too early
        b"\x00\x01a",  # no value
        b"\x3f\xe2\x1f",  # a table larger than ours
        b"\x00\x81\xff\x01a",  # a code of ones only, which is padding at most
        b"\x00\x84\xff\xff\xff\xff\x01a",  # the code of the end
    ],
)
def test_what_breaks_the_rules_is_refused(block: bytes) -> None:
    with pytest.raises(BadHeaders):
        HeaderDecoder().decode(block)


def test_few_bytes_cannot_become_many() -> None:
    decoder = HeaderDecoder()
    decoder.decode(b"\x40\x01a\x7f\x80\x07" + b"v" * 1023)
    with pytest.raises(HeadersTooLarge):
        decoder.decode(b"\xbe" * 1000)
