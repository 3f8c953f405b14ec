"""Request signing of clients: which hooks their settings ask for."""

from __future__ import annotations

from rocketq.client.config import ClientConfig
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.link.handlers import RpcHook

__all__ = ["RequestSigner", "signing_hooks"]


def signing_hooks(config: ClientConfig) -> list[RpcHook]:
    """The hooks that a client with these settings needs."""
    if not config.access_key:
        return []
    return [RequestSigner(config.access_key, config.secret_key, config.security_token)]
