"""A task's own connection to a broker: blocking, with as few copies as there can be.

A pull answers with some megabytes of records. They are received in one piece into the buffer that
they are then decoded from; the event loop of the SDK would copy them twice more, and take turns
with the thread that decodes. Requests may be sent ahead: the answers wait in the kernel's buffer.
The batches of a sink go the same way.

Encrypted, there is one copy more, and waiting is done with `poll`: a part of a record in the
kernel's buffer is no answer yet.

Not for anything else: nobody answers requests of the broker here.
"""

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from rocketq.common.buffers import Buffer, unfilled
from rocketq.remoting.errors import BadFrame, ConnectFailed, ConnectionLost, RequestTimeout
from rocketq.remoting.link.client import split_address
from rocketq.remoting.link.handlers import RpcHook
from rocketq.remoting.tls import ClientTls
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.frame import FrameSplitter

_LENGTH: Final = struct.Struct(">i")
_TIMEVAL: Final = struct.Struct("@ll")
_FRAME_LIMIT: Final = 64 << 20
_CONNECT_WITHIN_S: Final = 10.0
_WAITING_IN_KERNEL: Final = 4 << 20
_RECORD: Final = 16 << 10
_AT_ONCE: Final = 64 << 10


class BrokerSocket:
    """Belongs to one thread."""

    def __init__(self, address: str, hooks: Sequence[RpcHook], timeout_s: float) -> None:
        self.address = address
        self._hooks = hooks
        self._timeout_s = timeout_s
        self._early: deque[Command] = deque()  # answers that came while requests were sent
        try:
            self._socket = socket.create_connection(split_address(address), _CONNECT_WITHIN_S)
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {address}: {error}") from None
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _WAITING_IN_KERNEL)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._prepare()
        self._room = select.poll()
        self._room.register(self._socket, select.POLLIN | select.POLLOUT)
        self._answer = select.poll()
        self._answer.register(self._socket, select.POLLIN)

    def _prepare(self) -> None:
        # The kernel keeps the time, so that one call can wait for a whole answer.
        timeout_s = self._timeout_s
        limit = _TIMEVAL.pack(int(timeout_s), int(timeout_s % 1 * 1_000_000))
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def send(self, request: Command) -> None:
        """Send a request; `receive` gives its answer some time.

        A broker that cannot get rid of its answers stops reading: they are taken in meanwhile.
        """
        self.send_all((request,))

    def send_all(self, requests: Sequence[Command]) -> None:
        """The same for several, which leave together."""
        parts: list[Buffer] = []
        for request in requests:
            for hook in self._hooks:
                hook.before_request(self.address, request)
            parts += request.encode()
        left = memoryview(b"".join(parts))
        while left:
            try:
                left = left[self._send_some(left) :]
            except BlockingIOError:
                self._wait_for_room()
            except OSError as error:
                raise self._failed(error) from None

    def _send_some(self, data: memoryview) -> int:
        """As much as there is room for; raises BlockingIOError where there is none."""
        return self._socket.send(data, socket.MSG_DONTWAIT)

    def _wait_for_room(self) -> None:
        found = self._room.poll(self._timeout_s * 1_000)
        if not found:
            raise RequestTimeout(f"{self.address} has stopped reading")
        ((_, events),) = found
        if events & select.POLLIN:
            self._early.append(self._receive())

    def has_answer(self) -> bool:
        """Whether `receive` need not wait: something has come, if only the end."""
        return bool(self._early or self._answer.poll(0))

    def receive(self) -> Command:
        """The next answer, whichever request it belongs to."""
        return self._early.popleft() if self._early else self._receive()

    def _receive(self) -> Command:
        head = bytearray(_LENGTH.size)
        self._fill(memoryview(head))
        (length,) = _LENGTH.unpack(head)
        if not 4 <= length <= _FRAME_LIMIT:
            raise BadFrame(f"frame of length {length} from {self.address}")
        frame = unfilled(_LENGTH.size + length)
        frame[: _LENGTH.size] = head
        self._fill(memoryview(frame)[_LENGTH.size :])
        splitter = FrameSplitter(_FRAME_LIMIT + _LENGTH.size)
        (answer,) = splitter.feed(frame) or (None,)
        if answer is None:
            raise splitter.error or BadFrame(f"no frame from {self.address}")
        return answer

    def _fill(self, space: memoryview) -> None:
        while space:
            try:
                count = self._socket.recv_into(space, 0, socket.MSG_WAITALL)
            except OSError as error:
                raise self._failed(error) from None
            if count == 0:
                raise ConnectionLost(f"{self.address} has closed the connection")
            space = space[count:]

    def _failed(self, error: OSError) -> ConnectionLost | RequestTimeout:
        if isinstance(error, BlockingIOError):
            return RequestTimeout(f"no answer from {self.address} in time")
        return ConnectionLost(f"connection to {self.address} lost: {error}")

    def close(self) -> None:
        self._socket.close()


