"""The layout stands twice, for Python and for compiled modules: both say the same."""

import re
from pathlib import Path

import pytest

from rocketq.message.flags import SysFlag
from rocketq.message.record import layout
from rocketq.message.record.writer import new_record

PXD = Path(layout.__file__).with_suffix(".pxd").read_text()


def test_compiled_modules_have_the_same_numbers() -> None:
    declared = {
        name: int(value, 0) for name, value in re.findall(r"^    ([A-Z]\w+) = ([-\w]+)$", PXD, re.M)
    }
    written = {
        name: value
        for name, value in vars(layout).items()
        if name.isupper() and isinstance(value, int)
    }
    assert declared == written
    assert re.findall(r"^cdef inline Py_ssize_t (\w+)\(", PXD, re.M) == [
        name for name, value in vars(layout).items() if callable(value) and name.islower()
    ]


def test_the_magics_are_rocketmqs() -> None:
    magics = (layout.MAGIC_V1, layout.MAGIC_V2, layout.MAGIC_BLANK)
    assert [f"{magic & 0xFFFFFFFF:08X}" for magic in magics] == ["DAA320A7", "DAA320AB", "CBD43194"]


def test_the_bits_are_those_of_the_flags() -> None:
    assert layout.COMPRESSED == SysFlag.COMPRESSED
    assert layout.BORN_V6 == SysFlag.BORN_HOST_V6
    assert layout.STORE_V6 == SysFlag.STORE_HOST_V6
    assert layout.INNER_BATCH_BITS == SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
    assert layout.TRANSACTION_BITS == SysFlag.TRANSACTION_MASK
    assert layout.TRANSACTION_PREPARED == SysFlag.TRANSACTION_PREPARED
    assert layout.TRANSACTION_ROLLBACK == SysFlag.TRANSACTION_ROLLBACK


@pytest.mark.parametrize("born", [bytes(8), bytes(20)])
@pytest.mark.parametrize("store", [b"\xab" * 8, b"\xab" * 20])
def test_every_part_lies_where_the_layout_says(born: bytes, store: bytes) -> None:
    made = new_record(b"t", b"body", born_host=born, store_host=store, store_timestamp=7)
    sys_flag = int.from_bytes(made[layout.SYS_FLAG_AT :][:4], "big")
    assert made[layout.store_time_at(sys_flag) :][:8] == (7).to_bytes(8, "big")
    assert made[layout.store_host_at(sys_flag) :][: layout.store_host_size(sys_flag)] == store
    assert made[layout.body_at(sys_flag) :][:4] == b"body"
