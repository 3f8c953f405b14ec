"""How many machine instructions each hot operation takes, counted by valgrind.

    python -m benchmarks.instructions [operation ...] [--against DIR]

A count does not depend on what else the machine does, and repeats to a fraction of a percent,
so it shows whether a change to a compiled module has cost anything. `--against` counts in
another checkout too (with a `.venv` of its own, and built), and prints both.

One program runs all operations under callgrind. Around each it calls `getppid`, where callgrind
is told to write down what it has counted since the last time.
"""

import argparse
import array
import asyncio
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROUNDS = 200
"""How often each operation is made; rounds before them bring caches and files into place."""

PROPERTIES = (
    b"UNIQ_KEY\x01%s\x02WAIT\x01true\x02TAGS\x01TagA\x02KEYS\x01order%d\x02city\x01Hangzhou\x02"
    b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
)

Round = Callable[[], object]
Operation = tuple[Round, int]
"""What to do in one round, and to how many messages."""


# What the operations work on


def properties(number: int) -> bytes:
    return PROPERTIES % (b"7F00000100002A9F%016X" % zlib.crc32(b"%d" % number), number)


def records(count: int) -> bytes:
    """Records as a pull brings them."""
    from rocketq.message.record.writer import new_record

    return b"".join(
        new_record(
            b"BenchmarkTest",
            bytes(128),
            properties(number),
            queue_offset=number,
            physical_offset=number * 400,
            born_timestamp=1_700_000_000_000,
            store_timestamp=1_700_000_000_001,
        )
        for number in range(count)
    )


def batch(count: int) -> bytes:
    items = []
    for number in range(count):
        body, text = bytes(128), properties(number)
        head = struct.pack(">iiiii", 22 + len(body) + len(text), 0, 0, 0, len(body))
        items.append(head + body + struct.pack(">h", len(text)) + text)
    return b"".join(items)


# The operations


def message_operations() -> Iterator[tuple[str, Operation]]:
    from rocketq.message.hashing import java_hash
    from rocketq.message.properties.codec import decode_properties, get_property
    from rocketq.message.record.batch import batch_items
    from rocketq.message.record.reader import check_record, decode_records, read_record
    from rocketq.message.record.writer import new_record

    raw, encoded, body = records(32), properties(1), batch(32)
    view = memoryview(raw)
    yield "new record", (lambda: new_record(b"BenchmarkTest", bytes(128), encoded), 1)
    yield "check record", (lambda: check_record(view, 0), 1)
    yield "read record", (lambda: read_record(view, 0), 1)
    yield "decode records", (lambda: decode_records(view), 32)
    yield "split batch", (lambda: batch_items(body), 32)
    yield "get property", (lambda: get_property(encoded, b"KEYS"), 1)
    yield "decode properties", (lambda: decode_properties(encoded), 1)
    yield "hash", (lambda: java_hash("BenchmarkTest#order42"), 1)


def store_operations(store: Any) -> Iterator[tuple[str, Operation]]:
    from rocketq.store import MessageInner

    def message(queue_id: int, body: bytes, encoded: bytes) -> Any:
        return MessageInner(topic="BenchmarkTest", queue_id=queue_id, body=body, properties=encoded)

    append, append_batch = store.append, store.append_batch
    single = [message(0, bytes(128), properties(number)) for number in range(32)]
    small, large = message(1, batch(32), b""), message(2, batch(200), b"")
    for _ in range(2 * ROUNDS):  # so that there is something to read
        append_batch(small)

    def append_all() -> None:
        for inner in single:
            append(inner)

    places = iter(range(0, 64 * ROUNDS, 32))
    yield "append", (append_all, 32)
    yield "append batch of 32", (lambda: append_batch(small), 32)
    yield "append batch of 200", (lambda: append_batch(large), 200)
    yield (
        "pull 32",
        (lambda: store.get("BenchmarkTest", 1, next(places), 32, 1 << 20, None), 32),
    )


