"""A certificate for tests: made in memory, signed by itself, believed by nobody who looks.

RocketMQ's `tls.test.mode.enable` means that a server encrypts although nobody has given it a
certificate. It keeps listeners out, not those who stand in between, so nothing here needs to be
more than correct: an elliptic key (P-256), and the few fields that a certificate must have.
Python's ssl reads certificates and makes none.
"""

import base64
import functools
import hashlib
import os
import secrets
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

# The curve y^2 = x^3 - 3x + b over integers modulo _P; its base point has the order _N.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_EC_KEY: Final = bytes.fromhex("06072a8648ce3d0201")
_P256: Final = bytes.fromhex("06082a8648ce3d030107")
_ECDSA_SHA256: Final = bytes.fromhex("06082a8648ce3d040302")
_COMMON_NAME: Final = bytes.fromhex("0603550403")
_LIFE: Final = timedelta(days=3650)


def load_self_signed(context: ssl.SSLContext) -> None:
    """Have a context show such a certificate: one for each process."""
    pem = _pem()
    # ssl reads keys from files alone; this one is gone before anything else happens.
    descriptor, name = tempfile.mkstemp(prefix="rocketq-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(pem)
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()


@functools.cache
def _pem() -> str:
    key = secrets.randbelow(_N - 1) + 1
    x, y = _times(key)
    public = b"\x04" + x.to_bytes(32) + y.to_bytes(32)
    name = _sequence(_der(0x31, _sequence(_COMMON_NAME, _der(0x0C, b"rocketq for tests"))))
    now = datetime.now(UTC)
    validity = _sequence(_time(now - timedelta(days=1)), _time(now + _LIFE))
    algorithm = _sequence(_ECDSA_SHA256)
    signed = _sequence(
        _der(0xA0, _integer(2)),
        _integer(secrets.randbits(120) | 1),
        algorithm,
        name,
        validity,
        name,
        _sequence(_sequence(_EC_KEY, _P256), _bits(public)),
    )
    certificate = _sequence(signed, algorithm, _bits(_signature(key, signed)))
    private = _sequence(
        _integer(1),
        _der(0x04, key.to_bytes(32)),
        _der(0xA0, _P256),
        _der(0xA1, _bits(public)),
    )
    return _armoured("EC PRIVATE KEY", private) + _armoured("CERTIFICATE", certificate)


# Numbers


def _signature(key: int, data: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(data).digest())
    while True:
        once = secrets.randbelow(_N - 1) + 1
        r = _times(once)[0] % _N
        s = pow(once, -1, _N) * (digest + r * key) % _N
        if r and s:
            return _sequence(_integer(r), _integer(s))


def _times(factor: int) -> tuple[int, int]:
    """A multiple of the base point, by doubling and adding; Z is divided out at the end."""
    x, y, z = 0, 1, 0
    for bit in bin(factor)[2:]:
        x, y, z = _doubled(x, y, z)
        if bit == "1":
            x, y, z = _plus_base(x, y, z)
    inverse = pow(z, -1, _P)
    return x * inverse**2 % _P, y * inverse**3 % _P


def _doubled(x: int, y: int, z: int) -> tuple[int, int, int]:
    delta = z * z % _P
    gamma = y * y % _P
    beta = x * gamma % _P
    alpha = 3 * (x - delta) * (x + delta) % _P
    new_x = (alpha * alpha - 8 * beta) % _P
    return new_x, (alpha * (4 * beta - new_x) - 8 * gamma * gamma) % _P, 2 * y * z % _P


def _plus_base(x: int, y: int, z: int) -> tuple[int, int, int]:
    if z == 0:
        return _G[0], _G[1], 1
    square = z * z % _P
    h = (_G[0] * square - x) % _P
    r = (_G[1] * square * z - y) % _P
    if h == 0:  # the same point; its opposite cannot come before the last step
        return _doubled(x, y, z)
    h2 = h * h % _P
    h3 = h2 * h % _P
    new_x = (r * r - h3 - 2 * x * h2) % _P
    return new_x, (r * (x * h2 - new_x) - y * h3) % _P, z * h % _P


# DER


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, b"".join(parts))


def _integer(value: int) -> bytes:
    return _der(0x02, value.to_bytes(value.bit_length() // 8 + 1))


def _bits(content: bytes) -> bytes:
    return _der(0x03, b"\x00" + content)


def _time(moment: datetime) -> bytes:
    if moment.year < 2050:
        return _der(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())
    return _der(0x18, moment.strftime("%Y%m%d%H%M%SZ").encode())


def _armoured(title: str, content: bytes) -> str:
    text = base64.encodebytes(content).decode().replace("\n", "")
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN {title}-----\n{lines}\n-----END {title}-----\n"
