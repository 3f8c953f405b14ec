"""The same directory in turns: rocketq, a Java broker, rocketq again.

Needs Java and an installed RocketMQ (`peers/rocketmq/rocketmq install`).
"""

import asyncio
import json
import random
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketq.message.record.reader import decode_records
from rocketq.store import MessageStore, StoreConfig
from rocketq.store.inspect.check import Severity, check_store
from tests.store.support import message, read_queue

pytestmark = pytest.mark.peers

LAUNCHER = Path(__file__).parents[2] / "peers" / "rocketmq" / "rocketmq"
SETTINGS = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 1_000,
    "maxHashSlotNum": 64,
    "maxIndexNum": 200,
}
TOPIC = "orders"
QUEUES = 3
MESSAGES = 700


def config_of(root: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=65_536,
        mapped_file_size_consume_queue=1_000,
        max_hash_slot_num=64,
        max_index_num=200,
    )


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port that is free, like the ones around it that a broker takes too."""
    while True:
        # Below those that the system hands out by itself.
        port = random.randrange(12_000, 32_000)
        if all(map(is_free, range(port - 2, port + 2))):
            return port


class JavaBroker:
    """A real broker on a directory, spoken to with bare frames."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._namesrv_port = free_port()

    def _launch(self, command: str, *arguments: str) -> None:
        subprocess.run(
            [
                sys.executable,
                str(LAUNCHER),
                command,
                "--dir",
                str(self._folder),
                "--namesrv-port",
                str(self._namesrv_port),
                "--broker-port",
                str(self._port),
                *arguments,
            ],
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        settings = [f"{key}={value}" for key, value in SETTINGS.items()]
        self._launch("start", "--heap", "512m", "--conf", *settings, "timerWheelEnable=false")
        deadline = time.monotonic() + 60
        while True:  # registered is not yet ready
            try:
                self.call(30, {"topic": TOPIC, "queueId": 0})
                return
            except (OSError, AssertionError):
                assert time.monotonic() < deadline
                time.sleep(0.2)

    def stop(self) -> None:
        self._launch("stop")

    def crash(self) -> None:
        self._launch("crash")

    def call(
        self, code: int, fields: dict[str, Any], body: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        header = json.dumps(
            {
                "code": code,
                "language": "JAVA",
                "version": 479,
                "opaque": 1,
                "flag": 0,
                "extFields": {name: str(value) for name, value in fields.items()},
                "serializeTypeCurrentRPC": "JSON",
            }
        ).encode()
        with socket.create_connection(("127.0.0.1", self._port), timeout=20) as connection:
            frame = struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body
            connection.sendall(frame)
            stream = connection.makefile("rb")
            size, header_size = struct.unpack(">ii", stream.read(8))
            answer = json.loads(stream.read(header_size & 0xFFFFFF))
            rest = stream.read(size - 4 - (header_size & 0xFFFFFF))
        assert answer["code"] in (0, 19, 21, 22), answer
        return answer, rest

    def pull_all(self, queue_id: int) -> list[bytes]:
        found: list[bytes] = []
        offset = 0
        while True:
            answer, body = self.call(
                11,
                {
                    "consumerGroup": "readers",
                    "topic": TOPIC,
                    "queueId": queue_id,
                    "queueOffset": offset,
                    "maxMsgNums": 32,
                    "sysFlag": 4,
                    "commitOffset": 0,
                    "suspendTimeoutMillis": 0,
                    "subscription": "*",
                    "subVersion": 0,
                    "expressionType": "TAG",
                },
            )
            if answer["code"] != 0:
                return found
            messages = decode_records(body)
            assert [m.queue_offset for m in messages] == list(range(offset, offset + len(messages)))
            found += [m.body for m in messages]
            offset = int(answer["extFields"]["nextBeginOffset"])

    def query(self, key: str) -> list[bytes]:
        fields = {
            "topic": TOPIC,
            "key": key,
            "maxNum": 32,
            "beginTimestamp": 0,
            "endTimestamp": 1 << 60,
        }
        answer, body = self.call(12, fields)
        return [m.body for m in decode_records(body)] if answer["code"] == 0 else []

    def send(self, queue_id: int, body: bytes, key: str) -> None:
        fields = {
            "producerGroup": "writers",
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4,
            "queueId": queue_id,
            "sysFlag": 0,
            "bornTimestamp": int(time.time() * 1000),
            "flag": 0,
            "properties": f"KEYS\x01{key}\x02",
            "reconsumeTimes": 0,
        }
        answer, _ = self.call(10, fields, body)
        assert answer["code"] == 0


@contextmanager
def java_on(folder: Path) -> Iterator[JavaBroker]:
    broker = JavaBroker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def write_topics(root: Path) -> None:
    """Java serves only topics that it has a configuration of."""
    topic = {
        "order": False,
        "perm": 6,
        "readQueueNums": QUEUES,
        "writeQueueNums": QUEUES,
        "topicFilterType": "SINGLE_TAG",
        "topicName": TOPIC,
        "topicSysFlag": 0,
    }
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(
        json.dumps({"dataVersion": {"counter": 1}, "topicConfigTable": {TOPIC: topic}})
    )


def expected(queue_id: int, count: int = MESSAGES) -> list[bytes]:
    return [b"message %d" % number for number in range(queue_id, count, QUEUES)]


def fill(root: Path, killed_copy: Path | None = None) -> None:
    async def write() -> None:
        async with MessageStore(config_of(root)) as store:
            for number in range(MESSAGES):
                result = store.append(
                    message(
                        b"message %d" % number,
                        topic=TOPIC,
                        queue_id=number % QUEUES,
                        keys=f"key{number}",
                        unique_key=f"unique{number}",
                        tags="T",
                    )
                )
                assert result.is_stored
            if killed_copy is not None:
                shutil.copytree(root, killed_copy)

    asyncio.run(write())
    write_topics(killed_copy or root)


def served_by_rocketq(root: Path) -> list[list[bytes]]:
    async def read() -> list[list[bytes]]:
        async with MessageStore(config_of(root)) as store:
            assert store.damages == []
            return [[m.body for m in read_queue(store, TOPIC, q)] for q in range(QUEUES)]

    return asyncio.run(read())


def assert_java_serves_everything(broker: JavaBroker) -> None:
    for queue_id in range(QUEUES):
        assert broker.pull_all(queue_id) == expected(queue_id)
    for number in (0, 1, 350, MESSAGES - 1):
        assert b"message %d" % number in broker.query(f"key{number}")
        assert b"message %d" % number in broker.query(f"unique{number}")


def test_java_opens_a_store_that_rocketq_closed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    fill(root)
    with java_on(tmp_path) as broker:
        assert_java_serves_everything(broker)
        for number in range(100):
            broker.send(number % QUEUES, b"from java %d" % number, f"java{number}")
    served = served_by_rocketq(root)
    for queue_id in range(QUEUES):
        more = [b"from java %d" % number for number in range(queue_id, 100, QUEUES)]
        assert served[queue_id] == expected(queue_id) + more
    findings = list(check_store(root, config_of(root)))
    assert [finding for finding in findings if finding.severity is Severity.ERROR] == []


def test_java_recovers_a_store_whose_rocketq_was_killed(tmp_path: Path) -> None:
    fill(tmp_path / "running", tmp_path / "store")
    assert (tmp_path / "store" / "abort").exists()
    with java_on(tmp_path) as broker:
        assert_java_serves_everything(broker)
        broker.send(0, b"from java", "java")
    assert served_by_rocketq(tmp_path / "store")[0] == [*expected(0), b"from java"]


def test_rocketq_recovers_a_store_whose_java_broker_was_killed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    fill(root)
    with java_on(tmp_path) as broker:
        for number in range(200):
            broker.send(number % QUEUES, b"from java %d" % number, f"java{number}")
        broker.crash()
    assert (root / "abort").exists()
    served = served_by_rocketq(root)
    for queue_id in range(QUEUES):
        more = [b"from java %d" % number for number in range(queue_id, 200, QUEUES)]
        assert served[queue_id] == expected(queue_id) + more


def live_twice(root: Path, killed_copy: Path | None = None) -> None:
    """The topic was deleted once, and has half as many messages in its second life."""

    async def write() -> None:
        async with MessageStore(config_of(root)) as store:
            for number in range(MESSAGES):
                store.append(message(b"old", topic=TOPIC, queue_id=number % QUEUES, keys="old"))
            await store.delete_topic(TOPIC)
            for number in range(MESSAGES // 2):
                body = b"message %d" % number
                store.append(message(body, topic=TOPIC, queue_id=number % QUEUES))
            if killed_copy is not None:
                shutil.copytree(root, killed_copy)

    asyncio.run(write())
    write_topics(killed_copy or root)


def test_java_goes_on_with_the_second_life_of_a_topic(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    live_twice(root)
    with java_on(tmp_path) as broker:
        for queue_id in range(QUEUES):
            assert broker.pull_all(queue_id) == expected(queue_id, MESSAGES // 2)
        for number in range(90):
            broker.send(number % QUEUES, b"from java %d" % number, f"java{number}")
    for _ in range(2):
        served = served_by_rocketq(root)
        for queue_id in range(QUEUES):
            more = [b"from java %d" % number for number in range(queue_id, 90, QUEUES)]
            assert served[queue_id] == expected(queue_id, MESSAGES // 2) + more


def test_the_second_life_is_whole_after_java_has_mixed_it_with_the_first(tmp_path: Path) -> None:
    """A Java broker that has to recover brings deleted messages back; rocketq does not."""
    live_twice(tmp_path / "running", tmp_path / "store")
    with java_on(tmp_path) as broker:
        broker.send(0, b"from java", "java")
    for _ in range(2):
        served = served_by_rocketq(tmp_path / "store")
        assert served[0] == [*expected(0, MESSAGES // 2), b"from java"]
        assert served[1:] == [expected(queue_id, MESSAGES // 2) for queue_id in (1, 2)]