class _Wire:
    """A transport that remembers what was written to it."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.write = self.written.append
        self.writelines = self.written.extend

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def abort(self) -> None:
        pass


def replica_operations(master: Any, slave: Any) -> Iterator[tuple[str, Operation]]:
    """A turn of a SYNC_MASTER, one of its slave, and the report that ends it: 25 messages."""
    from rocketq.store import MessageInner
    from rocketq.store.replication.master_link import MasterLink
    from rocketq.store.replication.slave_link import SlaveLink

    loop = asyncio.get_event_loop()

    class Watcher:
        last_read_s = last_write_s = 0.0

    messages = [
        MessageInner(
            topic="BenchmarkTest", queue_id=number % 4, body=bytes(128), properties=properties(1)
        )
        for number in range(25)
    ]
    out, back = _Wire(), _Wire()
    replicas = master.replicas
    # A link for a slave that nobody has let in through the port, as if it had come.
    slave_link = SlaveLink(replicas, replicas._source, replicas._config)
    replicas._server = object()
    ended: list[object] = []

    async def turn() -> None:
        for inner in messages:
            master.append(inner)
        future = master.durable(master.max_physical_offset)
        assert future is not None
        future.add_done_callback(ended.append)
        await asyncio.sleep(0)

    async def receive() -> None:
        data = b"".join(out.written)
        out.written.clear()
        master_link.get_buffer(-1)[: len(data)] = data
        master_link.buffer_updated(len(data))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def report() -> None:
        reports = b"".join(back.written)
        back.written.clear()
        slave_link.data_received(reports)
        await asyncio.sleep(0)

    async def new_link() -> MasterLink:
        return MasterLink(Watcher(), slave.received, slave.config)

    master_link = loop.run_until_complete(new_link())

    async def begin() -> None:
        slave_link.connection_made(out)  # type: ignore[arg-type]
        master_link.connection_made(back)  # type: ignore[arg-type]
        await report()

    def once() -> None:
        loop.run_until_complete(turn())
        loop.run_until_complete(receive())
        loop.run_until_complete(report())
        assert slave.max_physical_offset == master.max_physical_offset

    loop.run_until_complete(begin())
    yield "replicate 25", (once, 25)
    assert ended
    replicas._server = None
    slave_link.connection_lost(None)
    master_link.connection_lost(None)


def spark_operations() -> Iterator[tuple[str, Operation]]:
    from rocketq.spark.read.columns import RecordTable
    from rocketq.spark.write.encoder import BatchRows, Texts

    raw = records(100)
    table = RecordTable(raw, 0, 100)

    def usual() -> None:
        """The columns of a table when nobody chooses."""
        rows = RecordTable(raw, 0, 100)
        rows.int_column(12)
        rows.long_column(20)
        rows.id_column()
        rows.property_column(b"KEYS")
        rows.property_column(b"TAGS")
        rows.body_column(0, 100, {})
        rows.map_column()
        rows.born_time_column()
        rows.store_time_column()
        rows.host_column()
        rows.reconsume_column()

    yield "record table", (lambda: RecordTable(raw, 0, 100), 100)
    yield "record table, one tag", (lambda: RecordTable(raw, 0, 100, [b"TagA"]), 100)
    yield "column of numbers", (lambda: table.long_column(20), 100)
    yield "column body", (lambda: table.body_column(0, 100, {}), 100)
    yield "column tags", (lambda: RecordTable(raw, 0, 100).property_column(b"TAGS"), 100)
    yield "column id", (lambda: RecordTable(raw, 0, 100).id_column(), 100)
    yield "column properties", (table.map_column, 100)
    yield "usual columns", (usual, 100)

    def texts(value: bytes) -> Any:
        ends = array.array("i", range(0, 101 * len(value), len(value)))
        return Texts(None, memoryview(ends).cast("B"), memoryview(value * 100), 0)

    keys = texts(b"order42")
    rows = BatchRows(
        *(100, texts(bytes(128)), texts(b"TagA"), keys, None, None, None),
        *(frozenset[bytes](), b"7F00000100002A9F01020304", 0),
    )
    yield "encode rows", (lambda: rows.encode(None, 0, 1 << 15, 1000), 100)
    yield "hash rows", (lambda: keys.java_hashes(100), 100)


@contextmanager
def opened_store(**settings: Any) -> Iterator[Any]:
    from rocketq.store import MessageStore, StoreConfig

    folder = tempfile.mkdtemp()
    loop = asyncio.get_event_loop()
    store = MessageStore(
        StoreConfig(store_path_root_dir=folder, mapped_file_size_commit_log=64 << 20, **settings)
    )
    try:
        loop.run_until_complete(store.open())
        yield store
    finally:
        loop.run_until_complete(store.close())
        shutil.rmtree(folder)


@contextmanager
def opened_pair() -> Iterator[tuple[Any, Any]]:
    from rocketq.store.config import BrokerRole

    with (
        opened_store(broker_role=BrokerRole.SYNC_MASTER, in_sync_replicas=2) as master,
        opened_store(broker_role=BrokerRole.SLAVE) as slave,
    ):
        yield master, slave


# Counting


def run_all(wanted: list[str], rounds: int) -> None:
    """Make every wanted operation, and say in which order."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    with opened_store() as store, opened_pair() as pair:
        for operations in (
            message_operations(),
            store_operations(store),
            replica_operations(*pair),
            spark_operations(),
        ):
            for name, (once, size) in operations:
                if wanted and name not in wanted:
                    continue
                for _ in range(rounds // 4):
                    once()
                os.getppid()
                for _ in range(rounds):
                    once()
                os.getppid()
                print(f"{name}\t{size}", flush=True)


def count(checkout: Path, wanted: list[str], rounds: int = ROUNDS) -> dict[str, float]:
    """Instructions of each operation, for one message."""
    python = checkout / ".venv/bin/python"
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--dump-after=getppid"),
                *("--callgrind-out-file=" + folder + "/counted", "--log-file=/dev/null"),
                *(str(python if python.exists() else sys.executable), __file__),
                *("--run", f"--rounds={rounds}", *wanted),
            ],
            env=os.environ | {"PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
        )
        if ran.returncode != 0:
            why = ran.stderr.strip().splitlines() or ["it ended without a word"]
            sys.exit(
                f"{checkout} cannot run the operations of this checkout: {why[-1]}\n"
                "They are called by where they live today; compare with a commit whose modules "
                "lie in the same places, or with `python -m benchmarks.compare` over the wire."
            )
        counts = [
            int(found[1])
            for number in range(1, 1000)
            if (path := Path(folder) / f"counted.{number}").exists()
            and (found := re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.MULTILINE))
        ]
    names = [line.split("\t") for line in ran.stdout.splitlines()]
    assert len(counts) >= 2 * len(names), f"{len(counts)} counts of {len(names)} operations"
    return {
        name: counts[2 * number + 1] / rounds / int(size)
        for number, (name, size) in enumerate(names)
    }


def table(now: dict[str, float], before: dict[str, float] | None) -> Iterator[str]:
    yield f"{'instructions per message':<28}{'here':>10}" + (
        f"{'there':>10}{'change':>9}" if before is not None else ""
    )
    for name, value in now.items():
        line = f"{name:<28}{value:>10,.1f}"
        if before is not None and name in before:
            line += f"{before[name]:>10,.1f}{value / before[name] - 1:>+9.1%}"
        yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operation", nargs="*", help="which operations; all without any")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, built")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_all(options.operation, options.rounds)
        return
    if shutil.which("valgrind") is None:
        sys.exit("instructions are counted by valgrind: install it (apt install valgrind)")
    here = Path(__file__).resolve().parent.parent
    now = count(here, options.operation, options.rounds)
    before = count(options.against, options.operation, options.rounds) if options.against else None
    print("\n".join(table(now, before)))


if __name__ == "__main__":
    main()
