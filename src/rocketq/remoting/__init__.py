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
from rocketq.remoting.link.client import ClientConfig, RemotingClient, check, split_address
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.handlers import Handler, Route, Routes, RpcHook, RunRoute
from rocketq.remoting.link.server import RemotingServer, ServerConfig
from rocketq.remoting.wire.command import Command, next_opaque

__all__ = [
    "BadFrame",
    "ClientConfig",
    "Command",
    "ConnectFailed",
    "Connection",
    "ConnectionLost",
    "Handler",
    "LanguageCode",
    "RemotingClient",
    "RemotingError",
    "RemotingServer",
    "RequestCode",
    "RequestHeader",
    "RequestRejected",
    "RequestTimeout",
    "ResponseCode",
    "ResponseHeader",
    "Route",
    "Routes",
    "RpcHook",
    "RunRoute",
    "SerializeType",
    "ServerConfig",
    "TooManyRequests",
    "Version",
    "check",
    "next_opaque",
    "split_address",
]
