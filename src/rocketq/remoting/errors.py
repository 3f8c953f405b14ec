"""What can go wrong between two programs."""

from typing import ClassVar

from rocketq.common.errors import RocketqError
from rocketq.remoting.codes import ResponseCode

_KNOWN = frozenset(ResponseCode)


class RemotingError(RocketqError):
    """The root of this package's errors."""


class ConnectFailed(RemotingError):
    """No connection to the address, or not in time."""

    retriable: ClassVar[bool] = True


class ConnectionLost(RemotingError):
    """The connection went down before the answer came: it may or may not have been done."""

    retriable: ClassVar[bool] = True


class RequestTimeout(RemotingError):
    """No answer in time: it may or may not have been done."""

    retriable: ClassVar[bool] = True


class TooManyRequests(RemotingError):
    """As many requests are under way as this client may have."""

    retriable: ClassVar[bool] = True


class BadFrame(RemotingError):
    """Bytes that are no frame of this protocol; the connection they came on is closed."""


class RequestRejected(RemotingError):
    """Understood and refused: raised in a server, and again in its client."""

    def __init__(self, code: int, remark: str | None) -> None:
        name = ResponseCode(code).name if code in _KNOWN else f"code {code}"
        super().__init__(f"{name}: {remark}")
        self.code = code
        self.remark = remark or ""
