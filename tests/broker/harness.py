"""A real broker in this process, on a free port, with a store in a temporary folder."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from rocketq.broker import Broker, BrokerConfig
from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.message import MessageExt
from rocketq.message.properties.codec import encode_properties
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, Handlers, RemotingClient
from rocketq.remoting.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from rocketq.remoting.headers import HeartBeat, PullMessage, PullMessageResponse, SendMessageV2
from rocketq.store import StoreConfig
from rocketq.store.files.disk import Disk

_STORE_OPTIONS = {field.name for field in fields(StoreConfig)}

# Small files: a test should not spend its time on making large ones.
_SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 1000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}


class TestBroker:
    """A broker and a client that talks to it."""

    __test__ = False

    def __init__(self, broker: Broker, client: RemotingClient) -> None:
        self.broker = broker
        self.client = client
        self.address = broker.address

    async def call(self, request: Command, timeout_s: float = 5.0) -> Command:
        return await self.client.call(self.address, request, timeout_s)

    async def send(
        self,
        topic: str,
        body: bytes = b"body",
        *,
        queue_id: int = 0,
        properties: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Command:
        """Send a message as a Java client does."""
        return await self.call(send_request(topic, body, queue_id, properties, **more))

    async def pull(self, topic: str, offset: int = 0, **more: Any) -> Command:
        return await self.call(pull_request(topic, offset, **more), timeout_s=30.0)

    def start_pull(self, topic: str, offset: int = 0, **more: Any) -> asyncio.Future[Command]:
        """Send a pull, before anything that is sent after this, and do not wait for it."""
        return self.client.send(self.address, pull_request(topic, offset, **more), 30.0)

    async def messages(self, topic: str, queue_id: int = 0, **more: Any) -> list[MessageExt]:
        """Everything in a queue."""
        found: list[MessageExt] = []
        offset, end = 0, 1
        while offset < end:  # one answer has 256 KB at most
            reply = await self.pull(topic, offset, queue_id=queue_id, max_msg_nums=10_000, **more)
            if reply.code != 0:
                break
            header = reply.header(PullMessageResponse)
            found += decode_records(reply.body)
            offset, end = header.next_begin_offset, header.max_offset
        return found

    async def heartbeat(
        self,
        client_id: str = "client",
        *,
        group: str = "group",
        topic: str = "topic",
        subscription: str = "*",
        expression_type: str = "TAG",
        version: int = 1,
        producer_group: str | None = None,
        client: RemotingClient | None = None,
        **more: Any,
    ) -> Command:
        """Make a consumer known, as clients do before they pull."""
        data = SubscriptionData(
            topic=topic,
            sub_string=subscription,
            expression_type=expression_type,
            sub_version=version,
        )
        body = HeartbeatData(
            client_id=client_id,
            consumer_data_set=[
                ConsumerData(group_name=group, subscription_data_set=[data], **more)
            ],
            producer_data_set=[ProducerData(group_name=producer_group)] if producer_group else [],
        )
        request = Command.request(HeartBeat(), body.encode())
        return await (client or self.client).call(self.address, request)


def send_request(
    topic: str,
    body: bytes = b"body",
    queue_id: int = 0,
    properties: Mapping[str, str] | None = None,
    **more: Any,
) -> Command:
    if properties is None:
        properties = {"UNIQ_KEY": "7F0000010001", "WAIT": "true"}
    options: dict[str, Any] = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": encode_properties(properties).decode(),
        "reconsume_times": 0,
        "unit_mode": False,
        "batch": False,
    }
    return Command.request(SendMessageV2(**(options | more)), body)


def pull_request(topic: str, offset: int = 0, **more: Any) -> Command:
    """A pull that brings its subscription along."""
    options: dict[str, Any] = {
        "consumer_group": "group",
        "topic": topic,
        "queue_id": 0,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": 4,
        "commit_offset": 0,
        "suspend_timeout_millis": 0,
        "subscription": "*",
        "sub_version": 0,
        "expression_type": "TAG",
    }
    return Command.request(PullMessage(**(options | more)))


@asynccontextmanager
async def running_broker(
    folder: Path,
    *,
    clock: Clock = SYSTEM_CLOCK,
    routes: Handlers | None = None,
    disk: Disk | None = None,
    **options: Any,
) -> AsyncIterator[TestBroker]:
    """A broker for the length of a block; `options` are the broker's and the store's."""
    store = {name: value for name, value in options.items() if name in _STORE_OPTIONS}
    broker = {name: value for name, value in options.items() if name not in _STORE_OPTIONS}
    defaults: dict[str, Any] = {
        "broker_cluster_name": "TestCluster",
        "broker_name": "broker-t",
        "broker_ip1": "127.0.0.1",
        "bind_address": "127.0.0.1",
        "listen_port": 0,
        "namesrv_addr": "",
    }
    running = Broker(
        BrokerConfig(**(defaults | broker)),
        StoreConfig(store_path_root_dir=str(folder), **(_SMALL | store)),
        clock=clock,
        disk=disk,
    )
    client = RemotingClient(handlers=routes)
    await running.start()
    try:
        yield TestBroker(running, client)
    finally:
        await client.close()
        await running.stop()
