"""What an entry of encoded properties is, and that everybody who walks over them agrees."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message.properties import entries
from rocketq.message.properties.codec import decode_properties, get_property

NAMES = [b"TAGS", b"KEYS", b"UNIQ_KEY", b"TAG", b"TAGSX", b"a"]
raw_properties = st.lists(
    st.tuples(
        st.sampled_from(NAMES) | st.binary(max_size=8),
        st.sampled_from([b"\x01", b"\x01", b""]),
        st.binary(max_size=8),
    ).map(b"".join)
).map(b"\x02".join)


def by_splitting(raw: bytes) -> dict[bytes, bytes]:
    """The rule in other words."""
    parts = (entry.partition(b"\x01") for entry in raw.split(b"\x02"))
    return {name: value for name, _, value in parts if name and value}


@given(raw_properties)
def test_one_property_and_all_of_them_are_found_by_the_same_rule(raw: bytes) -> None:
    expected = by_splitting(raw)
    for name in NAMES:
        assert get_property(raw, name) == expected.get(name)
    assert decode_properties(raw) == {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for name, value in expected.items()
    }


@given(raw_properties, st.sampled_from(NAMES))
def test_a_value_is_found_where_it_lies(raw: bytes, name: bytes) -> None:
    found = entries.find_value(raw, 0, len(raw), name, len(name))
    if found.at < 0:
        assert name not in by_splitting(raw)
    else:
        assert raw[found.at : found.at + found.size] == by_splitting(raw)[name]


@given(raw_properties)
def test_the_walk_sees_every_entry_once(raw: bytes) -> None:
    seen = {}
    at = 0
    while at < len(raw):
        stop = entries.entry_end(raw, at, len(raw))
        middle = entries.name_end(raw, at, stop)
        if middle >= 0:
            seen[raw[at:middle]] = raw[middle + 1 : stop]
            assert entries.is_named(raw, at, stop, raw[at:middle], middle - at)
        at = stop + 1
    assert seen == by_splitting(raw)


def test_slices_of_a_larger_buffer_can_be_read() -> None:
    buffer = memoryview(bytearray(b"....TAGS\x01paid\x02...."))
    assert get_property(buffer[4:14], b"TAGS") == b"paid"
    assert get_property(b"TAGS\x01no\x02TAGS\x01paid", b"TAGS", 8) == b"paid"
    with pytest.raises(IndexError):
        get_property(b"TAGS\x01paid", b"TAGS", -1)


def test_c_and_python_have_the_same_functions() -> None:
    pxd = Path(entries.__file__).with_suffix(".pxd").read_text()
    declared = re.findall(r"^cdef inline [\w ]+? (\w+)\(", pxd, re.MULTILINE)
    assert declared == ["entry_end", "name_end", "is_named", "find_value"]
    assert all(callable(getattr(entries, name)) for name in declared)
