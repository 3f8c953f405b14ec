"""The remoting protocol: frames, commands, typed headers and bodies, servers and clients."""

from rocketq.remoting.codes import LanguageCode, RequestCode, ResponseCode, SerializeType, Version
from rocketq.remoting.errors import (
    BadFrame,
    ConnectFailed,
    ConnectionLost,
    RemotingError,
    RequestRejected,
    RequestTimeout,
    TooManyRequests,
)
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader
from rocketq.remoting.link.client import RemotingClient, RemotingClientConfig, check, split_address
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.handlers import Handler, Handlers, RpcHook, RunHandler
from rocketq.remoting.link.server import RemotingServer, ServerConfig
from rocketq.remoting.wire.command import Command, next_opaque

__all__ = [
    "BadFrame",
    "Command",
    "ConnectFailed",
    "Connection",
    "ConnectionLost",
    "Handler",
    "Handlers",
    "LanguageCode",
    "RemotingClient",
    "RemotingClientConfig",
    "RemotingError",
    "RemotingServer",
    "RequestCode",
    "RequestHeader",
    "RequestRejected",
    "RequestTimeout",
    "ResponseCode",
    "ResponseHeader",
    "RpcHook",
    "RunHandler",
    "SerializeType",
    "ServerConfig",
    "TooManyRequests",
    "Version",
    "check",
    "next_opaque",
    "split_address",
]
