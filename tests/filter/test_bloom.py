"""The positions of subscriptions in filter bit maps."""

from collections.abc import Iterator

import pytest

from rocketq.filter.bloom import BloomShape, has_positions, murmur3_x64_128, set_positions
from tests.message import golden_stores


def test_the_hash_of_the_specification() -> None:
    text = b"The quick brown fox jumps over the lazy dog"
    assert murmur3_x64_128(text).hex() == "6c1b07bc7bbc4be347939ac4a93c437a"
    assert murmur3_x64_128(b"") == bytes(16)


def test_the_shape_and_positions_of_the_specification() -> None:
    shape = BloomShape(error_percent=20, expected_consumers=32)
    assert (shape.bit_count, shape.positions_each) == (112, 3)
    assert shape.positions("GroupF", "TopicFilter") == [24, 103, 41]


def stored_subscriptions() -> Iterator[tuple[str, str, int, list[int]]]:
    for store in golden_stores.NAMES:
        topics = golden_stores.manifest(store)["config"]["consumerFilter.json"]
        for topic, groups in topics["filterDataByTopic"].items():
            for group, data in groups["groupFilterData"].items():
                bloom = data["bloomFilterData"]
                yield group, topic, bloom["bitNum"], bloom["bitPos"]


def test_java_computed_the_same_positions() -> None:
    subscriptions = list(stored_subscriptions())
    assert subscriptions
    shape = BloomShape()
    for group, topic, bit_count, positions in subscriptions:
        assert shape.bit_count == bit_count
        assert shape.positions(group, topic) == positions


@pytest.mark.parametrize("missing", [24, 103, 41])
def test_a_match_needs_every_position(missing: int) -> None:
    bits = bytearray(14)
    set_positions(bits, [24, 103, 41])
    assert has_positions(bytes(bits), [24, 103, 41])
    bits[missing // 8] = 0
    assert not has_positions(bytes(bits), [24, 103, 41])
