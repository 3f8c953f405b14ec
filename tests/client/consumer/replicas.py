"""A master and a slave that hold the same messages of one topic, and answer consumers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rocketq.message.record.writer import new_record
from rocketq.remoting import Command, Connection, RemotingServer, ServerConfig
from rocketq.remoting.bodies.heartbeat import ConsumerIds, HeartbeatData
from rocketq.remoting.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers import (
    GetMaxOffsetResponse,
    GetMinOffsetResponse,
    GetRouteInfo,
    PullMessage,
    PullMessageResponse,
    QueryConsumerOffsetResponse,
    UpdateConsumerOffset,
)

TOPIC = "orders"
BROKER_NAME = "broker-a"


class Replica:
    """One broker of the name; it may be stopped, and come back at the same address."""

    def __init__(self, pair: "ReplicaPair", broker_id: int) -> None:
        self.broker_id = broker_id
        self.pulls = 0
        self.committed: list[int] = []
        self.suggests = 0
        self._pair = pair
        self._port = 0
        self._server: RemotingServer | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        self._server = RemotingServer(
            {
                RequestCode.PULL_MESSAGE: self._pull,
                RequestCode.LITE_PULL_MESSAGE: self._pull,
                RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
                RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
                RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._members,
                RequestCode.GET_MAX_OFFSET: lambda request, _: request.reply(
                    GetMaxOffsetResponse(offset=len(self._pair.bodies))
                ),
                RequestCode.GET_MIN_OFFSET: lambda request, _: request.reply(
                    GetMinOffsetResponse(offset=0)
                ),
                RequestCode.HEART_BEAT: self._heartbeat,
                RequestCode.UNREGISTER_CLIENT: lambda request, _: request.reply(),
            },
            config=ServerConfig(),
        )
        await self._server.start("127.0.0.1", self._port)
        self._port = self._server.port

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0.0)

    async def _pull(self, request: Command, connection: Connection) -> Command:
        header = request.header(PullMessage)
        self.pulls += 1
        offset, bodies = header.queue_offset, self._pair.bodies
        found = bodies[offset : offset + header.max_msg_nums]
        if not found:
            await asyncio.sleep(0.01)  # held for a moment
        records = [
            new_record(TOPIC.encode(), body, queue_offset=offset + number)
            for number, body in enumerate(found)
        ]
        return request.reply(
            PullMessageResponse(
                suggest_which_broker_id=self.suggests,
                next_begin_offset=offset + len(found),
                min_offset=0,
                max_offset=len(bodies),
            ),
            code=ResponseCode.SUCCESS if found else ResponseCode.PULL_NOT_FOUND,
            body=b"".join(records),
        )

    def _update_offset(self, request: Command, connection: Connection) -> Command:
        self.committed.append(request.header(UpdateConsumerOffset).commit_offset)
        return request.reply()

    def _query_offset(self, request: Command, connection: Connection) -> Command:
        offset = self.committed[-1] if self.committed else 0
        return request.reply(QueryConsumerOffsetResponse(offset=offset))

    def _heartbeat(self, request: Command, connection: Connection) -> Command:
        self._pair.clients.add(HeartbeatData.decode(request.body).client_id)
        return request.reply()

    def _members(self, request: Command, connection: Connection) -> Command:
        body = ConsumerIds(consumer_id_list=sorted(self._pair.clients))
        return request.reply(body=body.encode())


class ReplicaPair:
    """The two, and a NameServer that knows them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.clients: set[str] = set()
        self.master = Replica(self, 0)
        self.slave = Replica(self, 1)
        self.listed = [self.master, self.slave]
        """Those in the route."""
        self.name_server = RemotingServer(
            {RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route}, config=ServerConfig()
        )

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.name_server.port}"

    def _route(self, request: Command, connection: Connection) -> Command:
        if request.header(GetRouteInfo).topic != TOPIC:
            return request.reply(code=ResponseCode.TOPIC_NOT_EXIST, remark="no")
        route = TopicRouteData(
            queue_datas=[
                QueueData(broker_name=BROKER_NAME, read_queue_nums=1, write_queue_nums=1, perm=6)
            ],
            broker_datas=[
                BrokerData(
                    cluster="c",
                    broker_name=BROKER_NAME,
                    broker_addrs={each.broker_id: each.address for each in self.listed},
                )
            ],
        )
        return request.reply(body=route.encode())


@asynccontextmanager
async def replica_pair() -> AsyncIterator[ReplicaPair]:
    pair = ReplicaPair()
    await pair.name_server.start("127.0.0.1", 0)
    await pair.master.start()
    await pair.slave.start()
    try:
        yield pair
    finally:
        await pair.master.stop()
        await pair.slave.stop()
        await pair.name_server.stop(0.0)
