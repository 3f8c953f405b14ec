"""The gRPC port of a broker that a command runs: whether there is one, and which."""

import importlib.util
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final

from rocketq.cli.commands import Option
from rocketq.cli.failures import CannotStart
from rocketq.cli.servers.serving import check_ports_free, started
from rocketq.common.extras import how_to_install

if TYPE_CHECKING:
    from rocketq.broker import Broker
    from rocketq.proxy.server import GrpcServer

logger = logging.getLogger(__name__)

USUAL_PORT: Final = 8081

GrpcPort = Annotated[
    int | None,
    Option(
        "--grpc-port",
        metavar="P",
        help="The port for RocketMQ 5's gRPC clients; 0 picks a free one, -1 leaves it out.",
    ),
]


def is_installed() -> bool:
    """Whether the extra `grpc` is there."""
    try:
        return importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


def wanted_port(asked: int | None, host: str) -> int | None:
    """The port that was asked for; None for none. What was asked for must be possible."""
    if asked is None or asked < 0:
        return None
    if not is_installed():
        raise CannotStart(f"--grpc-port needs protobuf: {how_to_install('grpc')}")
    check_ports_free(host, [asked])
    return asked


def usual_port(asked: int | None, host: str, broker_port: int, count: int = 1) -> int | None:
    """The same where it is on by itself: left out when it cannot be, rather than failing."""
    if asked is not None:
        return wanted_port(asked, host)
    if not is_installed():
        return None
    if broker_port == 0:
        return 0
    try:
        check_ports_free(host, range(USUAL_PORT, USUAL_PORT + count))
    except CannotStart as error:
        logger.warning("gRPC is not served: %s (--grpc-port)", error)
        return None
    return USUAL_PORT


@asynccontextmanager
async def grpc_beside(broker: "Broker", port: int | None) -> AsyncIterator["GrpcServer | None"]:
    """Serve gRPC for a broker that runs in this process, for the length of a block."""
    if port is None:
        yield None
        return
    from rocketq.proxy.server import GrpcServer, config_beside

    server = GrpcServer.beside(broker, config_beside(broker.config, port))
    async with started(server):
        yield server


def grpc_address(server: "GrpcServer | None", broker: "Broker") -> dict[str, str]:
    """Where it is, for the line that says what is ready."""
    if server is None:
        return {}
    return {"grpc": f"{broker.address.rpartition(':')[0]}:{server.port}"}
