"""A master and its slaves: the same log, and answers that wait for it."""

import asyncio
import contextlib
import errno
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketq.common.config import ConfigError
from rocketq.message.message import Message
from rocketq.message.record.batch import encode_batch
from rocketq.store import MessageStore, PutStatus
from rocketq.store.config import BrokerRole, FlushDiskType
from rocketq.store.files.disk import Disk
from rocketq.store.replication.frames import encode_head
from tests.client.cutting_proxy import CuttingProxy
from tests.store.disks import FaultyDisk, SlowDisk
from tests.store.replication.pairs import (
    BareSlave,
    address_of,
    equal,
    log_bytes,
    master_store,
    slave_store,
)
from tests.store.support import message, read_everything, small_config
from tests.waiting import eventually


def fill(store: MessageStore, count: int, *, size: int = 100, queues: int = 3) -> None:
    for number in range(count):
        result = store.append(
            message(
                f"{number:05d}".encode() + b"x" * (size + number % 50),
                queue_id=number % queues,
                tags=f"t{number % 4}",
                keys=f"key-{number}",
                unique_key=f"unique-{number}",
            )
        )
        assert result.is_stored, result


# The same log


async def test_a_slave_has_the_master_s_log_queues_and_keys(tmp_path: Path) -> None:
    async with (
        master_store(tmp_path / "master") as master,
        slave_store(tmp_path / "slave", address_of(master)) as (slave, _),
    ):
        fill(master, 300)  # several files
        await equal(master, slave)

        assert read_everything(slave) == read_everything(master)
        for number in (0, 150, 299):
            found = [
                bytes(each)
                for each in slave.query_keys("orders", f"key-{number}", 9, 0, 1 << 62).buffers
            ]
            known = [
                bytes(each)
                for each in master.query_keys("orders", f"key-{number}", 9, 0, 1 << 62).buffers
            ]
            assert found
            assert found == known
        refused = slave.append(message(b"mine"))
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE


