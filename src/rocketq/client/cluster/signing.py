"""Request signing of clients: which hooks their settings ask for."""

from __future__ import annotations

from rocketq.client.config import ClientConfig
from rocketq.client.identity import Identity, identity_of
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.link.handlers import RpcHook

__all__ = ["RequestSigner", "signing_hooks"]


def signing_hooks(config: ClientConfig | Identity) -> list[RpcHook]:
    """The hooks that a client with these settings needs."""
    who = config if isinstance(config, Identity) else identity_of(config)
    if not who.access_key:
        return []
    return [RequestSigner(who.access_key, who.secret_key, who.security_token)]