class AnswerSocket(BrokerSocket):
    """For many small answers: as many as have come are taken in at once."""

    def __init__(self, address: str, hooks: Sequence[RpcHook], timeout_s: float) -> None:
        self._splitter = FrameSplitter(_FRAME_LIMIT + _LENGTH.size)
        super().__init__(address, hooks, timeout_s)

    def _receive(self) -> Command:
        while not self._early:
            try:
                data = self._socket.recv(_AT_ONCE)
            except OSError as error:
                raise self._failed(error) from None
            if not data:
                raise ConnectionLost(f"{self.address} has closed the connection")
            self._early.extend(self._splitter.feed(data) or ())
            if self._splitter.error is not None:
                raise self._splitter.error
        return self._early.popleft()


class EncryptedSocket(BrokerSocket):
    """The same over TLS."""

    def __init__(
        self, address: str, hooks: Sequence[RpcHook], timeout_s: float, tls: ClientTls
    ) -> None:
        self._context = tls.context()
        self._ahead = b""  # decrypted, and nobody has asked for it yet
        super().__init__(address, hooks, timeout_s)

    def _prepare(self) -> None:
        host, _ = split_address(self.address)
        try:
            self._socket.settimeout(_CONNECT_WITHIN_S)
            self._tls = self._context.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            self._socket.close()
            raise ConnectFailed(f"cannot connect to {self.address}: {error}") from None
        self._socket = self._tls
        self._socket.setblocking(False)

    def _send_some(self, data: memoryview) -> int:
        try:
            return self._socket.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def _wait_for_room(self) -> None:
        """Room is waited for alone if what came is no whole record."""
        found = self._room.poll(self._timeout_s * 1_000)
        if not found:
            raise RequestTimeout(f"{self.address} has stopped reading")
        ((_, events),) = found
        if events & select.POLLIN and self._has_more():
            self._early.append(self._receive())
        elif not events & select.POLLOUT:
            self._answer.poll(1)

    def has_answer(self) -> bool:
        return bool(self._early) or self._has_more()

    def _has_more(self) -> bool:
        """Whether something of an answer is there, or the end."""
        if self._ahead or self._tls.pending():
            return True
        if not self._answer.poll(0):
            return False
        try:
            self._ahead = self._tls.recv(_RECORD)
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True  # whoever receives sees it, too
        return True

    def _fill(self, space: memoryview) -> None:
        if self._ahead:
            taken = min(len(self._ahead), len(space))
            space[:taken] = self._ahead[:taken]
            self._ahead = self._ahead[taken:]
            space = space[taken:]
        deadline = time.monotonic() + self._timeout_s
        while space:
            try:
                count = self._tls.recv_into(space)
            except ssl.SSLWantReadError:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self._answer.poll(left_s * 1_000):
                    raise RequestTimeout(f"no answer from {self.address} in time") from None
                continue
            except OSError as error:
                raise self._failed(error) from None
            if count == 0:
                raise ConnectionLost(f"{self.address} has closed the connection")
            space = space[count:]
