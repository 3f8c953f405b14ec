"""A real NameServer and broker inside the test process, for those who test applications.

    def test_an_order_is_announced(rocketq_broker):
        place_order(namesrv=rocketq_broker.namesrv)
        (message,) = rocketq_broker.wait_for_messages("orders", 1)
        assert message.tags == "paid"

The pytest fixture `rocketq_broker` comes with the package. Outside of pytest:

    with LocalBroker() as broker:
        ...

It is the broker itself, not a substitute: ports are chosen by the system, data lies in a
temporary folder, and both are gone afterwards. It runs in a thread of its own, so blocking
and asyncio tests can use it alike. Ready in well under 200 ms.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from rocketq.client.cluster.instance import ClientInstance
    from rocketq.message.message import MessageExt

T = TypeVar("T")

_START_WITHIN_S = 30.0

# Small files and nothing that works towards the future: a test's broker lives for seconds.
_SETTINGS = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerIP1": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
}


class LocalBroker:
    """A NameServer and a broker, in a thread of this process. Any thread may use it."""

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, folder: str | Path | None = None
    ) -> None:
        """`settings` are keys of RocketMQ's broker.conf; `folder` keeps the data."""
        self._settings = {**_SETTINGS, **(settings or {})}
        self._folder = None if folder is None else Path(folder)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._namesrv_port = 0
        self._broker_port = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None

    @property
    def namesrv(self) -> str:
        """The NameServer's address, for clients."""
        return f"127.0.0.1:{self._namesrv_port}"

    @property
    def address(self) -> str:
        """The broker's own address."""
        return f"127.0.0.1:{self._broker_port}"

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._settings["brokerClusterName"]

    # Life

    def start(self) -> None:
        """Start both; after a `stop` again with the same ports and data."""
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(
                prefix="rocketq-test-", ignore_cleanup_errors=True
            )
            self._folder = Path(self._temporary.name)
        self._ready.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="rocketq-broker", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_WITHIN_S):
            raise RuntimeError(f"the broker did not start within {_START_WITHIN_S:g} s")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._thread.join()
            self._thread = None
            self.close()
            raise failure

    def stop(self) -> None:
        """Stop both in order; the data stays, for another `start`."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        thread.join()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop both and remove the data, unless it lies in a folder of yours."""
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()
                self._temporary = None
                self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        from rocketq.client.blocking.loop_thread import run

        try:
            run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        assert self._folder is not None
        async with _servers(
            self._folder, self._settings, self._namesrv_port, self._broker_port
        ) as ports:
            self._namesrv_port, self._broker_port = ports
            self._ready.set()
            await self._stop.wait()

    # Helpers of tests

    def new_name(self, prefix: str = "test") -> str:
        """A name for a topic or group that nobody has used."""
        return f"{prefix}-{uuid.uuid4().hex[:12]}"

    def create_topic(self, topic: str | None = None, *, queues: int = 4) -> str:
        """Create a topic; without a name, a new one."""
        from rocketq.remoting.bodies.registration import TopicConfig

        name = topic or self.new_name("topic")
        config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)

        async def create(client: ClientInstance) -> None:
            await client.api.create_topic(self.address, config)
            while await client.api.route(name) is None:  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.005)

        self._ask(create)
        return name

    def messages(self, topic: str) -> list[MessageExt]:
        """Every message stored in a topic, in the order it was stored."""
        return self._ask(lambda client: _stored(client, topic))

    def wait_for_messages(
        self, topic: str, count: int, *, timeout_s: float = 10.0
    ) -> list[MessageExt]:
        """The messages of a topic once there are this many; TimeoutError if never."""
        deadline = time.monotonic() + timeout_s
        while len(found := self.messages(topic)) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{len(found)} of {count} messages in {topic!r} after {timeout_s:g} s"
                )
            time.sleep(0.005)
        return found

    def _ask(self, question: Callable[[ClientInstance], Awaitable[T]]) -> T:
        from rocketq.client.blocking.loop_thread import loop_thread
        from rocketq.client.cluster.instance import ClientInstance
        from rocketq.client.config import ClientConfig

        async def ask() -> T:
            async with ClientInstance.opened(ClientConfig(namesrv=self.namesrv)) as client:
                return await question(client)

        return loop_thread().run(ask(), what="this broker")


@asynccontextmanager
async def running_broker(
    settings: Mapping[str, str] | None = None, *, folder: str | Path | None = None
) -> AsyncIterator[LocalBroker]:
    """`LocalBroker` for asyncio programs: starting and stopping do not hold up the loop."""
    broker = LocalBroker(settings, folder=folder)
    await asyncio.to_thread(broker.start)
    try:
        yield broker
    finally:
        await asyncio.to_thread(broker.close)


@asynccontextmanager
async def _servers(
    folder: Path, settings: Mapping[str, str], namesrv_port: int, broker_port: int
) -> AsyncIterator[tuple[int, int]]:
    from rocketq.broker import Broker, load_configs
    from rocketq.common.config import settings as keys_of
    from rocketq.common.config import update
    from rocketq.namesrv import NameServer, NamesrvConfig
    from rocketq.remoting.access.settings import AccessSettings
    from rocketq.remoting.tls import TlsSettings

    # What is locked or encrypted is so as a whole.
    both = {*keys_of(AccessSettings), *keys_of(TlsSettings)}
    namesrv_config = NamesrvConfig(
        bind_address="127.0.0.1",
        listen_port=namesrv_port,
        kv_config_path=str(folder / "kvConfig.json"),
        config_store_path=str(folder / "namesrv.properties"),
    )
    namesrv = NameServer(
        update(namesrv_config, {key: text for key, text in settings.items() if key in both})
    )
    await namesrv.start()
    try:
        config, store = load_configs(settings)
        config = replace(config, namesrv_addr=f"127.0.0.1:{namesrv.port}", listen_port=broker_port)
        store = replace(store, store_path_root_dir=str(folder / "store"))
        async with Broker(config, store).serving() as broker:
            yield namesrv.port, broker.port
    finally:
        await namesrv.stop()


async def _stored(client: ClientInstance, topic: str) -> list[MessageExt]:
    from rocketq.client.errors import NoRoute
    from rocketq.message.names import TOOLS_CONSUMER_GROUP
    from rocketq.message.record.reader import decode_records

    found: list[MessageExt] = []
    try:
        queues = await client.routes.subscribe_queues(topic)
    except NoRoute:
        return found
    for queue in queues:
        address = client.routes.master(queue.broker_name)
        assert address is not None
        offset = await client.api.min_offset(address, queue)
        while True:
            pulled = await client.api.pull(
                address,
                group=TOOLS_CONSUMER_GROUP,
                queue=queue,
                offset=offset,
                max_messages=1024,
                flags=4,
                subscription="*",
            )
            if pulled.code != 0:
                break
            found += decode_records(pulled.body, broker_name=queue.broker_name)
            offset = pulled.next_offset
    return sorted(found, key=lambda message: message.physical_offset)
