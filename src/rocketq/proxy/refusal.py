"""Requests that are refused: one exception, and the codes that remoting's become."""

from typing import Any, Final

from rocketq.common.errors import RocketqError
from rocketq.proxy.protocol import messages as pb
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.errors import RequestRejected, RequestTimeout, TooManyRequests


class Refused(RocketqError):
    """Becomes the status of the answer, with a code of RocketMQ's gRPC protocol."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{pb.code_name(code)}: {text}")
        self.code = code
        self.text = text

    @property
    def status(self) -> Any:
        return pb.Status(code=self.code, message=self.text or pb.code_name(self.code))


OK: Final = pb.Status(code=pb.OK, message="OK")

_CODES: Final = {
    int(ResponseCode.SUCCESS): pb.OK,
    int(ResponseCode.SYSTEM_BUSY): pb.TOO_MANY_REQUESTS,
    int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED): pb.NOT_IMPLEMENTED,
    int(ResponseCode.TOPIC_NOT_EXIST): pb.TOPIC_NOT_FOUND,
    int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST): pb.CONSUMER_GROUP_NOT_FOUND,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): pb.MASTER_PERSISTENCE_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): pb.SLAVE_PERSISTENCE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): pb.HA_NOT_AVAILABLE,
    int(ResponseCode.NO_PERMISSION): pb.FORBIDDEN,
    int(ResponseCode.SUBSCRIPTION_PARSE_FAILED): pb.ILLEGAL_FILTER_EXPRESSION,
    int(ResponseCode.POLLING_FULL): pb.TOO_MANY_REQUESTS,
}


def code_of(remoting_code: int) -> int:
    return int(_CODES.get(remoting_code, pb.INTERNAL_SERVER_ERROR))


def refusal_of(reply: Command) -> Refused:
    """Why a broker said no."""
    return Refused(code_of(reply.code), reply.remark or f"code {reply.code}")


def refusal_for(error: RocketqError) -> Refused:
    """What an error on the way to a broker is to the client."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, RequestRejected):
        return Refused(code_of(error.code), error.remark or str(error))
    if isinstance(error, RequestTimeout):
        return Refused(pb.PROXY_TIMEOUT, str(error))
    if isinstance(error, TooManyRequests):
        return Refused(pb.TOO_MANY_REQUESTS, str(error))
    return Refused(pb.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


def common_status(statuses: list[Any]) -> Any:
    """The status of an answer with several parts: that of all, or MULTIPLE_RESULTS."""
    first = statuses[0]
    if all(each.code == first.code for each in statuses):
        return first
    return pb.Status(code=pb.MULTIPLE_RESULTS, message="MULTIPLE_RESULTS")
