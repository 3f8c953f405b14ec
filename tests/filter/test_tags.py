"""Tag expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.filter import FilterError, TagFilter, filter_for, parse_tags
from rocketq.message.hashing import java_hash
from tests.message.record import golden_stores

tags = st.text(
    st.characters(exclude_characters="|*", exclude_categories=["Cs", "Z", "C"]), min_size=1
)


@pytest.mark.parametrize("text", ["", "*", "  ", " * "])
def test_everything_passes_where_no_tag_is_named(text: str) -> None:
    everything = parse_tags(text)
    assert everything.is_everything
    assert everything.matches_code(0)
    assert everything.matches_code(12345)
    assert everything.matches_properties({})
    assert filter_for("TAG", text) is None


@pytest.mark.parametrize(
    "text", ["a||b", " a || b ", "a||b||", "||a||||b", "a ||  || b", "b||a||a"]
)
def test_parts_are_trimmed_and_empty_ones_dropped(text: str) -> None:
    assert parse_tags(text).tags == {"a", "b"}


@pytest.mark.parametrize("text", ["||", " || || "])
def test_separators_alone_name_nothing(text: str) -> None:
    with pytest.raises(FilterError, match="no tag is named"):
        parse_tags(text)


@given(st.sets(tags, min_size=1), tags)
def test_a_broker_compares_hash_codes_and_a_client_the_tags(named: set[str], tag: str) -> None:
    parsed = parse_tags(" || ".join(named))
    assert parsed.tags == named
    assert parsed.matches_code(java_hash(tag)) is (java_hash(tag) in map(java_hash, named))
    assert parsed.matches_properties({"TAGS": tag}) is (tag in named)


def test_tags_with_the_same_hash_code_pass_the_broker_but_not_the_client() -> None:
    wanted = parse_tags("Aa")
    assert wanted.matches_code(java_hash("BB"))
    assert not wanted.matches_properties({"TAGS": "BB"})


def test_a_message_without_tag_is_dropped_where_tags_were_asked_for() -> None:
    wanted = parse_tags("a")
    assert not wanted.matches_code(0)
    assert not wanted.matches_properties({})
    assert not wanted.needs_properties


def test_one_bar_belongs_to_a_tag() -> None:
    assert parse_tags("a|b").tags == {"a|b"}


@pytest.mark.parametrize("expression_type", [None, "", "TAG"])
def test_tags_are_what_a_subscription_without_type_means(expression_type: str | None) -> None:
    made = filter_for(expression_type, "a || b")
    assert isinstance(made, TagFilter)
    assert repr(made) == "TagFilter(a || b)"


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(FilterError, match="'XPATH' is not known"):
        filter_for("XPATH", "a")


@pytest.mark.parametrize("store", ["store-5.5.0", "store-4.9.8", "store-5.5.0-crashed"])
def test_java_delivers_the_same_messages(store: str) -> None:
    """What a Java broker answered to tag pulls, and what is left after its client's check."""
    manifest = golden_stores.manifest(store)
    assert manifest["tagPulls"]
    for key, offsets in manifest["tagPulls"].items():
        topic, queue_id, expression = key.split("/", 2)
        wanted = parse_tags(expression)
        passing = [
            message["queueOffset"]
            for message in golden_stores.messages(store)
            if (message["topic"], str(message["queueId"])) == (topic, queue_id)
            and wanted.matches_code(java_hash(message["properties"].get("TAGS", "")))
            and wanted.matches_properties(message["properties"])
        ]
        assert sorted(passing) == offsets, key


def test_too_many_tags_are_refused() -> None:
    with pytest.raises(FilterError, match="more than 1024 tags"):
        parse_tags("||".join(f"t{number}" for number in range(1_025)))
    with pytest.raises(FilterError, match="longer than 32768"):
        parse_tags("x" * 40_000)
