"""Networks: who belongs where, by address."""

import ipaddress

from rocketq.common.access.policy import Network
from rocketq.common.config import ConfigError


def networks(key: str, text: str) -> tuple[Network, ...]:
    """Addresses and networks separated by commas. Raises ConfigError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return tuple(ipaddress.ip_network(word, strict=False) for word in words)
    except ValueError as error:
        raise ConfigError(f"{key}={text}: {error}") from None


def is_inside(address: str, allowed: tuple[Network, ...]) -> bool:
    """Whether an address is in one of the networks; what is no address is in none."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return any((mapped or found) in network for network in allowed)
