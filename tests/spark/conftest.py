"""A broker and a Spark for the tests of the pipeline; each is started once.

Most tests ask the readers as Spark would, without Spark; those that need it have the fixture
`spark` and the mark of that name. With ROCKETQ_PEER_NAMESRV (a NameServer's address) the tests
of reading run against that cluster as well, marked `peers`.
"""

import gc
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from rocketq import Message, Producer, SendResult
from rocketq.admin.groups import GroupProgress, progress, progress_of, total_behind
from rocketq.admin.session import connected
from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.spark import environment
from rocketq.testing import LocalBroker
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark starts Python again and again, and gives each start of a stream ten seconds. Modules that
# are not kept compiled are compiled every time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

PEERS = [text for text in os.environ.get("ROCKETQ_PEER_NAMESRV", "").split(",") if text]
SETTINGS = {"enablePropertyFilter": "true", "messageDelayLevel": "1s 1s 2s"}

# A test's JVM lives for seconds: compiling well takes longer than it saves.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"


class Cluster:
    """A NameServer and its one broker, whoever wrote them, and what tests do with them."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv

    def ask(self, question: Callable[[ClientInstance, str], Any]) -> Any:
        """What the broker answers: `question` gets a client and the broker's address."""

        async def answer() -> Any:
            config = ClientConfig(namesrv=self.namesrv, api_timeout_s=30.0)
            async with ClientInstance.opened(config) as client:
                info = await client.api.cluster_info()
                (broker,) = info.broker_addr_table.values()
                return await question(client, broker.broker_addrs[0])

        return loop_thread().run(answer())

    def new_topic(self, queues: int = 4, name: str | None = None) -> str:
        topic = name or f"topic-{time.time_ns():x}"

        async def create(client: ClientInstance, address: str) -> None:
            config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
            await client.api.create_topic(address, config)

        self.ask(create)
        wait_until(lambda: self.queues(topic) == queues)
        return topic

    def queues(self, topic: str) -> int:
        async def count(client: ClientInstance, _: str) -> int:
            route = await client.api.route(topic)
            return 0 if route is None else sum(data.read_queue_nums for data in route.queue_datas)

        found: int = self.ask(count)
        return found

    def size(self, topic: str) -> int:
        """How many messages a topic has taken."""

        async def ends(client: ClientInstance, address: str) -> int:
            queues = await client.routes.subscribe_queues(topic)
            return sum([await client.api.max_offset(address, queue) for queue in queues])

        found: int = self.ask(ends)
        return found

    def broker_name(self) -> str:
        async def name(client: ClientInstance, _: str) -> str:
            (found,) = (await client.api.cluster_info()).broker_addr_table
            return str(found)

        found: str = self.ask(name)
        return found

    def send(self, messages: Sequence[Message], *, queue: int | None = None) -> None:
        """Send, in order; to a queue of this number, or to all in turn."""
        with Producer(
            "test-producer", namesrv=self.namesrv, send_timeout_s=60.0, api_timeout_s=30.0
        ) as producer:
            if queue is None:
                pending = [producer.send_soon(message) for message in messages]
                results = [each.result() for each in pending]
            else:
                target = MessageQueue(messages[0].topic, self.broker_name(), queue)
                results = [producer.send(message, queue=target) for message in messages]
        self._wait_until_readable(results)

    def _wait_until_readable(self, results: Sequence[SendResult]) -> None:
        """A Java broker acknowledges a message shortly before it can be read."""
        ends: dict[MessageQueue, int] = {}
        for result in results:
            ends[result.queue] = max(result.queue_offset + 1, ends.get(result.queue, 0))

        async def are_there(client: ClientInstance, address: str) -> bool:
            offsets = [await client.api.max_offset(address, queue) for queue in ends]
            return all(map(int.__ge__, offsets, ends.values()))

        wait_until(lambda: self.ask(are_there))

    def send_numbers(self, topic: str, numbers: Sequence[int], *, queue: int | None = None) -> None:
        self.send([Message(topic, b"%d" % number) for number in numbers], queue=queue)

    def lag(self, group: str) -> int:
        """As administrators' tools see it: they find groups by their retry topics."""

        async def ask() -> GroupProgress | None:
            async with connected(self.namesrv) as api:
                found = {each.group: each for each in await progress(api)}.get(group)
                if found is not None:
                    assert found.connection is None, "a member would be given queues"
                    assert total_behind(await progress_of(api, group)) == found.behind
                return found

        found: list[GroupProgress] = []

        def is_listed() -> bool:
            found.extend(each for each in [loop_thread().run(ask())] if each is not None)
            return bool(found)

        wait_until(is_listed)  # the route is on its way to the NameServer
        return found[0].behind


@pytest.fixture(scope="session")
def local_broker() -> Iterator[LocalBroker]:
    """Shared by the tests that do not hurt it."""
    with LocalBroker(SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="session")
def cluster(local_broker: LocalBroker) -> Cluster:
    """The cluster of this process."""
    return Cluster(local_broker.namesrv)


def _clusters() -> list[Any]:
    ours = pytest.param(None, id="rocketq")
    theirs = [pytest.param(each, id="rocketmq", marks=pytest.mark.peers) for each in PEERS]
    return [ours, *theirs]


@pytest.fixture(scope="session", params=_clusters())
def any_cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster of this process, and real RocketMQ where one is given."""
    if request.param is None:
        cluster: Cluster = request.getfixturevalue("cluster")
        return cluster
    return Cluster(request.param)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """One Spark for all: it takes seconds to start."""
    missing = environment.what_is_missing()
    if missing:
        pytest.skip(missing)
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    session = environment.session(
        "rocketq tests",
        spark_driver_memory="1g",
        spark_sql_shuffle_partitions="2",
        spark_default_parallelism="2",
        spark_sql_warehouse_dir=str(warehouse),
        # Nobody is in a hurry here, and the machine may be busy with something else.
        spark_python_authenticate_socketTimeout="120s",
        spark_network_timeout="600s",
        spark_driver_extraJavaOptions=f"{environment.quiet_java_options()} {JAVA_OPTIONS}",
    )
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(autouse=True, scope="module")
def _connections_of_py4j() -> Iterator[None]:
    """Py4j leaves connections of threads that ended to the garbage collector.

    They are collected here, and not in some later test that would be blamed for them.
    """
    yield
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
