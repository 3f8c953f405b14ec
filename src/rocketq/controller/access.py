"""Who may ask a controller: the users that its settings name, and nobody else.

Brokers and administrators are all that speak to a controller, so there are no policies: a user
may everything. Brokers sign with their `innerClientAuthenticationCredentials`.
"""

from rocketq.common import json
from rocketq.common.access import Acl, User, UserType
from rocketq.common.config import ConfigError
from rocketq.controller.config import ControllerConfig
from rocketq.remoting.access import AccessGuard, RequestSigner
from rocketq.remoting.link.handlers import RpcHook


class NamedUsers:
    """The users of the settings. They do not change while a controller runs."""

    def __init__(self, users: dict[str, User]) -> None:
        self._users = users

    @property
    def revision(self) -> int:
        return 0

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    def acl(self, name: str) -> Acl | None:
        return None


def guards(config: ControllerConfig) -> list[RpcHook]:
    """The hooks of the server: none where nothing is checked."""
    pairs = [pair for pair in (_first_user(config), _inner_user(config)) if pair is not None]
    if not config.authentication_enabled:
        return []
    if not pairs:
        raise ConfigError(
            "authenticationEnabled: must have a user, in initAuthenticationUser or "
            "innerClientAuthenticationCredentials"
        )
    users = {name: User(name, password, UserType.SUPER) for name, password in pairs}
    return [AccessGuard(NamedUsers(users), {}, authenticates=True, authorizes=True)]


def signers(config: ControllerConfig) -> list[RpcHook]:
    """What signs the notices to brokers."""
    inner = _inner_user(config)
    return [RequestSigner(*inner)] if inner is not None else []


def _first_user(config: ControllerConfig) -> tuple[str, str] | None:
    return _pair(
        "initAuthenticationUser", config.init_authentication_user, ("username", "password")
    )


def _inner_user(config: ControllerConfig) -> tuple[str, str] | None:
    return _pair(
        "innerClientAuthenticationCredentials",
        config.inner_client_authentication_credentials,
        ("accessKey", "secretKey"),
    )


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
