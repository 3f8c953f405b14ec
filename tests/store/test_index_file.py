"""One file of the index: what is found in it, whatever its numbers say."""

import struct

import pytest

from rocketq.store.index.index_file import ENTRY_SIZE, HEADER_SIZE, IndexFile

SLOTS, ENTRIES = 4, 8
SIZE = HEADER_SIZE + SLOTS * 4 + ENTRIES * ENTRY_SIZE
ENTRY = struct.Struct(">iqii")


def opened(memory: bytearray) -> IndexFile:
    file = IndexFile(memory, SLOTS, ENTRIES)
    file.limit = ENTRIES
    return file


def found_in(file: IndexFile, key_hash: int) -> list[int]:
    found: list[int] = []
    file.find(key_hash, 0, 2**62, 100, found, 100)
    return found


def test_entries_lie_in_the_file_as_they_are_described() -> None:
    memory = bytearray(SIZE)
    file = opened(memory)
    assert file.put(5, 1000, 50_000)
    assert file.put(9, 2000, 53_999)
    assert struct.unpack_from(">qqqqii", memory) == (50_000, 53_999, 1000, 2000, 1, 3)
    assert struct.unpack_from(">4i", memory, HEADER_SIZE) == (0, 2, 0, 0)
    first = HEADER_SIZE + SLOTS * 4 + ENTRY_SIZE
    assert ENTRY.unpack_from(memory, first) == file.entry(1) == (5, 1000, 0, 0)
    assert ENTRY.unpack_from(memory, first + ENTRY_SIZE) == file.entry(2) == (9, 2000, 3, 1)
    assert found_in(file, 5) == [1000]
    assert found_in(opened(memory), 9) == [2000]
    assert file.has(9, 2000)
    assert not file.has(9, 1000)


def test_a_full_file_takes_no_more() -> None:
    file = opened(bytearray(SIZE))
    assert [file.put(5, place, 1) for place in range(ENTRIES)] == [True] * (ENTRIES - 1) + [False]
    assert file.is_full
    assert found_in(file, 5) == list(reversed(range(ENTRIES - 1)))


@pytest.mark.parametrize("number", [ENTRIES, ENTRIES + 1, 1_000_000_000, -1])
def test_a_slot_that_leads_out_of_the_file_leads_nowhere(number: int) -> None:
    memory = bytearray(SIZE)
    opened(memory).put(5, 1000, 50_000)
    struct.pack_into(">i", memory, 36, 2_000_000_000)  # so many entries, it says
    struct.pack_into(">i", memory, HEADER_SIZE + 4, number)
    file = opened(memory)
    assert found_in(file, 5) == []
    assert not file.has(5, 1000)


@pytest.mark.parametrize("number", [-1, ENTRIES])
def test_there_are_no_entries_beyond_the_last(number: int) -> None:
    with pytest.raises(IndexError):
        opened(bytearray(SIZE)).entry(number)


@pytest.mark.parametrize("slot", [-1, SLOTS])
def test_there_are_no_slots_beyond_the_last(slot: int) -> None:
    with pytest.raises(IndexError):
        opened(bytearray(SIZE)).slot(slot)


def test_memory_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="entries"):
        IndexFile(bytearray(SIZE - 1), SLOTS, ENTRIES)
    with pytest.raises(ValueError, match="0 slots"):
        IndexFile(bytearray(SIZE), 0, ENTRIES)


def test_a_closed_file_holds_no_memory() -> None:
    memory = bytearray(SIZE)
    file = opened(memory)
    with pytest.raises(BufferError):
        memory.append(0)
    file.close()
    memory.append(0)
    assert not file.put(5, 1, 1)
