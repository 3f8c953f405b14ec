"""Half messages, decisions, questions, and what a restart finds."""

import asyncio
import errno
import tarfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker.access.references import References
from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.config import BrokerConfig
from rocketq.broker.processor.end_transaction import EndTransactionProcessor
from rocketq.broker.transaction.op_log import decode_marks, encode_marks
from rocketq.common.clock import Clock, ManualClock
from rocketq.common.loop.service import running
from rocketq.message.flags import SysFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import (
    SCHEDULE_TOPIC,
    TRANSACTION_CHECK_MAX_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)
from rocketq.message.record.reader import decode_record
from rocketq.remoting import (
    Command,
    Connection,
    RemotingClient,
    RemotingServer,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.headers import CheckTransactionState, EndTransaction
from rocketq.store import AppendResult, FlushDiskType, MessageInner, MessageStore
from tests.broker.services import Services, opened
from tests.store.disks import FaultyDisk
from tests.waiting import eventually

GROUP = "PG_orders"
GOLDEN = Path(__file__).parents[2] / "golden" / "stores"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def config(**settings: int) -> BrokerConfig:
    return BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", **settings)  # type: ignore[arg-type]


@asynccontextmanager
async def transacting(folder: Path, clock: Clock, **settings: int) -> AsyncIterator[Services]:
    async with (
        opened(folder, clock, config(**settings)) as services,
        running("transactions", services.transactions.run),
    ):
        await asyncio.sleep(0)
        yield services


def prepare(services: Services, name: str = "tx", **properties: str) -> MessageExt:
    """Store a half message as the send processor does."""
    message = services.message(
        "orders", name.encode(), 1, TRAN_MSG="true", PGROUP=GROUP, UNIQ_KEY=name, **properties
    )
    message.sys_flag = SysFlag.TRANSACTION_PREPARED
    services.transactions.prepare(message)
    result = services.writer.put(message)
    assert services.transactions.open_count > 0  # its time begins to run now
    half = services.store.message_at(result.physical_offset)
    assert half is not None
    return half


def processor(services: Services) -> EndTransactionProcessor:
    return EndTransactionProcessor(
        services.live,
        services.transactions,
        services.writer,
        services.store,
        services.stats,
        services.clock,
        References(),
    )


def end(services: Services, half: MessageExt, decision: int, **changes: object) -> object:
    """What the processor answers to a decision about a half message."""
    fields: dict[str, object] = {
        "producer_group": GROUP,
        "tran_state_table_offset": half.queue_offset,
        "commit_log_offset": half.physical_offset,
        "commit_or_rollback": decision,
        "msg_id": half.msg_id,
    }
    request = Command.request(EndTransaction(**(fields | changes)))  # type: ignore[arg-type]
    route = processor(services).handlers()[EndTransaction.CODE]
    assert callable(route)
    return route(request, NOBODY)


NOBODY: Any = None
COMMIT, ROLLBACK, UNKNOWN = SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK, 0


class Producer:
    """A client of the producer group that keeps the questions it is asked."""

    def __init__(self) -> None:
        self.questions: list[tuple[CheckTransactionState, MessageExt]] = []

    def handlers(self) -> dict[int, object]:
        return {CheckTransactionState.CODE: self._asked}

    def _asked(self, request: Command, connection: Connection) -> None:
        message = decode_record(bytes(request.body))
        self.questions.append((request.header(CheckTransactionState), message))

    async def was_asked(self, times: int) -> None:
        await eventually(lambda: len(self.questions) >= times)


@asynccontextmanager
async def producer_online(services: Services) -> AsyncIterator[Producer]:
    """A real connection from a producer, known to the broker's table."""
    joined: list[Connection] = []
    server = RemotingServer({}, on_connect=joined.append)
    await server.start("127.0.0.1", 0)
    producer = Producer()
    client = RemotingClient(handlers=producer.handlers())  # type: ignore[arg-type]
    try:
        await client.call_oneway(f"127.0.0.1:{server.port}", Command.request(1, oneway=True))
        await eventually(lambda: joined)
        channel = ClientChannel(joined[0], "client", 0, 479, services.clock.now_ms())
        services.producers.register(GROUP, channel)
        yield producer
    finally:
        await client.close()
        await server.stop(0)


# The life of a transaction


async def test_a_half_message_is_seen_by_nobody(tmp_path: Path, clock: ManualClock) -> None:
    async with transacting(tmp_path, clock) as services:
        half = prepare(services, "tx-1", TAGS="paid")

        assert services.read("orders", 1) == []
        assert half.topic == TRANSACTION_HALF_TOPIC
        assert half.sys_flag == 0
        assert half.properties == {
            "TRAN_MSG": "true",
            "PGROUP": GROUP,
            "UNIQ_KEY": "tx-1",
            "TAGS": "paid",
            "__transactionId__": "tx-1",
            "REAL_TOPIC": "orders",
            "REAL_QID": "1",
        }
        assert services.transactions.open_count == 1


async def test_a_commit_stores_the_message_where_it_belongs(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        half = prepare(services, "tx-1", TAGS="paid")

        end(services, half, COMMIT)

        (message,) = services.read("orders", 1)
        assert message.body == b"tx-1"
        assert message.sys_flag & SysFlag.TRANSACTION_MASK == COMMIT
        assert message.prepared_transaction_offset == half.physical_offset
        assert message.properties == {
            "TRAN_MSG": "true",
            "PGROUP": GROUP,
            "UNIQ_KEY": "tx-1",
            "TAGS": "paid",
            "__transactionId__": "tx-1",
        }
        assert services.transactions.open_count == 0


async def test_a_rollback_stores_nothing(tmp_path: Path, clock: ManualClock) -> None:
    async with transacting(tmp_path, clock) as services:
        end(services, prepare(services), ROLLBACK)

        assert services.read("orders", 1) == []
        assert services.transactions.open_count == 0


async def test_not_knowing_decides_nothing_and_is_not_answered(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:

        class Peer:
            peer_address = "peer"

        request = Command.request(
            EndTransaction(
                producer_group=GROUP,
                tran_state_table_offset=0,
                commit_log_offset=0,
                commit_or_rollback=UNKNOWN,
                msg_id="",
            )
        )
        prepare(services)
        assert processor(services)._end(request, Peer()) is None  # type: ignore[arg-type]
        assert services.transactions.open_count == 1


async def test_a_commit_with_a_delay_level_waits_its_time(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        half = prepare(services, DELAY="2")
        assert half.topic == TRANSACTION_HALF_TOPIC

        end(services, half, COMMIT)

        assert services.read("orders", 1) == []
        assert len(services.read(SCHEDULE_TOPIC, 1)) == 1


async def test_a_decision_made_twice_is_carried_out_once(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        half = prepare(services)

        end(services, half, COMMIT)
        end(services, half, COMMIT)

        assert len(services.read("orders", 1)) == 1


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"commit_log_offset": 10_000_000}, "Find prepared transaction message failed"),
        ({"producer_group": "PG_other"}, "The producer group wrong"),
        ({"tran_state_table_offset": 7}, "The transaction state table offset wrong"),
    ],
)
async def test_decisions_about_others_messages_are_refused(
    tmp_path: Path, clock: ManualClock, changes: dict[str, object], remark: str
) -> None:
    async with transacting(tmp_path, clock) as services:
        half = prepare(services)

        with pytest.raises(RequestRejected) as refused:
            end(services, half, COMMIT, **changes)

        assert (refused.value.code, refused.value.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        assert services.transactions.open_count == 1


async def test_a_message_that_is_no_half_message_cannot_be_committed(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        place = services.put("orders", PGROUP=GROUP, REAL_TOPIC="secrets", REAL_QID="0")
        ordinary = services.store.message_at(place)
        assert ordinary is not None

        with pytest.raises(RequestRejected):
            end(services, ordinary, COMMIT)
        assert services.read("secrets") == []


async def test_past_its_immunity_only_the_answer_to_a_question_counts(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        half = prepare(services, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
        clock.advance(10_001)

        with pytest.raises(RequestRejected) as refused:
            end(services, half, COMMIT)
        assert refused.value.code == ResponseCode.ILLEGAL_OPERATION

        end(services, half, COMMIT, from_transaction_check=True)
        assert len(services.read("orders", 1)) == 1


async def test_a_decision_may_come_before_the_flush(tmp_path: Path, clock: ManualClock) -> None:
    """With SYNC_FLUSH a half message shows in its queue only when it is on the disk."""
    async with (
        opened(
            tmp_path, clock, config(), {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
        ) as services,
        running("transactions", services.transactions.run),
    ):
        await asyncio.sleep(0)
        halves = []
        for name in ("a", "b"):
            message = services.message("orders", name.encode(), PGROUP=GROUP, UNIQ_KEY=name)
            services.transactions.prepare(message)
            result = services.writer.put(message)
            half = services.store.message_at(result.physical_offset)
            assert half is not None
            halves.append(half)
        assert services.store.max_offset(TRANSACTION_HALF_TOPIC, 0) == 0

        answer = end(services, halves[1], COMMIT)
        assert services.transactions.open_count == 1
        assert isinstance(answer, Awaitable)
        assert (await answer).code == ResponseCode.SUCCESS
        assert services.store.max_offset(TRANSACTION_HALF_TOPIC, 0) == 2
        assert services.transactions.open_count == 1

        clock.advance(6_000)
        services.transactions.check_due()
        assert services.transactions.open_count == 1
        await eventually(lambda: len(services.read(TRANSACTION_HALF_TOPIC)) == 3)
        assert services.bodies(TRANSACTION_HALF_TOPIC)[2] == b"a"


async def test_a_commit_whose_flush_fails_is_not_called_a_success(
    tmp_path: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk()
    async with (
        opened(
            tmp_path, clock, config(), {"flush_disk_type": FlushDiskType.SYNC_FLUSH}, disk
        ) as services,
        running("transactions", services.transactions.run),
    ):
        await asyncio.sleep(0)
        message = services.message("orders", PGROUP=GROUP, UNIQ_KEY="tx")
        services.transactions.prepare(message)
        half = services.store.message_at(services.writer.put(message).physical_offset)
        assert half is not None
        await services.store.flush()
        disk.fail("sync", errno.EIO)
        answers = [end(services, half, COMMIT), end(services, half, COMMIT)]
        for answer in answers:
            assert isinstance(answer, Awaitable)
            reply = await answer
            assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert reply.remark == "SERVICE_NOT_AVAILABLE"
        disk.mend()


# The op log


async def test_decisions_are_written_together(tmp_path: Path, clock: ManualClock) -> None:
    async with transacting(tmp_path, clock) as services:
        for number in range(3):
            end(services, prepare(services, f"tx-{number}"), ROLLBACK if number else COMMIT)
        assert services.read(TRANSACTION_OP_TOPIC) == []

    async with opened(tmp_path, clock) as services:
        (record,) = services.read(TRANSACTION_OP_TOPIC)
        assert record.body == b"0,1,2,"
        assert record.properties == {"TAGS": "d", "WAIT": "true"}


async def test_many_decisions_are_written_at_once(tmp_path: Path, clock: ManualClock) -> None:
    async with transacting(tmp_path, clock, transaction_op_msg_max_size=20) as services:
        for number in range(12):
            end(services, prepare(services, f"tx-{number}"), ROLLBACK)

        records = services.read(TRANSACTION_OP_TOPIC)
        assert records
        assert all(len(record.body) <= 20 for record in records)


def test_offsets_are_cut_into_bodies_of_a_size() -> None:
    parts = list(encode_marks(list(range(95, 105)), max_size=12))

    assert [body for _, body in parts] == [b"95,96,97,98,", b"99,100,101,", b"102,103,104,"]
    assert [offset for offsets, _ in parts for offset in offsets] == list(range(95, 105))


def test_both_forms_of_op_messages_are_read() -> None:
    assert decode_marks(b"5," + b"9" * 5_000 + b",7,") == [5, 7]
    assert decode_marks(b"12,13,20,") == [12, 13, 20]
    assert decode_marks(b"12") == [12]
    assert decode_marks(b"") == []


# Questions


async def test_an_undecided_message_is_asked_about_after_its_timeout(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services, producer_online(services) as producer:
        half = prepare(services, "tx-1", TAGS="paid")
        assert services.transactions.open_count == 1
        clock.advance(5_999)
        services.transactions.check_due()
        assert len(services.read(TRANSACTION_HALF_TOPIC)) == 1

        clock.advance(1)
        services.transactions.check_due()

        await producer.was_asked(1)
        header, asked_about = producer.questions[0]
        copy = services.read(TRANSACTION_HALF_TOPIC)[1]
        assert header.tran_state_table_offset == copy.queue_offset == 1
        assert header.commit_log_offset == copy.physical_offset
        assert header.msg_id == header.transaction_id == "tx-1"
        assert header.offset_msg_id == copy.offset_msg_id
        assert header.topic == TRANSACTION_HALF_TOPIC
        assert header.broker_name == "broker-a"
        assert (asked_about.topic, asked_about.queue_id) == ("orders", 1)
        assert asked_about.body == half.body
        assert asked_about.get_property("TRANSACTION_CHECK_TIMES") == "1"
        assert copy.get_property("TRANSACTION_CHECK_TIMES") == "1"

        end(services, copy, COMMIT, from_transaction_check=True)
        assert services.bodies("orders", 1) == [b"tx-1"]
        assert services.transactions.open_count == 0


async def test_question_and_answer_that_cross_commit_once(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        half = prepare(services)
        clock.advance(6_000)
        services.transactions.check_due()
        copy = services.read(TRANSACTION_HALF_TOPIC)[1]

        end(services, half, COMMIT)
        end(services, copy, COMMIT, from_transaction_check=True)

        assert len(services.read("orders", 1)) == 1
        assert services.transactions.open_count == 0


async def test_it_is_asked_again_at_intervals_and_given_up_in_the_end(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock, transaction_check_max=3) as services:
        prepare(services, "tx-1")
        clock.advance(6_000)
        for times in (1, 2, 3):
            services.transactions.check_due()
            newest = services.read(TRANSACTION_HALF_TOPIC)[-1]
            assert newest.get_property("TRANSACTION_CHECK_TIMES") == str(times)
            clock.advance(29_999)
            services.transactions.check_due()
            assert services.read(TRANSACTION_HALF_TOPIC)[-1].queue_offset == newest.queue_offset
            clock.advance(1)

        services.transactions.check_due()

        (parked,) = services.read(TRANSACTION_CHECK_MAX_TOPIC)
        assert parked.body == b"tx-1"
        assert parked.get_property("REAL_TOPIC") == "orders"
        assert services.topics.get(TRANSACTION_CHECK_MAX_TOPIC) is not None
        assert services.transactions.open_count == 0

        assert services.transactions.resume(parked)
        assert services.transactions.open_count == 1
        newest = services.read(TRANSACTION_HALF_TOPIC)[-1]
        assert newest.get_property("TRANSACTION_CHECK_TIMES") == "0"


async def test_a_message_older_than_the_store_keeps_messages_is_given_up(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        prepare(services)
        assert services.transactions.open_count == 1
        clock.advance(73 * 3_600_000)

        services.transactions.check_due()

        assert len(services.read(TRANSACTION_CHECK_MAX_TOPIC)) == 1


async def test_an_immune_message_is_left_in_peace(tmp_path: Path, clock: ManualClock) -> None:
    async with transacting(tmp_path, clock) as services:
        prepare(services, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        assert services.transactions.open_count == 1
        clock.advance(59_999)
        services.transactions.check_due()
        assert len(services.read(TRANSACTION_HALF_TOPIC)) == 1

        clock.advance(1)
        services.transactions.check_due()
        assert len(services.read(TRANSACTION_HALF_TOPIC)) == 2


# Restarts


async def test_a_restart_finds_what_is_open_and_only_that(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        halves = [prepare(services, f"tx-{number}") for number in range(4)]
        end(services, halves[0], COMMIT)
        end(services, halves[2], ROLLBACK)

    async with transacting(tmp_path, clock) as services:
        assert services.transactions.open_count == 2
        assert services.offsets.query(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0) == 1
        assert services.offsets.query(TRANSACTION_GROUP, TRANSACTION_OP_TOPIC, 0) == 0

        end(services, halves[1], COMMIT)
        end(services, halves[3], COMMIT)
        assert services.transactions.open_count == 0

    async with transacting(tmp_path, clock) as services:
        assert services.transactions.open_count == 0
        assert services.offsets.query(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0) == 4
        assert services.offsets.query(TRANSACTION_GROUP, TRANSACTION_OP_TOPIC, 0) == 2


async def test_a_copy_stands_for_its_original_also_after_a_crash(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock, config()) as services:
        # As a crash leaves it: the copy is in the queue, the progress was never written.
        stop = asyncio.Event()
        service = asyncio.create_task(services.transactions.run(stop))
        await asyncio.sleep(0)
        prepare(services)
        assert services.transactions.open_count == 1
        clock.advance(6_000)
        services.transactions.check_due()
        service.cancel()
        await asyncio.wait([service])

    async with transacting(tmp_path, clock) as services:
        assert len(services.read(TRANSACTION_HALF_TOPIC)) == 2
        assert services.transactions.open_count == 1


@pytest.mark.parametrize("digits", [400, 5_000])
@pytest.mark.parametrize(
    "name",
    ["CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"],
)
async def test_absurd_numbers_stop_neither_the_service_nor_a_start(
    tmp_path: Path, clock: ManualClock, name: str, digits: int
) -> None:
    async with transacting(tmp_path, clock) as services:
        half = prepare(services, "absurd", **{name: "9" * digits})
        prepare(services, "honest")
        clock.advance(6_000)
        services.transactions.check_due()
        assert services.transactions.open_count == 2
        end(services, half, COMMIT)
        prepare(services, "absurd again", **{name: "9" * digits})

    async with transacting(tmp_path, clock) as services:
        assert services.transactions.open_count == 2
        clock.advance(60_000)
        services.transactions.check_due()
        assert services.bodies(TRANSACTION_HALF_TOPIC).count(b"honest") == 3


async def test_a_message_that_cannot_be_understood_is_left_out_at_the_start(
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with transacting(tmp_path, clock) as services:
        prepare(services, "first")
        end(services, prepare(services, "second"), ROLLBACK)
        prepare(services, "third")

    understood = MessageStore.message_by_queue_offset

    def fail(store: MessageStore, topic: str, queue_id: int, offset: int) -> MessageExt | None:
        if (topic, offset) in {(TRANSACTION_HALF_TOPIC, 0), (TRANSACTION_OP_TOPIC, 0)}:
            raise ValueError("nobody can read this")
        return understood(store, topic, queue_id, offset)

    monkeypatch.setattr(MessageStore, "message_by_queue_offset", fail)
    async with transacting(tmp_path, clock) as services:
        # The second is open again, because the message that settled it was left out too.
        assert services.transactions.open_count == 2
    assert "half message 0 cannot be read and is left out" in caplog.text
    assert "op message 0 cannot be read and is left out" in caplog.text


async def test_a_decision_that_cannot_be_written_is_kept_and_written_later(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with transacting(tmp_path, clock, transaction_op_msg_max_size=1) as services:
        half = prepare(services)
        put = services.writer.put

        def fail(message: MessageInner) -> AppendResult:
            if message.topic == TRANSACTION_OP_TOPIC:
                raise OSError(errno.EIO, "the disk is gone")
            return put(message)

        monkeypatch.setattr(services.writer, "put", fail)
        answer = end(services, half, COMMIT)
        assert isinstance(answer, Command)
        assert answer.code == ResponseCode.SUCCESS
        assert services.read(TRANSACTION_OP_TOPIC) == []
        monkeypatch.undo()
    async with transacting(tmp_path, clock) as services:
        assert services.transactions.open_count == 0


async def test_producers_have_time_to_come_back_before_they_are_asked(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with transacting(tmp_path, clock) as services:
        prepare(services)
    clock.advance(60_000)

    async with transacting(tmp_path, clock) as services:
        clock.advance(29_000)
        services.transactions.check_due()
        assert len(services.read(TRANSACTION_HALF_TOPIC)) == 1

        clock.advance(1_000)
        services.transactions.check_due()
        assert len(services.read(TRANSACTION_HALF_TOPIC)) == 2


@pytest.mark.parametrize("with_progress", [True, False])
@pytest.mark.parametrize(("name", "open_count"), [("store-5.5.0", 0), ("store-4.9.8", 1)])
async def test_stores_written_by_rocketmq_are_understood(
    tmp_path: Path, name: str, open_count: int, with_progress: bool
) -> None:
    """4.9.8 writes one offset an op message; its undecided message was still being checked.

    Read from the very beginning the same is found: what 5.5.0 gave up on is given up again.
    """
    folder = unpacked(name, tmp_path)
    if not with_progress:
        (folder / "config" / "consumerOffset.json").unlink()
        (folder / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
        open_count = 1
    clock = ManualClock(1_794_771_600_000)
    sizes: dict[str, object] = {
        "mapped_file_size_commit_log": 65_536,
        "mapped_file_size_consume_queue": 1_000,
        "max_hash_slot_num": 64,
        "max_index_num": 200,
    }
    async with opened(folder, clock, config(), sizes) as services:
        services.transactions.recover()
        assert len(services.transactions._undecided) == open_count


def unpacked(name: str, folder: Path) -> Path:
    """A store of RocketMQ's, to be opened."""
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (store,) = {path.parent for path in folder.rglob("commitlog")}
    return store