async def test_a_new_slave_gets_all_there_is(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master") as master:
        fill(master, 300)
        async with slave_store(tmp_path / "slave", address_of(master)) as (slave, _):
            await equal(master, slave)
            assert slave.min_physical_offset == 0


async def test_a_new_slave_gets_the_last_file_when_so_configured(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master", sync_from_last_file=True) as master:
        fill(master, 300)
        async with slave_store(tmp_path / "slave", address_of(master)) as (slave, _):
            await equal(master, slave)
            assert slave.min_physical_offset == master.max_physical_offset // 16_384 * 16_384
            # Numbers are the master's, also where the first ones are not here.
            (first,) = {each.queue_offset for each in slave_first(slave)}
            assert first > 0


def slave_first(store: MessageStore) -> list[Any]:
    offset = store.min_offset("orders", 0)
    found = store.message_by_queue_offset("orders", 0, offset)
    assert found is not None
    assert found.queue_offset == offset
    return [found]


async def test_batches_and_half_messages_are_copied_too(tmp_path: Path) -> None:
    async with (
        master_store(tmp_path / "master") as master,
        slave_store(tmp_path / "slave", address_of(master)) as (slave, _),
    ):
        body = encode_batch([Message("orders", b"one"), Message("orders", b"two" * 900)])
        assert master.append_batch(message(body)).count == 2
        master.append(message(b"half", topic="RMQ_SYS_TRANS_HALF_TOPIC", sys_flag=4))
        fill(master, 30)
        await equal(master, slave)
        assert read_everything(slave) == read_everything(master)


async def test_a_slave_goes_on_where_it_was(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master") as master:
        for _ in range(4):
            async with slave_store(tmp_path / "slave", address_of(master)) as (slave, _follower):
                fill(master, 70)
                await equal(master, slave)
            fill(master, 70)
        async with slave_store(tmp_path / "slave", address_of(master)) as (slave, _follower):
            assert slave.recovery is not None
            assert slave.recovery.is_clean
            await equal(master, slave)
            assert read_everything(slave) == read_everything(master)


async def test_a_slave_closed_in_the_middle_of_a_record_is_closed_in_good_order(
    tmp_path: Path,
) -> None:
    async with master_store(tmp_path / "master") as master:
        fill(master, 5)
        data = log_bytes(master, 0, master.max_physical_offset)
    config = small_config(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    async with MessageStore(config) as slave:
        slave.received.append(0, [memoryview(data)[:-3]])
        await eventually(lambda: slave.max_offset("orders", 0) == 2)
        assert slave.max_physical_offset == len(data) - 3
    async with MessageStore(config) as slave:
        assert slave.recovery is not None
        assert slave.recovery.is_clean
        assert not slave.recovery.damages
        end = slave.max_physical_offset
        assert data[:end] == log_bytes(slave, 0, end)
        assert end < len(data) - 3
        slave.received.append(end, [memoryview(data)[end:]])
        await eventually(lambda: slave.dispatched_position == len(data))


async def test_a_slave_that_was_killed_at_any_byte_keeps_the_beginning(tmp_path: Path) -> None:
    """What a kill leaves: some bytes more than were dispatched or noted, zeros behind them."""
    async with master_store(tmp_path / "master") as master:
        fill(master, 40)
        data = log_bytes(master, 0, master.max_physical_offset)
        whole = [0] + [
            e.position + e.size for q in range(3) for e in master.entries("orders", q, 0, 99)
        ]
        chance = random.Random(5)
        for number in range(25):
            at = chance.randrange(1, len(data))
            root = tmp_path / f"slave-{number}"
            config = small_config(root, broker_role=BrokerRole.SLAVE)
            killed = MessageStore(config)
            await killed.open()
            killed.received.append(0, [memoryview(data)[:at]])
            await asyncio.sleep(0)
            if number % 2:
                await killed.flush()
                killed._write_checkpoint()
            # The process is gone: nothing is closed, only the lock is free.
            await killed._services.aclose()
            killed._close_files()
            killed._lock.release()

            async with slave_store(root, address_of(master)) as (slave, _):
                assert slave.recovery is not None
                assert not slave.recovery.is_clean
                assert not slave.recovery.damages
                assert slave.recovery.end == max(end for end in whole if end <= at)
                await equal(master, slave)
                assert read_everything(slave) == read_everything(master)


async def test_records_of_a_java_master_survive_a_kill(tmp_path: Path) -> None:
    """Java need not end properties with a separator: that alone is no sign of a torn record."""
    async with master_store(tmp_path / "master") as master:
        fill(master, 4)
        data = bytearray(log_bytes(master, 0, master.max_physical_offset))
    for entry_end in [i for i in range(len(data)) if data[i : i + 1] == b"\x02"]:
        if data[entry_end + 1 : entry_end + 5] in (b"", data[:4]) or entry_end + 1 == len(data):
            data[entry_end] = ord("x")
    config = small_config(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    killed = MessageStore(config)
    await killed.open()
    killed.received.append(0, [memoryview(data)])
    await eventually(lambda: killed.dispatched_position == len(data))
    await killed._services.aclose()
    killed._close_files()
    killed._lock.release()
    async with MessageStore(config) as slave:
        assert slave.max_physical_offset == len(data)


async def test_a_connection_cut_anywhere_costs_nothing(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master", ha_transfer_batch_size=700) as master:
        proxy = CuttingProxy(address_of(master), seed=3)
        proxy.budget = 20_000
        await proxy.start()
        try:
            async with slave_store(tmp_path / "slave", proxy.address) as (slave, _):
                for _ in range(20):
                    fill(master, 40)
                    await asyncio.sleep(0.01)
                await equal(master, slave)
                assert proxy.cuts > 3
                assert read_everything(slave) == read_everything(master)
        finally:
            await proxy.stop()


async def test_a_slave_copies_again_what_the_power_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing in the middle of its log is not what it says that it has."""
    async with master_store(tmp_path / "master") as master:
        async with slave_store(tmp_path / "slave", address_of(master)) as (slave, _):
            fill(master, 3)
            await equal(master, slave)
            await slave.flush()
            slave._write_checkpoint()
            flushed = slave.max_physical_offset
            fill(master, 5)
            await equal(master, slave)
            shutil.copytree(tmp_path / "slave", tmp_path / "again")
        path = tmp_path / "again" / "commitlog" / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[flushed : flushed + 64] = bytes(64)
        path.write_bytes(data)
        monkeypatch.setattr(Disk, "boot_id", lambda disk: b"another boot    ")
        config = small_config(tmp_path / "again", broker_role=BrokerRole.SLAVE)
        async with MessageStore(config) as again:
            assert again.max_physical_offset == flushed
            # No queue counts what is gone: whoever is master next goes on from here.
            assert {again.max_offset("orders", queue_id) for queue_id in range(3)} == {1}
        async with slave_store(tmp_path / "again", address_of(master)) as (again, _):
            await equal(master, again)
            assert read_everything(again) == read_everything(master)


async def test_a_record_is_never_made_of_two(tmp_path: Path) -> None:
    """The master loses the power in the middle of a record, and writes another one there."""
    async with master_store(tmp_path / "master") as master:
        fill(master, 5)
    shutil.copytree(tmp_path / "master", tmp_path / "again")
    async with (
        master_store(tmp_path / "master") as master,
        master_store(tmp_path / "again") as again,
    ):
        begin = master.max_physical_offset
        fill(master, 1, size=1000)
        half = (begin + master.max_physical_offset) // 2
        again.append(message(b"o" * 1000, queue_id=2))
        again.append(message(b"other" * 100, queue_id=1))
        assert half < again.max_physical_offset
        data = log_bytes(master, 0, half)

        async def send_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(encode_head(0, master.max_physical_offset) + data)
            while await reader.read(100):  # until the slave leaves
                pass
            writer.close()

        server = await asyncio.start_server(send_half, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, slave_store(tmp_path / "slave", address) as (slave, follower):
            await eventually(lambda: slave.max_physical_offset == half, "half a record")
            follower.follow(address_of(again))
            await equal(again, slave)
            assert read_everything(slave) == read_everything(again)


async def test_a_flush_that_ends_after_a_cut_says_nothing_of_what_comes_there(
    tmp_path: Path,
) -> None:
    async with master_store(tmp_path / "master") as master:
        fill(master, 5)
        data = memoryview(log_bytes(master, 0, master.max_physical_offset))
    disk = SlowDisk()
    config = small_config(
        tmp_path / "slave",
        broker_role=BrokerRole.SLAVE,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
    )
    async with MessageStore(config, disk=disk) as slave:
        slave.received.append(0, [data])
        await slave.flush()
        disk.gate.clear()
        slave.received.append(len(data), [data[:50]])  # the beginning of one more
        flushing = asyncio.create_task(slave.flush())
        await eventually(disk.is_waiting.is_set, "the disk to be waited for")
        slave.take_role(BrokerRole.ASYNC_MASTER)
        assert slave.max_physical_offset == len(data)
        disk.gate.set()
        await flushing
        assert slave.flushed_position == len(data)


async def test_a_full_disk_of_the_slave_is_waited_for(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with (
        master_store(tmp_path / "master") as master,
        slave_store(tmp_path / "slave", address_of(master), disk=disk) as (slave, follower),
    ):
        fill(master, 10)
        await equal(master, slave)
        disk.fail("write_all", errno.ENOSPC)
        fill(master, 10)
        await eventually(lambda: not follower.is_connected, "the slave to give up for now")
        disk.mend()
        await equal(master, slave)


async def test_files_of_other_sizes_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        master_store(tmp_path / "master") as master,
        slave_store(tmp_path / "slave", address_of(master), mapped_file_size_commit_log=4096) as (
            slave,
            _,
        ),
    ):
        fill(master, 100)
        await eventually(lambda: "mappedFileSizeCommitLog" in caplog.text)
        assert slave.max_physical_offset <= 4096


# Slaves that do not fit


async def test_a_slave_that_has_more_than_its_master_is_sent_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with master_store(tmp_path / "master") as master:
        fill(master, 10)
        end = master.max_physical_offset
        slave = await BareSlave.connect(master)
        slave.report(end + 1)
        assert await slave.reader.read() == b""
        assert f"goes on to {end + 1}, this one ends at {end}" in caplog.text
        assert "Delete its store directory" in caplog.text
        await slave.close()


async def test_a_slave_whose_rest_is_gone_is_sent_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with master_store(tmp_path / "master") as master:
        fill(master, 300)
        master._log.take_first().remove()
        slave = await BareSlave.connect(master)
        slave.report(100)
        assert await slave.reader.read() == b""
        assert f"ends at 100, this one begins at {16_384}" in caplog.text
        await slave.close()


@pytest.mark.parametrize("positions", [[-5], [0, 1 << 40], [200, 100]])
async def test_reports_that_cannot_be_end_the_connection(
    tmp_path: Path, positions: list[int]
) -> None:
    async with master_store(tmp_path / "master") as master:
        fill(master, 10)
        slave = await BareSlave.connect(master)
        for position in positions:
            slave.report(position)
            await asyncio.sleep(0.01)
        while await slave.reader.read(1 << 16):
            pass
        await eventually(lambda: not master.replicas.states())
        await slave.close()


async def test_a_slave_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    async with (
        master_store(
            tmp_path / "master",
            mapped_file_size_commit_log=8 << 20,
            **sync_master(),
        ) as master,
        slave_store(
            tmp_path / "slave", address_of(master), mapped_file_size_commit_log=8 << 20
        ) as (slave, _),
    ):
        asleep = await BareSlave.connect(master)
        asleep.report(0)
        await eventually(lambda: len(master.replicas.states()) == 2)
        for number in range(600):
            result = master.append(message(bytes(60_000), queue_id=number % 3))
            waiting = master.durable(result.end)
            if waiting is not None and number % 20 == 0:
                assert await waiting is PutStatus.PUT_OK
        await equal(master, slave)
        slow = next(each for each in master.replicas.states() if each.acknowledged == 0)
        assert slow.position < master.max_physical_offset
        asleep.writer.transport.abort()


async def test_strangers_do_not_take_the_places_of_slaves(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master") as master:
        strangers = [await BareSlave.connect(master) for _ in range(20)]
        for stranger in strangers:
            stranger.report(0)
        await eventually(lambda: len(master.replicas.states()) == 16, "all that may to be there")
        other = await BareSlave.connect(master, local="127.0.0.2")
        other.report(0)
        await eventually(lambda: len(master.replicas.states()) == 17, "one from elsewhere")
        for slave in (*strangers, other):
            slave.writer.transport.abort()


async def test_slaves_come_from_where_they_may(tmp_path: Path) -> None:
    allowed = "127.0.0.2, 10.0.0.0/8"
    async with master_store(tmp_path / "master", ha_allowed_addresses=allowed) as master:
        master.append(message(b"secret"))
        stranger = await BareSlave.connect(master)
        with contextlib.suppress(ConnectionError):
            stranger.report(0)
            assert await stranger.reader.read(100) == b""
        friend = await BareSlave.connect(master, local="127.0.0.2")
        friend.report(0)
        assert b"secret" in await friend.reader.read(4096)
        # A change counts for those who are there, too.
        config = replace(master.config, ha_allowed_addresses="10.0.0.0/8")
        master.replicas.configure(config)
        with contextlib.suppress(ConnectionError):
            while await friend.reader.read(4096):
                pass
        assert not master.replicas.states()
        for slave in (stranger, friend):
            slave.writer.transport.abort()


@pytest.mark.parametrize("wrong", ["localhost", "10.0.0.0/40", "10.0.0.1;10.0.0.2"])
def test_addresses_that_are_none_stop_the_start(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="haAllowedAddresses"):
        small_config(tmp_path, ha_allowed_addresses=wrong)


async def test_a_silent_slave_is_sent_away_and_a_quiet_master_shows_that_it_lives(
    tmp_path: Path,
) -> None:
    async with master_store(
        tmp_path / "master", ha_housekeeping_interval=1_500, ha_send_heartbeat_interval=200
    ) as master:
        fill(master, 1)
        slave = await BareSlave.connect(master)
        slave.report(master.max_physical_offset)
        assert await slave.piece() == (master.max_physical_offset, b"")
        while await slave.reader.read(100):
            pass
        assert not master.replicas.states()
        await slave.close()


async def test_flow_control_limits_what_one_second_brings(tmp_path: Path) -> None:
    async with master_store(
        tmp_path / "master",
        mapped_file_size_commit_log=1 << 20,
        ha_flow_control_enable=True,
        max_ha_transfer_byte_in_second=100_000,
    ) as master:
        fill(master, 40, size=10_000)
        slave = await BareSlave.connect(master)
        began = asyncio.get_running_loop().time()
        slave.report(0)
        await slave.until(350_000)
        assert asyncio.get_running_loop().time() - began > 2.0
        await slave.close()


# Senders that wait


def sync_master(**settings: Any) -> dict[str, Any]:
    return {
        "broker_role": BrokerRole.SYNC_MASTER,
        "in_sync_replicas": 2,
        "slave_timeout": 30_000,  # longer than anything takes on a busy machine
        **settings,
    }


async def test_a_sender_is_answered_by_the_report_itself(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master", **sync_master()) as master:
        slave = await BareSlave.connect(master)
        slave.report(0)
        await eventually(lambda: master.replicas.in_sync == 2)
        first = master.append(message(b"first"))
        waiting = master.durable(first.end)
        assert waiting is not None
        await slave.until(first.end)
        slave.report(first.end - 1)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        slave.report(first.end)
        assert await waiting is PutStatus.PUT_OK
        assert master.durable(first.end) is None
        await slave.close()


async def test_three_copies_need_two_slaves(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master", **sync_master(in_sync_replicas=3)) as master:
        slaves = [await BareSlave.connect(master) for _ in range(2)]
        for slave in slaves:
            slave.report(0)
        await eventually(lambda: master.replicas.in_sync == 3)
        result = master.append(message(b"first"))
        waiting = master.durable(result.end)
        assert waiting is not None
        for slave in slaves:
            assert not waiting.done()
            await slave.until(result.end)
            slave.report(result.end)
            await asyncio.sleep(0.02)
        assert await waiting is PutStatus.PUT_OK
        for slave in slaves:
            await slave.close()


async def test_those_who_wait_in_one_turn_wait_together(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master", **sync_master()) as master:
        futures = {
            id(master.durable(master.append(message(b"%d" % number)).end)) for number in range(50)
        }
        assert len(futures) == 1


async def test_without_a_report_the_answer_is_flush_slave_timeout(tmp_path: Path) -> None:
    async with master_store(tmp_path / "master", **sync_master(slave_timeout=50)) as master:
        waiting = master.durable(master.append(message(b"first")).end)
        assert waiting is not None
        assert await waiting is PutStatus.FLUSH_SLAVE_TIMEOUT


async def test_where_rocketmq_4_is_wanted_a_missing_slave_is_told_at_once(tmp_path: Path) -> None:
    settings = sync_master(ha_slave_fallbehind_max=500)
    async with master_store(tmp_path / "master", **settings) as master:
        waiting = master.durable(master.append(message(b"first")).end)
        assert waiting is not None
        assert await waiting is PutStatus.SLAVE_NOT_AVAILABLE
        slave = await BareSlave.connect(master)
        slave.report(0)
        await eventually(lambda: master.replicas.in_sync == 2)
        waiting = master.durable(master.append(message(b"second")).end)
        assert waiting is not None
        assert not waiting.done()
        waiting = master.durable(master.append(message(bytes(500))).end)
        assert waiting is not None
        assert await waiting is PutStatus.SLAVE_NOT_AVAILABLE  # it is too far behind
        await slave.close()


async def test_with_too_few_copies_nothing_is_taken(tmp_path: Path) -> None:
    settings = sync_master(min_in_sync_replicas=2)
    async with master_store(tmp_path / "master", **settings) as master:
        refused = master.append(message(b"first"))
        assert refused.status is PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
        assert master.max_physical_offset == 0
        async with slave_store(tmp_path / "slave", address_of(master)) as (slave, _):
            await eventually(lambda: master.replicas.are_enough)
            result = master.append(message(b"second"))
            assert result.status is PutStatus.PUT_OK
            await equal(master, slave)
        await eventually(lambda: not master.replicas.are_enough)
        refused = master.append(message(b"third"))
        assert refused.status is PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH


async def test_auto_in_sync_replicas_waits_for_those_that_are_there(tmp_path: Path) -> None:
    settings = sync_master(in_sync_replicas=3, enable_auto_in_sync_replicas=True)
    async with master_store(tmp_path / "master", **settings) as master:
        assert master.durable(master.append(message(b"first")).end) is None
        slave = await BareSlave.connect(master)
        slave.report(0)
        await eventually(lambda: master.replicas.needed == 2)
        result = master.append(message(b"second"))
        waiting = master.durable(result.end)
        assert waiting is not None
        await slave.until(result.end)
        slave.report(result.end)
        assert await waiting is PutStatus.PUT_OK
        await slave.close()


async def test_an_async_master_and_one_copy_wait_for_nobody(tmp_path: Path) -> None:
    for settings in ({"in_sync_replicas": 2}, sync_master(in_sync_replicas=1)):
        async with master_store(tmp_path / "master", **settings) as master:
            assert not master.is_waited_for
            assert master.durable(master.append(message(b"first")).end) is None


async def test_disk_and_slave_are_waited_for_at_the_same_time(tmp_path: Path) -> None:
    disk = SlowDisk()
    disk.gate.clear()
    settings = sync_master(flush_disk_type=FlushDiskType.SYNC_FLUSH, disk=disk)
    async with master_store(tmp_path / "master", **settings) as master:
        slave = await BareSlave.connect(master)
        slave.report(0)
        await eventually(lambda: master.replicas.in_sync == 2)
        result = master.append(message(b"first"))
        waiting = master.durable(result.end)
        assert waiting is not None
        # The slave has it while the disk has not answered.
        await slave.until(result.end)
        slave.report(result.end)
        await asyncio.sleep(0.02)
        assert not waiting.done()
        disk.gate.set()
        assert await waiting is PutStatus.PUT_OK
        await slave.close()


async def test_a_sync_flush_slave_reports_what_is_on_its_disk(tmp_path: Path) -> None:
    disk = SlowDisk()
    disk.gate.clear()
    async with (
        master_store(tmp_path / "master", **sync_master()) as master,
        slave_store(
            tmp_path / "slave",
            address_of(master),
            disk=disk,
            flush_disk_type=FlushDiskType.SYNC_FLUSH,
        ) as (slave, follower),
    ):
        await eventually(lambda: follower.is_connected and master.replicas.in_sync == 2)
        waiting = master.durable(master.append(message(b"first")).end)
        assert waiting is not None
        await eventually(lambda: slave.max_physical_offset == master.max_physical_offset)
        await asyncio.sleep(0.02)
        assert not waiting.done()
        disk.gate.set()
        assert await waiting is PutStatus.PUT_OK
        await equal(master, slave)
