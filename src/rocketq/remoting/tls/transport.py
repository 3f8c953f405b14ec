"""TLS between a transport and the protocol above it, for either side of a connection.

Below it is a protocol that gets what the socket brings; above it is a transport that a
`Connection` writes to. Nothing of it is in the way of connections that are not encrypted.

All that one read brings is decrypted and handed up in one piece, and all that one write brings
is encrypted and written at once: turns and batches stay what they are without encryption, and
so does back-pressure, which is the socket's own.

The event loop's own TLS cannot be used here: which byte a connection begins with is known only
after it was read, and loops give no way to hand it over.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from rocketq.common.buffers import Buffer

logger = logging.getLogger(__name__)

_READ_SIZE: Final = 256 * 1024
# A handshake with certificates of a long chain takes some tens of kilobytes.
_HANDSHAKE_LIMIT: Final = 256 * 1024


class Above(Protocol):
    """What uses the connection: the parts of `asyncio.Protocol` that are called."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...


class TlsTransport(asyncio.Transport):
    """One encrypted connection: an `asyncio.Protocol` below, an `asyncio.Transport` above."""

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_name: str | None = None,
        on_step: Callable[["TlsTransport"], None] | None = None,
        on_done: Callable[["TlsTransport", Exception | None], None],
    ) -> None:
        """`on_done` is told once: that the handshake is through, or why it is not.

        `on_step`, where given, is told that a step of the handshake can be made, and decides
        when: it calls `step`.
        """
        super().__init__()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_name
        )
        self._on_step = on_step
        self._on_done: Callable[[TlsTransport, Exception | None], None] | None = on_done
        self._below: asyncio.Transport | None = None
        self._above: Above | None = None
        self._is_through = False
        self._is_ended = False  # we have said that nothing more comes
        self._received = 0  # in the handshake

    # The handshake

    def step(self) -> None:
        """Go on with the handshake."""
        if self._on_done is None or self._below is None or self._below.is_closing():
            return
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._write_out()
            return
        except (ssl.SSLError, ValueError) as error:
            self._write_out()  # the alert that tells the other side why
            self._failed(error)
            return
        self._write_out()
        self._is_through = True
        done, self._on_done = self._on_done, None
        done(self, None)
        if self._above is not None:
            self._decrypt()

    def carry(self, above: Above) -> None:
        """Hand the connection to whoever uses it; called when the handshake is through."""
        self._above = above
        above.connection_made(self)

    def _failed(self, error: Exception) -> None:
        """The other side's doing, or that of its certificate: the end of the connection."""
        done, self._on_done = self._on_done, None
        if done is not None:
            done(self, error)
        if self._below is not None:
            self._below.close()

    # Called by what is below

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = transport  # type: ignore[assignment]
        self.step()  # a client says hello

    def data_received(self, data: bytes) -> None:
        if self._is_ended and self._above is None:
            return
        self._incoming.write(data)
        if self._is_through:
            self._decrypt()
            return
        self._received += len(data)
        if self._received > _HANDSHAKE_LIMIT:
            self._failed(ConnectionError("too long a handshake"))
        elif self._on_step is not None:
            self._on_step(self)
        else:
            self.step()

    def eof_received(self) -> bool | None:
        return self._above.eof_received() if self._above is not None else None

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        done, self._on_done = self._on_done, None
        if done is not None:
            done(self, error or ConnectionError("closed in the handshake"))
        if self._above is not None:
            self._above.connection_lost(error)

    def _decrypt(self) -> None:
        parts = []
        has_ended = False
        try:
            while part := self._ssl.read(_READ_SIZE):
                parts.append(part)
            has_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            if not self._is_ended:
                logger.info("%s: %s", self.get_extra_info("peername"), error)
            has_ended = True
        if self._outgoing.pending:
            self._write_out()
        assert self._above is not None
        if parts:
            self._above.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        if has_ended and self._below is not None and not self._below.is_closing():
            self._above.eof_received()
            self.close()

    # Called by what is above

    def write(self, data: Buffer) -> None:
        self._encrypt(data)
        self._write_out()

    def writelines(self, parts: Iterable[Buffer]) -> None:
        for part in parts:
            self._encrypt(part)
        self._write_out()

    def _encrypt(self, data: Buffer) -> None:
        if self._is_ended or self.is_closing():
            return
        left = memoryview(data)
        try:
            while left:
                left = left[self._ssl.write(left) :]
        except ssl.SSLError as error:
            logger.info("%s: %s", self.get_extra_info("peername"), error)
            self.abort()

    def _write_out(self) -> None:
        if self._below is not None and self._outgoing.pending:
            self._below.write(self._outgoing.read())

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._end()
        if self._below is not None:
            self._below.write_eof()

    def close(self) -> None:
        if self._below is not None and not self._below.is_closing():
            self._end()
            self._below.close()

    def _end(self) -> None:
        """Tell the other side that nothing more comes, so that nobody else can cut it short."""
        if self._is_ended or not self._is_through:
            return
        self._is_ended = True
        try:
            self._ssl.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # its own goodbye has not come yet, and is not waited for
        self._write_out()

    def abort(self) -> None:
        if self._below is not None:
            self._below.abort()

    def is_closing(self) -> bool:
        return self._below is None or self._below.is_closing()

    def is_reading(self) -> bool:
        return self._below is not None and self._below.is_reading()

    def pause_reading(self) -> None:
        assert self._below is not None
        self._below.pause_reading()

    def resume_reading(self) -> None:
        assert self._below is not None
        self._below.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert self._below is not None
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._below is None else self._below.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._ssl
        return default if self._below is None else self._below.get_extra_info(name, default)
