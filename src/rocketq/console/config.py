"""How a console is started."""

from dataclasses import dataclass

USUAL_PORT = 8082  # RocketMQ's dashboard has it, too


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """`hosts` are further names in a URL that mean this console, beside where it listens."""

    name_servers: str
    host: str = "127.0.0.1"
    port: int = USUAL_PORT
    read_only: bool = False
    always_login: bool = False
    hosts: tuple[str, ...] = ()
