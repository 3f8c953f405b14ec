"""The encoded form of properties, and changes to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message.properties.codec import (
    InvalidProperty,
    PropertyName,
    append_property,
    check_user_property,
    decode_properties,
    encode_properties,
    get_property,
    remove_property,
    set_property,
)

property_texts = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1
)
property_maps = st.dictionaries(property_texts, property_texts)
# Names that begin and end alike, to be taken for one another by a careless search.
similar_names = st.sampled_from([b"A", b"AA", b"BA", b"AB", b"TAGS", b"XTAGS", b"TAGSX"])
similar_values = st.binary(max_size=4).map(
    lambda value: value.replace(b"\x02", b"").replace(b"\x01", b"=")
)
raw_properties = st.lists(
    st.binary(max_size=6) | st.sampled_from([b"A\x01x", b"AA\x01", b"\x01"])
).map(b"\x02".join)


@given(property_maps)
def test_what_is_encoded_decodes_again(properties: dict[str, str]) -> None:
    encoded = encode_properties(properties)
    assert decode_properties(encoded) == properties
    assert decode_properties(memoryview(encoded)) == properties


@given(property_maps)
def test_the_last_separator_may_be_missing(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)[:-1]) == properties


def test_every_entry_ends_with_a_separator() -> None:
    assert encode_properties({"KEYS": "k", "TAGS": "t"}) == b"KEYS\x01k\x02TAGS\x01t\x02"
    assert encode_properties({}) == b""


@pytest.mark.parametrize(
    "encoded",
    [b"", b"\x02\x02", b"name", b"\x01value\x02", b"name\x01\x02", b"\x01\x02", b"ab\x02"],
)
def test_entries_without_name_or_value_do_not_exist(encoded: bytes) -> None:
    assert decode_properties(encoded) == {}


def test_a_value_may_hold_the_name_separator() -> None:
    assert decode_properties(b"a\x01b\x01c\x02") == {"a": "b\x01c"}


def test_the_last_of_equal_names_counts() -> None:
    assert decode_properties(b"a\x011\x02a\x012\x02") == {"a": "2"}
    assert get_property(b"a\x011\x02a\x012\x02", b"a") == b"2"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert decode_properties(b"a\x01\xff\x02") == {"a": "\ufffd"}


@given(raw_properties, st.sampled_from([b"A", b"AA", b"TAGS"]))
def test_one_property_is_found_as_decoding_all_finds_it(raw: bytes, name: bytes) -> None:
    decoded = decode_properties(raw).get(name.decode())
    found = get_property(raw, name)
    assert (None if found is None else found.decode("utf-8", "replace")) == decoded


@given(st.lists(st.tuples(similar_names, similar_values)), similar_names, st.booleans())
def test_removing_leaves_all_others(
    entries: list[tuple[bytes, bytes]], name: bytes, terminated: bool
) -> None:
    raw = b"".join(b"%b\x01%b\x02" % entry for entry in entries)
    if not terminated:
        raw = raw[:-1]

    removed = remove_property(raw, name)

    expected = decode_properties(raw)
    expected.pop(name.decode(), None)
    assert decode_properties(removed) == expected


@given(st.lists(st.tuples(similar_names, similar_values)), similar_names, st.booleans())
def test_setting_replaces_and_keeps_all_others(
    entries: list[tuple[bytes, bytes]], name: bytes, terminated: bool
) -> None:
    raw = b"".join(b"%b\x01%b\x02" % entry for entry in entries)
    if not terminated:
        raw = raw[:-1]

    changed = set_property(raw, name, b"new")

    assert decode_properties(changed) == {**decode_properties(raw), name.decode(): "new"}
    assert changed.count(b"\x02" + name + b"\x01") + changed.startswith(name + b"\x01") == 1


def test_appending_adds_the_separator_older_brokers_left_out() -> None:
    assert append_property(b"", b"a", b"1") == b"a\x011\x02"
    assert append_property(b"b\x012", b"a", b"1") == b"b\x012\x02a\x011\x02"
    assert append_property(b"b\x012\x02", b"a", b"1") == b"b\x012\x02a\x011\x02"


def test_removing_what_is_not_there_changes_nothing() -> None:
    raw = b"XTAGS\x01v\x02"
    assert remove_property(raw, b"TAGS") is raw


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "v"), (" ", "v"), ("n", ""), ("n", " "), ("TAGS", "v"), ("n\x01", "v"), ("n", "v\x02")],
)
def test_users_may_not_set_everything(name: str, value: str) -> None:
    with pytest.raises(InvalidProperty):
        check_user_property(name, value)


def test_users_may_set_properties_of_their_own() -> None:
    check_user_property("shop", "7")
    check_user_property("tags", "lower case is not the system's")
    assert PropertyName.UNIQUE_KEY == "UNIQ_KEY"
