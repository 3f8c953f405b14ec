"""A NameServer and brokers that answer as a test tells them: for what real ones rarely do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from rocketq.remoting import Command, Connection, RemotingServer, ServerConfig
from rocketq.remoting.bodies.heartbeat import HeartbeatData
from rocketq.remoting.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers import (
    GetRouteInfo,
    SendMessageResponse,
    SendMessageV2,
    UnregisterClient,
)

Answer = Callable[[Command], "Command | Awaitable[Command | None] | None"]


class ScriptedBroker:
    """One broker: takes every message, unless `answer` says otherwise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answer: Answer = self.accept
        self.sends: list[SendMessageV2] = []
        self.heartbeats: list[HeartbeatData] = []
        self.unregistered: list[UnregisterClient] = []
        self.connections: list[Connection] = []
        self.server = RemotingServer(
            {
                RequestCode.SEND_MESSAGE_V2: self._send,
                RequestCode.SEND_BATCH_MESSAGE: self._send,
                RequestCode.HEART_BEAT: self._heartbeat,
                RequestCode.UNREGISTER_CLIENT: self._unregister,
            },
            config=ServerConfig(),
            on_connect=self.connections.append,
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def _send(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None] | None:
        self.sends.append(request.header(SendMessageV2))
        return self.answer(request)

    def _heartbeat(self, request: Command, connection: Connection) -> Command:
        self.heartbeats.append(HeartbeatData.decode(request.body))
        return request.reply()

    def _unregister(self, request: Command, connection: Connection) -> Command:
        self.unregistered.append(request.header(UnregisterClient))
        return request.reply()

    # Answers

    def accept(self, request: Command, *, code: int = ResponseCode.SUCCESS) -> Command:
        header = request.header(SendMessageV2)
        return request.reply(
            SendMessageResponse(
                msg_id="7F000001000029F30000000000000000",
                queue_id=header.queue_id,
                queue_offset=len(self.sends) - 1,
            ),
            code=code,
        )

    def refusing(self, code: int, remark: str = "because") -> Answer:
        return lambda request: request.reply(code=code, remark=remark)

    def storing_badly(self, code: int) -> Answer:
        return lambda request: self.accept(request, code=code)

    @staticmethod
    def silent(request: Command) -> None:
        """Says nothing."""

    def slow(self, delay_s: float) -> Answer:
        async def answer(request: Command) -> Command:
            await asyncio.sleep(delay_s)
            return self.accept(request)

        return answer

    def cut_connections(self) -> None:
        for connection in self.connections:
            connection.abort()


class ScriptedCluster:
    """A NameServer that knows these brokers, each with two queues of every topic."""

    def __init__(self, *broker_names: str) -> None:
        self.brokers = {name: ScriptedBroker(name) for name in broker_names}
        self.topics: set[str] = {"topic"}
        self.asked: list[str] = []
        self.is_silent = False
        self.server = RemotingServer(
            {RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route}, config=ServerConfig()
        )

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def __getitem__(self, name: str) -> ScriptedBroker:
        return self.brokers[name]

    @property
    def sends(self) -> list[str]:
        """How often each broker was sent something, by name."""
        return sorted(broker.name for broker in self.brokers.values() for _ in broker.sends)

    def _route(self, request: Command, connection: Connection) -> Command | None:
        topic = request.header(GetRouteInfo).topic
        self.asked.append(topic)
        if self.is_silent:
            return None
        if topic not in self.topics:
            return request.reply(code=ResponseCode.TOPIC_NOT_EXIST, remark="no")
        route = TopicRouteData(
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=6)
                for name in self.brokers
            ],
            broker_datas=[
                BrokerData(cluster="c", broker_name=name, broker_addrs={0: broker.address})
                for name, broker in self.brokers.items()
            ],
        )
        return request.reply(body=route.encode())


@asynccontextmanager
async def scripted_cluster(*broker_names: str) -> AsyncIterator[ScriptedCluster]:
    cluster = ScriptedCluster(*broker_names)
    await cluster.server.start("127.0.0.1", 0)
    for broker in cluster.brokers.values():
        await broker.server.start("127.0.0.1", 0)
    try:
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            await broker.server.stop(0.0)
        await cluster.server.stop(0.0)
