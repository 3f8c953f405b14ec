"""HMAC-SHA1 of something short, for hot modules.

What HMAC does with the key alone is done once, by `ready`; `digest` does the rest. Each stands
here in Python and in hmac_sha1.pxd in C, as those of `rocketq.common.memory` do: for a few
hundred bytes hashlib's way through OpenSSL takes longer than the sum itself. For long ones it
is the faster one.
"""

import hashlib
from functools import partial
from typing import Final

_BLOCK: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))

_sha1: Final = partial(hashlib.sha1, usedforsecurity=False)


def block_of(secret: bytes) -> bytes:
    """A key as HMAC wants it: a whole block."""
    if len(secret) > _BLOCK:
        secret = _sha1(secret).digest()
    return secret.ljust(_BLOCK, b"\0")


def ready(block: bytes) -> bytes:
    """A key made ready for `digest`; its block stands at the end."""
    return block


def digest(ready: bytes, content: bytes) -> bytes:
    """HMAC-SHA1 of some content."""
    inner = _sha1(ready.translate(_INNER) + content).digest()
    return _sha1(ready.translate(_OUTER) + inner).digest()
