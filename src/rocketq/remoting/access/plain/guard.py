"""The guard of RocketMQ 4's accounts: every request passes here before its handler sees it.

    from a white address                        let through, whoever it is
    no account, or a wrong signature            refused
    from a white address of the account         let through without a signature
    a trace of messages                         let through
    else                                        by the account's rights

The order is RocketMQ's. What its rules leave open to every account is checked here, too.
"""

from typing import Final

from rocketq.common.access import Need
from rocketq.message import names
from rocketq.remoting.access.audit import Refusals
from rocketq.remoting.access.guard import host_of
from rocketq.remoting.access.needs import PUB
from rocketq.remoting.access.plain.accounts import Standing
from rocketq.remoting.access.plain.files import PlainFiles
from rocketq.remoting.access.rules import Rules
from rocketq.remoting.access.signature import ACCESS_KEY, is_signed
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.wire.command import Command

_REMEMBERED: Final = 10_000
_LONGEST_NAME: Final = 256


class PlainGuard:
    """A hook of a server."""

    def __init__(self, files: PlainFiles, rules: Rules) -> None:
        self._files = files
        self._rules = rules
        self._revision = -1
        self._refusals = Refusals()
        self._white: dict[str, bool] = {}
        self._decisions: dict[tuple[str, Need], str | None] = {}

    def before_request(self, peer: str, request: Command) -> None:
        if self._revision != self._files.revision:
            self._revision = self._files.revision
            self._white.clear()
            self._decisions.clear()
        host = host_of(peer)
        if self._is_white(host):
            return
        try:
            self._check(host, request)
        except RequestRejected as cause:
            self._refusals.add(peer, request, cause)
            raise

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """What was let in is answered as it is."""

    def require(self, peer: str, request: Command, need: Need) -> bool:
        standing = self._standing(request.ext_fields.get(ACCESS_KEY, ""))
        host = host_of(peer)
        if standing is None or self._is_white(host) or standing.is_white(host):
            return False
        reason = self._decision(standing, need)
        if reason is not None:
            cause = _refused(reason)
            self._refusals.add(peer, request, cause)
            raise cause
        return True

    def allows(self, user: str, peer: str, need: Need) -> bool:
        host = host_of(peer)
        if not user or self._is_white(host):
            return True
        standing = self._standing(user)
        if standing is None:
            return False
        return standing.is_white(host) or standing.refusal(need) is None

    def _standing(self, key: str) -> Standing | None:
        return self._files.account(key) if 0 < len(key) <= _LONGEST_NAME else None

    def _is_white(self, host: str) -> bool:
        known = self._white.get(host)
        if known is None:
            if len(self._white) >= _REMEMBERED:
                self._white.clear()
            known = self._white[host] = self._files.is_white(host)
        return known

    def _check(self, host: str, request: Command) -> None:
        key = request.ext_fields.get(ACCESS_KEY, "")
        if not key:
            raise _refused("No accessKey is configured")
        standing = self._standing(key)
        if standing is None:
            raise _refused(f"No acl config for {key[:_LONGEST_NAME]}")
        if standing.is_white(host):
            return
        if not is_signed(request, standing.secret):
            raise _refused(f"Check signature failed for accessKey={key}")
        rule = self._rules.get(request.code)
        if rule is None:
            if not standing.account.is_admin:
                raise _refused(f"Need admin permission for request code={request.code}")
            return
        for need in rule(request):
            if need.actions == PUB and need.name == names.TRACE_TOPIC:
                continue
            reason = self._decision(standing, need)
            if reason is not None:
                raise _refused(reason)

    def _decision(self, standing: Standing, need: Need) -> str | None:
        key = (standing.account.access_key, need)
        if key in self._decisions:
            return self._decisions[key]
        if len(self._decisions) >= _REMEMBERED:
            self._decisions.clear()
        decided = self._decisions[key] = standing.refusal(need)
        return decided


def _refused(reason: str) -> RequestRejected:
    return RequestRejected(ResponseCode.NO_PERMISSION, reason)
