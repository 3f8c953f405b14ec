"""Request signing (RocketMQ's ACL): who asks, proved by a shared secret.

Signed are the values of all ext fields in the order of their names, then the body:
HMAC-SHA1 with the secret key, base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from rocketq.client.config import ClientConfig
from rocketq.remoting.link.handlers import RpcHook
from rocketq.remoting.wire.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"


class RequestSigner:
    """Signs every request of a client."""

    def __init__(self, access_key: str, secret_key: str, security_token: str = "") -> None:
        self._access_key = access_key
        self._secret_key = secret_key.encode()
        self._security_token = security_token

    def before_request(self, peer: str, request: Command) -> None:
        """Add the signature to a request that is about to be sent."""
        ext_fields = request.ext_fields
        ext_fields.pop(SIGNATURE, None)
        ext_fields[ACCESS_KEY] = self._access_key
        if self._security_token:
            ext_fields[SECURITY_TOKEN] = self._security_token
        ext_fields[SIGNATURE] = self.signature(ext_fields, bytes(request.body))

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """Responses are not signed."""

    def signature(self, ext_fields: dict[str, str], body: bytes) -> str:
        """What proves that whoever sent these fields knows the secret."""
        signed = "".join(ext_fields[name] for name in sorted(ext_fields)).encode() + body
        digest = hmac.new(self._secret_key, signed, hashlib.sha1).digest()
        return base64.b64encode(digest).decode()


def signing_hooks(config: ClientConfig) -> list[RpcHook]:
    """The hooks that a client with these settings needs."""
    if not config.access_key:
        return []
    return [RequestSigner(config.access_key, config.secret_key, config.security_token)]
