"""Settings about users and rights, under RocketMQ's names, and what follows from them.

The configurations of servers inherit `AccessSettings`. A server makes one directory, and hands
`guards` the rules of the codes that it answers:

    directory = AccessDirectory(folder)
    directory.load()
    make_first_users(config, directory)
    server = RemotingServer(handlers, hooks=guards(config, directory, RULES, cluster="..."))
    client = RemotingClient(hooks=signing_hooks(config))
"""

from dataclasses import dataclass, field

from rocketq.common import json
from rocketq.common.access import User, UserType
from rocketq.common.config import ConfigError
from rocketq.common.numbers import INT32_MAX, parse_natural
from rocketq.remoting.access.directory import AccessDirectory
from rocketq.remoting.access.guard import AccessGuard, Guard
from rocketq.remoting.access.rules import Rules
from rocketq.remoting.access.signature import RequestSigner
from rocketq.remoting.link.handlers import RpcHook


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """Who may ask, and who we are when we ask others."""

    authentication_enabled: bool = False
    authorization_enabled: bool = False
    authentication_whitelist: str = ""
    authorization_whitelist: str = ""
    init_authentication_user: str = field(default="", repr=False)
    inner_client_authentication_credentials: str = field(default="", repr=False)

    def check_access(self) -> None:
        """Raise ConfigError unless all of it can be meant."""
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigError(
                "authorizationEnabled=true: needs authenticationEnabled=true, or anybody could "
                "say to be anybody"
            )
        self.first_user()
        self.inner_user()
        _codes("authenticationWhitelist", self.authentication_whitelist)
        _codes("authorizationWhitelist", self.authorization_whitelist)

    def first_user(self) -> tuple[str, str] | None:
        """Name and password of the first super user."""
        return _pair(
            "initAuthenticationUser", self.init_authentication_user, ("username", "password")
        )

    def inner_user(self) -> tuple[str, str] | None:
        """What servers sign their own requests with."""
        return _pair(
            "innerClientAuthenticationCredentials",
            self.inner_client_authentication_credentials,
            ("accessKey", "secretKey"),
        )


def guards(
    settings: AccessSettings, directory: AccessDirectory, rules: Rules, *, cluster: str
) -> list[Guard]:
    """The hooks of a server: none where nothing is checked."""
    if not settings.authentication_enabled:
        return []
    return [
        AccessGuard(
            directory,
            rules,
            cluster=cluster,
            authenticates=True,
            authorizes=settings.authorization_enabled,
            open_to_all=_codes("authenticationWhitelist", settings.authentication_whitelist),
            open_to_users=_codes("authorizationWhitelist", settings.authorization_whitelist),
        )
    ]


def signing_hooks(settings: AccessSettings) -> list[RpcHook]:
    """What signs a server's own requests to other servers."""
    inner = settings.inner_user()
    return [RequestSigner(*inner)] if inner is not None else []


def make_first_users(settings: AccessSettings, directory: AccessDirectory) -> None:
    """The users that the settings name, as super users, unless they are there."""
    for pair in (settings.first_user(), settings.inner_user()):
        if pair is not None and directory.user(pair[0]) is None:
            directory.put_user(User(*pair, UserType.SUPER))


def _pair(key: str, text: str, fields: tuple[str, str]) -> tuple[str, str] | None:
    if not text.strip():
        return None
    try:
        stored = json.loads(text)
        first, second = stored[fields[0]], stored[fields[1]]
    except (ValueError, TypeError, KeyError):
        first = second = None
    if not (isinstance(first, str) and isinstance(second, str) and first and second):
        raise ConfigError(f"{key}: must be JSON with the texts {fields[0]} and {fields[1]}")
    return first, second


def _codes(key: str, text: str) -> frozenset[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    codes = [parse_natural(word, INT32_MAX) for word in words]
    if None in codes:
        raise ConfigError(f"{key}={text}: must be request codes separated by commas")
    return frozenset(code for code in codes if code is not None)
