"""The Huffman code of HTTP/2's headers (RFC 7541, appendix B), as a table for decoding.

The code is canonical: it follows from the length of each symbol's code. Decoding takes four
bits at a time. A state is an inner node of the code's tree; an entry of the table says to which
state four bits lead and which symbol, if any, ends on the way. No code is shorter than five
bits, so there is at most one.
"""

from array import array
from typing import Final

_LENGTHS: Final = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c"
    "060a0a0c0d06080b0a0a080b080606060505050606060606060607080f060c0a"
    "0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c"
    "1416141416161617161717171717181718181617181717171715161716171718"
    "1615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
_END: Final = 256
assert len(_LENGTHS) == _END + 1

SYMBOL_SHIFT: Final = 16
WRONG: Final = -1


def _tree() -> list[list[int]]:
    """Inner nodes: two children each, another node, or a symbol as `-1 - symbol`."""
    nodes: list[list[int]] = [[0, 0]]
    code, length = -1, _LENGTHS[ord("0")]
    for symbol in sorted(range(_END + 1), key=lambda each: (_LENGTHS[each], each)):
        code = (code + 1) << (_LENGTHS[symbol] - length)
        length = _LENGTHS[symbol]
        at = 0
        for bit in range(length - 1, 0, -1):
            side = code >> bit & 1
            if not nodes[at][side]:
                nodes.append([0, 0])
                nodes[at][side] = len(nodes) - 1
            at = nodes[at][side]
        nodes[at][code & 1] = -1 - symbol
    return nodes


def _steps(nodes: list[list[int]]) -> "array[int]":
    """For each state and four bits: the next state, and above it the symbol plus one."""
    steps = array("i")
    for state in range(len(nodes)):
        for four in range(16):
            at, symbol = state, 0
            for bit in (3, 2, 1, 0):
                at = nodes[at][four >> bit & 1]
                if at < 0:
                    symbol, at = -at, 0
            is_wrong = symbol == _END + 1
            steps.append(WRONG if is_wrong else at | symbol << SYMBOL_SHIFT)
    return steps


def _endings(nodes: list[list[int]]) -> bytes:
    """For each state whether a text may end there: after up to seven bits, all of them 1."""
    may_end = bytearray(len(nodes))
    at = 0
    for _ in range(8):
        may_end[at] = 1
        at = nodes[at][1]
    return bytes(may_end)


_NODES: Final = _tree()
STEPS: Final = _steps(_NODES)
ENDINGS: Final = _endings(_NODES)
