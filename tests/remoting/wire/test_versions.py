"""Release numbers by their names."""

import pytest

from rocketq.remoting.versions import version_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "V3_0_0"),
        (37, "V3_0_11"),
        (46, "V3_1_0_SNAPSHOT"),
        (85, "V3_2_9"),
        (87, "V3_3_1"),
        (121, "V3_4_9"),
        (122, "V3_5_1_SNAPSHOT"),
        (211, "V3_9_9"),
        (213, "V4_0_0"),
        (253, "V4_2_0"),
        (317, "V4_5_2"),
        (408, "V4_9_8_SNAPSHOT"),
        (409, "V4_9_8"),
        (479, "V5_3_3"),
        (513, "V5_5_0"),
        (611, "V5_9_9"),
        (612, "HIGHER_VERSION"),
        (9999, "HIGHER_VERSION"),
    ],
)
def test_a_number_has_the_name_of_its_release(number: int, name: str) -> None:
    assert version_name(number) == name
