"""Ways between brokers and to the controller that can be cut, or lose all that goes over them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RemotingClient,
    RemotingServer,
    RequestCode,
)
from rocketq.remoting.headers import GetMetadataInfoResponse

_ASKED = (
    RequestCode.BROKER_HEARTBEAT,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
    RequestCode.CONTROLLER_ELECT_MASTER,
    RequestCode.CONTROLLER_REGISTER_BROKER,
    RequestCode.CONTROLLER_GET_REPLICA_INFO,
    RequestCode.CONTROLLER_GET_METADATA_INFO,
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
    RequestCode.CONTROLLER_APPLY_BROKER_ID,
)


class ControllerDetour:
    """Stands for one controller to one broker.

    Says of itself that it leads, or of the detour to the one that does.
    """

    def __init__(self, target: str, others: "Mapping[str, ControllerDetour] | None" = None) -> None:
        """`others` are the detours to all controllers, by the controllers' addresses."""
        self._others = others
        self.loses_questions = False
        self.loses_answers = False
        self._target = target
        self._ways: dict[Connection, RemotingClient] = {}
        self._closing: set[asyncio.Task[None]] = set()
        handlers: Handlers = dict.fromkeys(_ASKED, self._pass_on)
        self._server = RemotingServer(handlers, on_close=self._closed)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["ControllerDetour"]:
        await self._server.start("127.0.0.1", 0)
        try:
            yield self
        finally:
            await self._server.stop(0)
            for way in self._ways.values():
                await way.close()
            if self._closing:
                await asyncio.wait(self._closing)

    def lose_everything(self, *, is_lost: bool = True) -> None:
        self.loses_questions = self.loses_answers = is_lost

    async def cut(self) -> None:
        """End the connections, on both sides."""
        for connection in self._server.connections:
            connection.abort()

    async def _pass_on(self, request: Command, connection: Connection) -> Command | None:
        if self.loses_questions:
            await asyncio.Event().wait()
        way = self._ways.setdefault(connection, RemotingClient())
        again = Command.request(request.code, bytes(request.body), ext=request.ext_fields)
        if request.is_oneway:
            await way.call_oneway(self._target, again)
            return None
        answer = await way.call(self._target, again, 10.0)
        if self.loses_answers:
            await asyncio.Event().wait()
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            header = answer.header(GetMetadataInfoResponse)
            leader = header.controller_leader_address
            if self._others is None:
                leader = self.address
            elif leader:
                leader = self._others[leader].address
            return request.reply(replace(header, controller_leader_address=leader))
        return request.reply(
            code=answer.code,
            remark=answer.remark,
            body=bytes(answer.body),
            ext=answer.ext_fields,
        )

    def _closed(self, connection: Connection) -> None:
        way = self._ways.pop(connection, None)
        if way is not None:
            # The controller sees the end of a connection, as it would without the detour.
            task = asyncio.get_running_loop().create_task(way.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class TcpDetour:
    """A way to a server on which everything can be held up, there, back or both.

    As in a network that is split: nothing is lost for good, and nobody learns of a closed end.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._free = {True: asyncio.Event(), False: asyncio.Event()}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.hold(there=False, back=False)

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["TcpDetour"]:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield self
        finally:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await self._server.wait_closed()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def hold(self, *, there: bool = True, back: bool = True) -> None:
        for is_back, is_held in ((False, there), (True, back)):
            if is_held:
                self._free[is_back].clear()
            else:
                self._free[is_back].set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there: asyncio.StreamWriter | None = None
        host, _, port = self._target.rpartition(":")
        try:
            await self._free[False].wait()
            back, there = await asyncio.open_connection(host, int(port))
            passing = {
                asyncio.create_task(self._pass(reader, there, is_back=False)),
                asyncio.create_task(self._pass(back, writer, is_back=True)),
            }
            try:
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in passing:
                    each.cancel()
                await asyncio.gather(*passing, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
            if there is not None:
                there.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_back: bool
    ) -> None:
        with contextlib.suppress(OSError):
            data = b"."
            while data:
                data = await reader.read(65_536)
                await self._free[is_back].wait()
                writer.write(data)
                await writer.drain()


class LogDetour:
    """Where the slaves of one broker find its log: at another address of this host."""

    def __init__(self, host: str, target: str, port: int) -> None:
        self.host = host
        self.loses_log = False
        self.loses_reports = False
        self._target = target
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["LogDetour"]:
        server = await asyncio.start_server(self._accept, self.host, self._port)
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await server.wait_closed()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def lose_everything(self, *, is_lost: bool = True) -> None:
        """Lost is what comes from now on; a connection that lost something is of no use later."""
        if not is_lost and (self.loses_log or self.loses_reports):
            self.cut()
        self.loses_log = self.loses_reports = is_lost

    def cut(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there: asyncio.StreamWriter | None = None
        try:
            back, there = await asyncio.open_connection(self._target, self._port)
            passing = {
                asyncio.create_task(self._pass(reader, there, is_log=False)),
                asyncio.create_task(self._pass(back, writer, is_log=True)),
            }
            try:
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in passing:
                    each.cancel()
                await asyncio.gather(*passing, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
            if there is not None:
                there.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_log: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self.loses_log if is_log else self.loses_reports:
                    continue
                writer.write(data)
                await writer.drain()
