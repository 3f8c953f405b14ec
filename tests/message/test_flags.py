"""Bits and their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message import flags
from rocketq.message.flags import CompressionType, Permission, SysFlag


@pytest.mark.parametrize(
    ("permission", "text"),
    [(0, "---"), (6, "RW-"), (7, "RWX"), (4, "R--"), (2, "-W-"), (1, "--X")],
)
def test_permissions_print_as_letters(permission: int, text: str) -> None:
    assert Permission.text(permission) == text


@given(st.integers(0, 0x7FF), st.sampled_from([0, 4, 8, 12]))
def test_the_transaction_type_is_replaced_alone(sys_flag: int, kind: int) -> None:
    changed = flags.with_transaction_type(sys_flag, kind)
    assert flags.transaction_type(changed) == kind
    assert changed & ~SysFlag.TRANSACTION_MASK == sys_flag & ~SysFlag.TRANSACTION_MASK


@given(st.integers(0, 0x7FF), st.sampled_from(CompressionType))
def test_compression_is_noted_and_all_else_stays(sys_flag: int, kind: CompressionType) -> None:
    compressed = flags.with_compression(sys_flag, kind)
    assert flags.is_compressed(compressed)
    assert (compressed & SysFlag.COMPRESSION_MASK) >> 8 == kind
    others = ~(SysFlag.COMPRESSION_MASK | SysFlag.COMPRESSED)
    assert compressed & others == sys_flag & others


def test_java_s_default_flag_of_a_compressed_message() -> None:
    assert flags.with_compression(0, CompressionType.ZLIB) == 0x301
