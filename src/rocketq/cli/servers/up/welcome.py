"""What `rocketq up` says when it is ready: a line for programs, a few for people."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from rocketq.cli.failures import CannotStart
from rocketq.cli.version import compiled_modules, version_line
from rocketq.namesrv import NameServer

_REGISTRATION_TIMEOUT_S: Final = 30.0
_USUAL_NAME_SERVER: Final = "127.0.0.1:9876"


def announce(root: Path, *, namesrv: str, broker: str, **more: str) -> None:
    """`more` are addresses of other parts that were started too, by their names."""
    addresses = {"namesrv": namesrv, "broker": broker, **more}
    if not sys.stdout.isatty():
        words = [f"{name}={address}" for name, address in addresses.items()]
        print("ready", *words, f"pid={os.getpid()}", flush=True)
        return
    where = "" if namesrv == _USUAL_NAME_SERVER else f" -n {namesrv}"
    lines = [f"{version_line()}: ready", ""]
    names = {"namesrv": "NameServer", "grpc": "gRPC"}
    lines += [f"  {names.get(name, name):<11} {each}" for name, each in addresses.items()]
    lines += [f"  {'data':<11} {root}"]
    if not compiled_modules():
        lines += [
            "",
            "  It runs uncompiled, which is several times slower: see docs/install.md.",
        ]
    lines += [
        "",
        "Try in another terminal:",
        f'  rocketq send orders "hello"{where}',
        f"  rocketq tail orders --from earliest{where}",
        f"  rocketq topic list{where}",
        "",
        "Ctrl-C stops it; the data stays.",
    ]
    print("\n".join(lines), flush=True)


async def registered(name_server: NameServer, broker_name: str) -> None:
    """Clients that find the NameServer must find the broker too."""
    try:
        async with asyncio.timeout(_REGISTRATION_TIMEOUT_S):
            await name_server.broker_known(broker_name)
    except TimeoutError:
        raise CannotStart("the broker could not register at its NameServer") from None
