"""The Bloom filter bits by which a broker may note, at storing, whom a message interests.

Each SQL92 subscription has a few positions in a row of bits, computed from its name. A broker
that calculates filter bit maps sets the positions of every subscription a message matches, and
later passes over messages that lack one of a subscription's positions. The positions are
written to consumerFilter.json, so all brokers have to compute the same ones: 20 % error and
32 consumers give 3 positions in 112 bits.

Positions come from MurmurHash3 (x64, 128 bits, seed 0), of which the first 64 bits are used.
"""

import math
from typing import Final

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class BloomShape:
    """How many bits there are and how many of them each subscription takes."""

    __slots__ = ("bit_count", "positions_each")

    def __init__(self, error_percent: int = 20, expected_consumers: int = 32) -> None:
        error = error_percent / 100
        self.positions_each = math.ceil(math.log(error, 0.5))
        bits = math.ceil(
            expected_consumers * math.log(error) / math.log(1 / math.pow(2, math.log(2)))
        )
        self.bit_count = (bits + 7) // 8 * 8

    def positions(self, group: str, topic: str) -> list[int]:
        """The positions of a group's subscription to a topic."""
        first_half = int.from_bytes(murmur3_x64_128(f"{group}#{topic}".encode())[:8], "little")
        low = first_half & 0xFFFFFFFF
        high = first_half >> 32
        positions = []
        for i in range(1, self.positions_each + 1):
            combined = (low + i * high) & 0xFFFFFFFF
            if combined & 0x80000000:  # negative, as a signed number
                combined ^= 0xFFFFFFFF
            positions.append(combined % self.bit_count)
        return positions


def set_positions(bits: bytearray, positions: list[int]) -> None:
    """Note a match. Bit b is in byte b // 8, the lowest bit first."""
    for position in positions:
        bits[position // 8] |= 1 << (position % 8)


def has_positions(bits: bytes, positions: list[int]) -> bool:
    """Whether a match may have been noted."""
    return all(bits[position // 8] & (1 << (position % 8)) for position in positions)


def murmur3_x64_128(data: bytes) -> bytes:
    """MurmurHash3 for 64-bit machines, 128 bits, seed 0."""
    h1 = h2 = 0
    tail_at = len(data) - len(data) % 16
    for at in range(0, tail_at, 16):
        h1 ^= _mixed(data[at : at + 8], _C1, 31, _C2)
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mixed(data[at + 8 : at + 16], _C2, 33, _C1)
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    h2 ^= _mixed(data[tail_at + 8 :], _C2, 33, _C1)
    h1 ^= _mixed(data[tail_at : tail_at + 8], _C1, 31, _C2)
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1 = _finished(h1)
    h2 = _finished(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return h1.to_bytes(8, "little") + h2.to_bytes(8, "little")


def _mixed(block: bytes, first: int, rotation: int, second: int) -> int:
    k = int.from_bytes(block, "little")
    return _rotated(k * first & _MASK, rotation) * second & _MASK


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


def _finished(h: int) -> int:
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & _MASK
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ (h >> 33)
