"""One pass over encoded properties finds what the store and the broker look for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message.hashing import java_hash
from rocketq.message.properties.codec import get_property
from rocketq.message.properties.walk import ATTRIBUTES, PropertyScan, scan_properties

known_names = st.sampled_from(sorted(ATTRIBUTES))
names = known_names | known_names.map(lambda name: name[:-1] + b"?") | st.binary(max_size=20)
raw_properties = st.lists(
    st.tuples(names, st.sampled_from([b"\x01", b""]), st.binary(max_size=8)).map(b"".join)
).map(b"\x02".join)


@given(raw_properties)
def test_each_attribute_is_the_property_of_its_name(raw: bytes) -> None:
    scan = scan_properties(raw)
    for name, attribute in ATTRIBUTES.items():
        assert getattr(scan, attribute) == get_property(raw, name), name


@pytest.mark.parametrize(("name", "attribute"), ATTRIBUTES.items())
def test_every_known_name_is_found(name: bytes, attribute: str) -> None:
    scan = scan_properties(b"other\x01x\x02" + name + b"\x01value")
    found = {other: getattr(scan, other) for other in ATTRIBUTES.values()}
    assert {key: value for key, value in found.items() if value is not None} == {
        attribute: b"value"
    }


def test_slices_of_a_larger_buffer_can_be_scanned() -> None:
    buffer = memoryview(bytearray(b"....TAGS\x01paid\x02...."))
    assert scan_properties(buffer[4:14]).tags == b"paid"


def test_nothing_is_found_in_nothing() -> None:
    scan = scan_properties(b"")
    assert all(getattr(scan, attribute) is None for attribute in ATTRIBUTES.values())
    assert (scan.tags_code, scan.delay_level) == (0, 0)
    assert scan.wait_store_ok
    assert not scan.is_transaction


@pytest.mark.parametrize("tag", ["TagA", "标签", "🚀"])
def test_the_code_of_a_tag_is_its_java_hash(tag: str) -> None:
    assert scan_properties(f"TAGS\x01{tag}\x02".encode()).tags_code == java_hash(tag)


@pytest.mark.parametrize(("text", "level"), [(b"3", 3), (b"x", 0), (b"-1", -1)])
def test_the_delay_level_is_a_number(text: bytes, level: int) -> None:
    assert scan_properties(b"DELAY\x01" + text).delay_level == level


def test_true_is_true_in_any_case() -> None:
    assert scan_properties(b"TRAN_MSG\x01true\x02").is_transaction
    assert scan_properties(b"TRAN_MSG\x01TRUE\x02").is_transaction
    assert not scan_properties(b"TRAN_MSG\x01yes\x02").is_transaction
    assert not scan_properties(b"WAIT\x01false\x02").wait_store_ok
    assert scan_properties(b"WAIT\x01true\x02").wait_store_ok


def test_a_scan_cannot_be_changed_when_compiled_and_need_not_be() -> None:
    assert isinstance(scan_properties(b"KEYS\x01k"), PropertyScan)
