"""Request signing: who asks, proved by a shared secret.

Signed are the values of all ext fields in the order of their names, then the body:
HMAC-SHA1 with the secret key, base64.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from rocketq.common.buffers import Buffer
from rocketq.remoting.hot.hmac_sha1 import block_of
from rocketq.remoting.hot.signed import SignedFields, is_match, ready_key, sign
from rocketq.remoting.wire.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
# What old clients add to a request after they have signed it.
_UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
_ZONE_PREFIX: Final = "__ZONE_"


class Secret:
    """A secret key, made ready: what HMAC does with the key alone is done once."""

    __slots__ = ("key",)

    def __init__(self, secret: bytes) -> None:
        self.key = ready_key(block_of(secret))

    def sign(self, content: Buffer) -> bytes:
        """HMAC-SHA1 in base64."""
        return sign(bytes(content), self.key)

    def has_signed(self, fields: SignedFields) -> bool:
        return is_match(fields, self.key)


def signature(ext_fields: Mapping[str, str], body: Buffer, secret: bytes | Secret) -> str:
    """What proves that whoever sent these fields knows the secret."""
    secret = secret if isinstance(secret, Secret) else Secret(secret)
    text = "".join([ext_fields[name] for name in sorted(ext_fields) if name != SIGNATURE])
    return secret.sign(text.encode("utf-8", "surrogatepass") + bytes(body)).decode()


def is_signed(request: Command, secret: bytes | Secret) -> bool:
    """Whether a request proves that its sender knows a secret.

    Clients differ in what they sign: some add fields afterwards, and Go's leaves the
    security token out. Such requests are looked at again without those fields.
    """
    fields = request.ext_fields
    given = fields.get(SIGNATURE, "")
    body = request.body
    if hmac.compare_digest(given.encode(), signature(fields, body, secret).encode()):
        return True
    late = [
        name
        for name in fields
        if name in (_UNIQUE_KEY_QUERY, SECURITY_TOKEN) or name.startswith(_ZONE_PREFIX)
    ]
    if not late:
        return False
    early = {name: value for name, value in fields.items() if name not in late}
    return hmac.compare_digest(given.encode(), signature(early, body, secret).encode())


class RequestSigner:
    """Signs every request of a client."""

    def __init__(self, access_key: str, secret_key: str, security_token: str = "") -> None:
        self._access_key = access_key
        self._secret_key = Secret(secret_key.encode())
        self._security_token = security_token

    def before_request(self, peer: str, request: Command) -> None:
        """Add the signature to a request that is about to be sent."""
        ext_fields = request.ext_fields
        ext_fields.pop(SIGNATURE, None)
        ext_fields[ACCESS_KEY] = self._access_key
        if self._security_token:
            ext_fields[SECURITY_TOKEN] = self._security_token
        ext_fields[SIGNATURE] = signature(ext_fields, request.body, self._secret_key)

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """Responses are not signed."""
