"""Java's hash codes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message.hashing import java_hash, java_hash_bytes, tags_code


def reference_hash(text: str) -> int:
    """The definition, slowly: over UTF-16 units, wrapping at 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for i in range(0, len(units), 2):
        h = (31 * h + int.from_bytes(units[i : i + 2], "big")) % 2**32
    return h - 2**32 if h >= 2**31 else h


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("TopicTest#KEY1", -1656969516),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_known_hash_codes(text: str, code: int) -> None:
    assert java_hash(text) == code
    assert java_hash_bytes(text.encode()) == code


@given(st.text(st.characters()))
def test_any_text_hashes_as_in_java(text: str) -> None:
    assert java_hash(text) == reference_hash(text)


@given(st.text())
def test_encoded_text_hashes_as_the_text(text: str) -> None:
    encoded = text.encode()
    assert java_hash_bytes(encoded) == java_hash(text)
    assert java_hash_bytes(memoryview(encoded)) == java_hash(text)
    assert java_hash_bytes(bytearray(encoded)) == java_hash(text)


@given(st.text(), st.text())
def test_a_seed_continues_from_what_came_before(first: str, second: str) -> None:
    assert java_hash_bytes(second.encode(), java_hash(first)) == java_hash(first + second)


@given(st.binary())
def test_bytes_that_are_no_text_hash_as_their_replacement(data: bytes) -> None:
    assert java_hash_bytes(data) == java_hash(data.decode("utf-8", "replace"))


def test_a_message_without_tag_has_code_0() -> None:
    assert tags_code(None) == 0
    assert tags_code("") == 0
    assert tags_code("TagA") == 2598919
