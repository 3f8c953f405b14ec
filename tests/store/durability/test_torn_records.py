"""A record that lost its end with the power is no message, at this start and at every later one."""

import shutil
from pathlib import Path

import pytest

from rocketq.store import MessageStore
from tests.store.support import bodies, message, small_config


async def test_a_torn_record_does_not_take_the_number_of_a_later_message(tmp_path: Path) -> None:
    """What was found among what was not flushed is not taken for whole once it is flushed."""
    root, after_cut = tmp_path / "running", tmp_path / "after"
    async with MessageStore(small_config(root)) as store:
        assert store.append(message(b"before")).is_stored
        torn = store.append(message(b"torn", tags="T"))
        assert store.append(message(b"behind", queue_id=1)).is_stored
        shutil.copytree(root, after_cut)
    log = after_cut / "commitlog" / f"{0:020d}"
    end = torn.physical_offset + torn.size
    # A sector of zeros where the properties end; the body is whole.
    log.write_bytes(log.read_bytes()[: end - 6] + bytes(6) + log.read_bytes()[end:])
    shutil.rmtree(after_cut / "consumequeue")  # nothing of it had been synced yet

    async with MessageStore(small_config(after_cut)) as store:
        assert [damage.position for damage in store.damages] == [torn.physical_offset]
        assert bodies(store) == [b"before"]
        assert bodies(store, queue_id=1) == [b"behind"]
        later = store.append(message(b"later"))
        assert later.queue_offset == 1
    # All of the log is flushed now. Queues are made again from it, as they are when they are lost.
    shutil.rmtree(after_cut / "consumequeue")
    async with MessageStore(small_config(after_cut)) as store:
        assert bodies(store) == [b"before", b"later"]
        assert bodies(store, queue_id=1) == [b"behind"]
    (kept,) = (after_cut / "aside").iterdir()
    assert b"torn" in kept.read_bytes()


@pytest.mark.parametrize("has_checkpoint", [True, False], ids=["noted", "nothing noted"])
async def test_a_record_may_have_lost_a_sector_of_its_properties(
    tmp_path: Path, has_checkpoint: bool
) -> None:
    """The checksum is of the body alone, and the end of the properties is there."""
    root, after_cut = tmp_path / "running", tmp_path / "after"
    long = b"note\x01" + b"n" * 2_000 + b"\x02"
    async with MessageStore(small_config(root)) as store:
        assert store.append(message(b"whole", properties=long)).is_stored
        torn = store.append(message(b"torn", properties=long))
        odd = message(b"odd", properties=b"note\x01" + bytes(20) + b"\x02")
        assert store.append(odd).is_stored
        shutil.copytree(root, after_cut)
    if not has_checkpoint:
        (after_cut / "checkpoint").unlink(missing_ok=True)
    log = after_cut / "commitlog" / f"{0:020d}"
    content = bytearray(log.read_bytes())
    sector = (torn.physical_offset + torn.size) // 512 * 512 - 1024
    content[sector : sector + 512] = bytes(512)
    log.write_bytes(content)
    shutil.rmtree(after_cut / "consumequeue")

    async with MessageStore(small_config(after_cut)) as store:
        assert [damage.position for damage in store.damages] == [torn.physical_offset]
        # Zeros that somebody has sent are what they are.
        assert bodies(store) == [b"whole", b"odd"]
