"""Numbers from outside: headers, properties, bodies, files, settings.

Whatever arrives as text is read here, by the rules of Java's parsers: an optional sign and
ASCII digits, within 32 or 64 bits, and nothing else. Python's `int` takes more (blanks,
underscores, the digits of every script, thousands of them at quadratic cost) and raises for
the rest; these return None, so that each caller says what an unusable number means to it.
"""

import math
import re
from typing import Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

# A sign and the 19 digits of 2**63; more would be out of range or begin with idle zeros.
_TEXT_LIMIT: Final = 20
# So many digits are in range whatever they are.
_SURE_DIGITS: Final = 18
_FLOAT_LIMIT: Final = 64
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_int64(text: str | bytes) -> int | None:
    """A whole number of 64 bits, Java's long."""
    if len(text) <= _SURE_DIGITS and text.isdigit() and text.isascii():
        return int(text)
    if len(text) > _TEXT_LIMIT:
        return None
    digits = text[1:] if text[:1] in ("+", "-", b"+", b"-") else text
    # Of bytes `isdigit` knows ASCII alone; of text it knows every script.
    if not digits.isdigit() or not digits.isascii():
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


def parse_int32(text: str | bytes) -> int | None:
    """A whole number of 32 bits, Java's int."""
    number = parse_int64(text)
    if number is None or not -INT32_MAX - 1 <= number <= INT32_MAX:
        return None
    return number


def parse_natural(text: str | bytes | None, highest: int = INT64_MAX) -> int | None:
    """A whole number from 0 on; None also where there is no text, or the number is higher."""
    if text is None:
        return None
    if len(text) <= _SURE_DIGITS and text.isdigit() and text.isascii():
        number: int | None = int(text)
    else:
        number = parse_int64(text)
    return number if number is not None and 0 <= number <= highest else None


def parse_float(text: str) -> float | None:
    """A finite decimal number."""
    if len(text) > _FLOAT_LIMIT or _FLOAT.fullmatch(text) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def whole_number(value: object) -> int | None:
    """A 64-bit number from a JSON value: a number, or a text that holds one.

    A fraction loses what is behind its point, as in Java.
    """
    if isinstance(value, str):
        number = parse_int64(value)
        if number is not None:
            return number
        value = parse_float(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = int(value)
    if isinstance(value, int) and -INT64_MAX - 1 <= value <= INT64_MAX:
        return int(value)
    return None
