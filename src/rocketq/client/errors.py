"""Everything the SDK raises on purpose, below one root.

    RocketqError
    └── ClientError
        ├── ClientClosed, ClientNotStarted, InvalidState, ForkedClient    the wrong time
        ├── InvalidMessage, InvalidSettings, GroupInUse, MissingListener  the wrong arguments
        ├── NoNameServer, NameServersUnavailable, NoBroker, NoRoute,
        │   BrokerUnknown                                                 nobody to talk to
        ├── BrokerRejected (also a RequestRejected)                       the server said no
        ├── SendFailed, SendTimeout, TooManyPending                       a send failed
        └── ReplyTimeout                                                  no reply came

`retriable` says whether the same call may succeed later without anything being changed.
Connection errors of the layer below (`ConnectFailed`, `ConnectionLost`, `RequestTimeout`)
are `RocketqError`s too and keep their own names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rocketq.common.errors import RocketqError
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected

# Answers after which another broker, or the same one later, may well take the message.
RETRY_CODES: Final = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})


class ClientError(RocketqError):
    """The root of what producers and consumers raise."""


class ClientClosed(ClientError):
    """The client was closed; what it had accepted is sent or reported by then."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is closed: make a new one to go on")


class ClientNotStarted(ClientError):
    """A call came before `start()`."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not started: call start(), or use it in a `with` (`async with`) block"
        )


class InvalidState(ClientError):
    """Calls that exclude each other, or came in the wrong order."""


class ForkedClient(ClientError):
    """A client made before a fork was used in the child process."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} was made in another process: connections and their loop thread do not "
            "survive a fork. Make the client after the fork (in multiprocessing: in the worker, "
            "or with the 'spawn' start method)"
        )


class InvalidSettings(ClientError, ValueError):
    """An option that cannot work, named with what is allowed."""


class InvalidMessage(ClientError, ValueError):
    """A message the broker would refuse, refused before it is sent."""


class GroupInUse(ClientError):
    """Two producers, or two consumers, of one group in one client instance."""

    def __init__(self, kind: str, group: str, client_id: str) -> None:
        super().__init__(
            f"the {kind} group {group!r} is already used in client {client_id!r}: close the "
            f"other {kind}, or give this one an instance_name of its own"
        )


class MissingListener(ClientError):
    """A client that calls back was started with nothing to call."""


class NoNameServer(ClientError):
    """No NameServer address was given."""

    def __init__(self) -> None:
        super().__init__(
            "no NameServer address: pass namesrv='host:9876' (several: 'a:9876;b:9876') "
            "or set the environment variable NAMESRV_ADDR"
        )


class NameServersUnavailable(ClientError):
    """None of the NameServers answered."""

    retriable = True

    def __init__(self, causes: Mapping[str, BaseException]) -> None:
        tried = "; ".join(f"{address}: {cause}" for address, cause in causes.items())
        super().__init__(f"no NameServer answered ({tried})")
        self.causes = dict(causes)


class NoBroker(ClientError):
    """The NameServers know no broker at all: none is started, or all are restarting."""

    retriable = True

    def __init__(self, name_servers: Sequence[str]) -> None:
        super().__init__(
            f"no broker is registered at {', '.join(name_servers)}: start one, or wait until it "
            "is back"
        )


class NoRoute(ClientError):
    """The NameServers know no broker that serves the topic."""

    def __init__(
        self, topic: str, name_servers: Sequence[str], *, template: str | None = None
    ) -> None:
        reason = (
            f"no broker serves topic {topic!r} (NameServers asked: {', '.join(name_servers)}). "
        )
        if template is not None:
            reason += (
                f"It is not created automatically either: no broker serves {template}, so "
                "autoCreateTopicEnable=false. "
            )
        reason += f"Create it (rocketq admin updateTopic -t {topic} -c CLUSTER), or check its name"
        super().__init__(reason)
        self.topic = topic
        self.name_servers = tuple(name_servers)
        self.template = template


class BrokerUnknown(ClientError):
    """A broker is named, but no route gives its address (it may be restarting)."""

    retriable = True

    def __init__(self, broker_name: str) -> None:
        super().__init__(f"no address known for broker {broker_name!r}: it is down or not yet back")
        self.broker_name = broker_name


class BrokerRejected(RequestRejected, ClientError):
    """A server understood a request and refused it."""

    def __init__(self, code: int, remark: str, *, address: str, request: str) -> None:
        name = _code_name(code)
        ClientError.__init__(self, f"{address} answered {request} with {name}: {remark}")
        self.code = code
        self.remark = remark
        self.address = address
        self.request = request
        self.retriable = code in RETRY_CODES  # type: ignore[misc]  # one class, many codes


class SendFailed(ClientError):
    """Every attempt to send a message failed; the last failure is the `__cause__`."""

    def __init__(
        self, topic: str, attempts: Sequence[tuple[str, BaseException]], elapsed_s: float
    ) -> None:
        # The same failure again is no news.
        tried = "; ".join(dict.fromkeys(f"{broker}: {cause}" for broker, cause in attempts))
        super().__init__(
            f"sent {len(attempts)} times to topic {topic!r} without success in "
            f"{elapsed_s * 1000:.0f} ms ({tried})"
        )
        self.topic = topic
        self.attempts = tuple(attempts)
        self.retriable = all(  # type: ignore[misc]  # depends on what went wrong
            getattr(cause, "retriable", False) for _, cause in attempts
        )


class SendTimeout(ClientError):
    """The time for a send ran out before an attempt could be made."""

    retriable = True

    def __init__(self, topic: str, timeout_s: float) -> None:
        super().__init__(
            f"no time left for a send to topic {topic!r}: its {timeout_s * 1000:.0f} ms were used "
            "up by the route lookup or by earlier attempts. Raise send_timeout_s for slow brokers"
        )
        self.topic = topic


class TooManyPending(ClientError):
    """More unanswered sends than the producer may hold."""

    retriable = True

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} sends are waiting for their answers: wait for some of them "
            "(await the futures, or use `await send`), or raise max_pending_sends"
        )


class ReplyTimeout(ClientError):
    """Nobody answered a request message in time."""

    retriable = True

    def __init__(self, topic: str, correlation_id: str, elapsed_s: float) -> None:
        super().__init__(
            f"no reply to the request sent to topic {topic!r} after {elapsed_s * 1000:.0f} ms "
            f"(correlation id {correlation_id}): is a consumer running that replies?"
        )
        self.topic = topic
        self.correlation_id = correlation_id


def _code_name(code: int) -> str:
    try:
        return f"{ResponseCode(code).name} ({code})"
    except ValueError:
        return f"code {code}"
