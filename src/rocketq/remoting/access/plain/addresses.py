"""White lists: patterns of addresses, as RocketMQ 4 writes them.

    *                     everybody
    10.10.103.*           a star for any number, from the second on
    10.1-5.*.*            a range of numbers
    10.10.103.{1,2,7}     some numbers at the end
    10.1.2.3,10.1.2.4     several addresses
    10.1.2.3              one
    (nothing)             nobody

IPv6 addresses are written alike, with colons.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Final

from rocketq.common.errors import RocketqError

Matches = Callable[[str], bool]

_EVERYBODY: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_LONGEST: Final = 4096
_RANGE: Final = re.compile(r"([0-9a-fA-F]{1,4})-([0-9a-fA-F]{1,4})")


class InvalidAddress(RocketqError):
    """A pattern of addresses that means nothing."""


def white_list(text: str) -> Matches:
    """What tells whether an address is on the list. Raises InvalidAddress."""
    text = text.strip()
    if len(text) > _LONGEST:
        raise InvalidAddress(f"a list of {len(text)} characters, allowed are {_LONGEST}")
    if not text:
        return _nobody
    if text in _EVERYBODY:
        return _everybody
    if text.endswith("}"):
        before, _, ends = text[:-1].rpartition("{")
        return _any_of([before + end.strip() for end in ends.split(",")])
    if "," in text:
        return _any_of([part.strip() for part in text.split(",")])
    if "*" in text or "-" in text:
        return _pattern(text)
    return _any_of([text])


def _nobody(address: str) -> bool:
    return False


def _everybody(address: str) -> bool:
    return True


def _any_of(texts: list[str]) -> Matches:
    """Addresses, compared by what they mean: IPv6 can be written in many ways."""
    try:
        addresses = frozenset(ipaddress.ip_address(text) for text in texts)
    except ValueError:
        raise InvalidAddress(f"{', '.join(texts)[:80]!r}: not addresses") from None

    def matches(address: str) -> bool:
        try:
            return ipaddress.ip_address(address) in addresses
        except ValueError:
            return False

    return matches


def _pattern(text: str) -> Matches:
    is_v6 = ":" in text
    parts = text.split(":" if is_v6 else ".")
    if len(parts) != (8 if is_v6 else 4):
        raise InvalidAddress(f"{text[:80]!r}: not a pattern of addresses")
    base, highest = (16, 0xFFFF) if is_v6 else (10, 255)
    if parts[0] == "*" or "-" in parts[0]:
        raise InvalidAddress(f"{text[:80]!r}: the first number has to be one")
    ranges = [_range(part, base, highest, text) for part in parts]

    def matches(address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        if (found.version == 6) != is_v6:
            return False
        numbers = (
            [int.from_bytes(found.packed[at : at + 2]) for at in range(0, 16, 2)]
            if is_v6
            else list(found.packed)
        )
        return all(
            low <= number <= high for number, (low, high) in zip(numbers, ranges, strict=True)
        )

    return matches


def _range(part: str, base: int, highest: int, text: str) -> tuple[int, int]:
    if part == "*":
        return 0, highest
    found = _RANGE.fullmatch(part) or re.fullmatch(r"([0-9a-fA-F]{1,4})", part)
    try:
        if found is None:
            raise ValueError
        low = int(found[1], base)
        high = int(found[found.re.groups], base)
    except ValueError:
        raise InvalidAddress(f"{text[:80]!r}: not a pattern of addresses") from None
    if not low <= high <= highest:
        raise InvalidAddress(f"{text[:80]!r}: not a range")
    return low, high
