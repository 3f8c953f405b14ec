"""The addresses a broker tells others: real ports and numbers in place of 0 and names."""

import asyncio
import socket
from dataclasses import replace

from rocketq.broker.config import BrokerConfig
from rocketq.broker.listeners import VIP_DISTANCE


async def with_addresses(config: BrokerConfig) -> BrokerConfig:
    """The configuration with a real port and numeric addresses in it."""
    return replace(
        config,
        listen_port=config.listen_port or _free_port(config.bind_address),
        broker_ip1=await _numeric(config.broker_ip1),
        broker_ip2=await _numeric(config.broker_ip2),
    )


async def _numeric(host: str) -> str:
    """The address of a host: records and message ids have room for numbers only."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


def _free_port(host: str) -> int:
    """A port that is free, together with those for clients in a hurry and for slaves."""
    while True:
        with socket.socket() as first, socket.socket() as second, socket.socket() as third:
            first.bind((host, 0))
            port: int = first.getsockname()[1]
            try:
                second.bind((host, port - VIP_DISTANCE))
                third.bind((host, port + 1))
            except (OSError, OverflowError):
                continue
            return port
