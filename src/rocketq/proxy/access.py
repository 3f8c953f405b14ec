"""Who calls, and whether they may.

    authorization: MQv2-HMAC-SHA1 Credential=<user>[/...], SignedHeaders=..., Signature=<hex>

The signature is an HMAC-SHA1 of `x-mq-date-time`. Who is let in is looked up where the broker
keeps its users; what each RPC needs is said here, once.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Iterable
from typing import Any, Final, Protocol

from rocketq.common.access import Acl, Need, User, refusal
from rocketq.proxy.calls import Call
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import Refused
from rocketq.remoting.access.audit import Refusals
from rocketq.remoting.access.needs import PUB, SUB, group_need, topic_need

_LONGEST_NAME: Final = 256


class Directory(Protocol):
    """Who there is, and what they may do."""

    def user(self, name: str) -> User | Awaitable[User | None] | None: ...

    def acl(self, name: str) -> Acl | Awaitable[Acl | None] | None: ...


class GrpcAccess:
    """Looks at every call before its handler does."""

    def __init__(
        self, directory: Directory | None, *, authenticates: bool, authorizes: bool
    ) -> None:
        self._directory = directory
        self._authenticates = authenticates
        self._authorizes = authorizes
        self._refusals = Refusals()

    def check(self, rpc: str, request: Any, call: Call) -> Awaitable[None] | None:
        """Raises `Refused`; None when there is nothing to wait for."""
        if not self._authenticates:
            return None
        return self._check(rpc, request, call)

    async def _check(self, rpc: str, request: Any, call: Call) -> None:
        try:
            user = await self._authenticated(call.metadata)
            if self._authorizes and not user.is_super:
                await self._authorize(user, rpc, request, call)
        except Refused as error:
            user_name = credential(call.metadata)[0]
            self._refusals.note(rpc, call.connection.peer_address, user_name, error.text)
            raise

    async def _authenticated(self, metadata: dict[str, str]) -> User:
        name, given = credential(metadata)
        if not name:
            raise _unauthorized("username cannot be null.")
        assert self._directory is not None
        user: User | None = None
        if len(name) <= _LONGEST_NAME:
            user = await _now_or_later(self._directory.user(name))
        if user is None:
            raise _unauthorized(f"User:{name[:_LONGEST_NAME]} is not found.")
        if not user.is_enabled:
            raise _unauthorized(f"User:{name} is disabled.")
        text = metadata.get("x-mq-date-time", "").encode("latin-1")
        wanted = hmac.digest(user.password.encode(), text, hashlib.sha1).hex()
        if not hmac.compare_digest(given.lower().encode("latin-1"), wanted.encode()):
            raise _unauthorized("check signature failed.")
        return user

    async def _authorize(self, user: User, rpc: str, request: Any, call: Call) -> None:
        assert self._directory is not None
        acl = await _now_or_later(self._directory.acl(user.name))
        for need in needs(rpc, request):
            reason = refusal(user, acl, need, call.peer[0])
            if reason is not None:
                raise _unauthorized(reason)


async def _now_or_later(found: Any) -> Any:
    if asyncio.isfuture(found) or hasattr(found, "__await__"):
        return await found
    return found


def _unauthorized(reason: str) -> Refused:
    return Refused(pb.UNAUTHORIZED, reason)


def credential(metadata: dict[str, str]) -> tuple[str, str]:
    """User and signature that a call claims; empty where it claims nothing."""
    rest = metadata.get("authorization", "").partition(" ")[2]
    fields = {}
    for part in rest.split(","):
        name, _, value = part.strip().partition("=")
        fields[name] = value
    return fields.get("Credential", "").partition("/")[0], fields.get("Signature", "")


def needs(rpc: str, request: Any) -> Iterable[Need]:
    """What a call has to be allowed to do."""
    if rpc == "SendMessage":
        names = {message.topic.name for message in request.messages}
        return [topic_need(name, PUB) for name in names]
    if rpc in ("RecallMessage", "EndTransaction"):
        return [topic_need(request.topic.name, PUB)]
    if rpc == "QueryRoute":
        return [topic_need(request.topic.name, PUB | SUB)]
    if rpc in (
        "QueryAssignment",
        "AckMessage",
        "ForwardMessageToDeadLetterQueue",
        "ChangeInvisibleDuration",
        "SyncLiteSubscription",
    ):
        return [group_need(request.group.name, SUB), topic_need(request.topic.name, SUB)]
    if rpc in ("ReceiveMessage", "PullMessage", "UpdateOffset", "GetOffset"):
        return [
            group_need(request.group.name, SUB),
            topic_need(request.message_queue.topic.name, SUB),
        ]
    if rpc == "QueryOffset":
        return [topic_need(request.message_queue.topic.name, SUB)]
    if rpc == "Heartbeat":
        return [] if request.client_type == pb.PRODUCER else [group_need(request.group.name, SUB)]
    if rpc == "NotifyClientTermination":
        return [group_need(request.group.name, SUB)] if request.group.name.strip() else []
    if rpc == "Telemetry":
        return _telemetry_needs(request)
    raise _unauthorized(f"{rpc} is for super users")


def _telemetry_needs(command: Any) -> Iterable[Need]:
    if command.WhichOneof("command") != "settings":
        return
    settings = command.settings
    for topic in settings.publishing.topics:
        yield topic_need(topic.name, PUB)
    if settings.HasField("subscription"):
        yield group_need(settings.subscription.group.name, SUB)
        for entry in settings.subscription.subscriptions:
            yield topic_need(entry.topic.name, SUB)
