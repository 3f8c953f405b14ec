"""The byte primitives: what they read is what they wrote, and C and Python agree on names."""

import inspect
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.common import memory
from rocketq.common.buffers import unfilled

PXD = Path(inspect.getfile(memory)).with_suffix(".pxd")
_FUNCTION = re.compile(r"^cdef inline [\w ]+?\**\s*\**(\w+)\(([^)]*)\)", re.MULTILINE)


def declared() -> dict[str, list[str]]:
    """Name and arguments of every function of memory.pxd."""
    return {
        name: [argument.split()[-1].lstrip("*") for argument in arguments.split(",")]
        for name, arguments in _FUNCTION.findall(PXD.read_text())
    }


def test_c_and_python_have_the_same_functions_with_the_same_arguments() -> None:
    written = {
        name: list(inspect.signature(function).parameters)
        for name, function in inspect.getmembers(memory, inspect.isfunction)
    }
    assert declared() == written
    assert len(written) > 20


@given(st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1))
def test_numbers_come_back_as_they_were_put(short: int, number: int) -> None:
    out = bytearray(b"\xff" * 20)
    memory.put16(out, 1, short)
    memory.put32(out, 3, number)
    memory.put64(out, 7, number << 31)
    assert memory.get16(out, 1) == short
    assert memory.get32(out, 3) == number
    assert memory.get32u(memoryview(out), 3) == number & 0xFFFFFFFF
    assert memory.signed32(number & 0xFFFFFFFF) == number
    assert memory.get64(bytes(out), 7) == number << 31
    assert out[0] == 0xFF
    assert out[15:] == b"\xff" * 5


@given(st.integers(-(2**63), 2**63 - 1))
def test_text_says_where_it_ends(number: int) -> None:
    out = bytearray(64)
    end = memory.put(out, 2, b"ab")
    end = memory.put_number(out, end, number)
    end = memory.put_hex_number(out, end, number, 8)
    end = memory.put_hex(out, end, b"..\xab\x0f", 2, 2)
    assert out[2:end] == b"ab%d%08XAB0F" % (number, number & 0xFFFFFFFF)
    assert not any(out[end:])


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_bytes_are_found_and_compared_in_any_form(
    form: type[bytes] | type[bytearray] | type[memoryview],
) -> None:
    data = form(b"name\x01value\x02")
    assert memory.find(data, 0, 11, 1) == 4
    assert memory.find(data, 5, 11, 1) == 11  # not there: the end
    assert memory.find(data, 0, 4, 1) == 4
    assert memory.same(data, 5, b"value!", 5)
    assert not memory.same(data, 5, b"value!", 6)
    assert memory.bytes_at(data, 5, 5) == b"value"
    assert memory.text_at(data, 0, 4) == "name"
    held = memory.hold(data)
    assert (held.len, memory.get32(memory.start(held), 0)) == (11, 0x6E616D65)
    memory.release(held)


def test_rows_of_numbers_are_in_the_machines_own_order() -> None:
    out = memory.unfilled(16)
    memory.int32s(out)[1] = -1
    memory.int64s(out)[1] = 7
    assert out[4:8] == b"\xff" * 4
    assert sum(out[8:]) == 7


def test_only_what_can_be_written_is_held_for_writing() -> None:
    with pytest.raises(BufferError):
        memory.hold_writable(memoryview(b"fixed"))


def test_an_unfilled_buffer_has_its_size() -> None:
    assert len(unfilled(1000)) == 1000
