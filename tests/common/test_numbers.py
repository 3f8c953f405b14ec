"""Numbers from outside are read by Java's rules, and nothing else is."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketq.common.numbers import (
    parse_float,
    parse_int32,
    parse_int64,
    parse_natural,
    whole_number,
)

INT32 = 2**31
INT64 = 2**63


@given(st.integers(-(2**70), 2**70))
@example(2**63)
@example(-(2**63) - 1)
@example(2**31)
@example(-(2**31) - 1)
def test_a_number_is_read_as_far_as_its_type_goes(number: int) -> None:
    fits_32, fits_64 = -INT32 <= number < INT32, -INT64 <= number < INT64
    for text in (str(number), str(number).encode()):
        assert parse_int64(text) == (number if fits_64 else None)
        assert parse_int32(text) == (number if fits_32 else None)
    assert whole_number(number) == (number if fits_64 else None)


@pytest.mark.parametrize("text", ["+5", "-5", "005", "-0", "9223372036854775807"])
def test_signs_and_zeros_are_read(text: str) -> None:
    assert parse_int64(text) == int(text)
    assert parse_int64(text.encode()) == int(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "-", " 5", "5 ", "5\n", "1_000", "0x10", "1e3", "1.0", "--5", "+-5"),
        *("\u0663", "\u00b2", "\uff15"),  # digits of other scripts
        *("9" * 400, "9" * 5_000, "0" * 1_000_000),
    ],
)
def test_what_is_not_such_a_number_is_none(text: str) -> None:
    assert parse_int64(text) is None
    assert parse_int64(text.encode()) is None
    assert parse_int32(text) is None


@given(st.text(max_size=25))
def test_any_text_is_a_number_or_none(text: str) -> None:
    for number in (parse_int64(text), parse_int64(text.encode("utf-8", "surrogatepass"))):
        assert number is None or number == int(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_read_as_it_was_written(number: float) -> None:
    assert parse_float(repr(number)) == number


@pytest.mark.parametrize(
    "text", ["nan", "inf", "Infinity", "1e999", "1_0.0", " 1", "", ".", "1" * 99]
)
def test_only_finite_decimals_are_read(text: str) -> None:
    assert parse_float(text) is None


def test_json_values_become_whole_numbers_where_they_can() -> None:
    assert whole_number("12") == 12
    assert whole_number("12.9") == 12
    assert whole_number(12.9) == 12
    assert whole_number(True) == 1
    nothing: list[object] = ["x", "9" * 5_000, math.inf, math.nan, 1e300, 2**63, None, [], {}]
    assert [whole_number(value) for value in nothing] == [None] * len(nothing)


def test_a_natural_number_has_a_lowest_and_a_highest() -> None:
    assert [parse_natural(text, 9) for text in ("0", b"9", "10", "-1", "9" * 400, None)] == [
        *(0, 9, None, None, None, None)
    ]
