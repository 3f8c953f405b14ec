"""From settings to a guard: who is made at the start, and what is checked then."""

from rocketq.broker.access.directory import AccessDirectory
from rocketq.broker.access.rules import BROKER_RULES
from rocketq.broker.config import BrokerConfig
from rocketq.common import json
from rocketq.common.access import User, UserType
from rocketq.common.config import ConfigError
from rocketq.common.numbers import INT32_MAX, parse_natural
from rocketq.remoting.access import AccessGuard, RequestSigner
from rocketq.remoting.link.handlers import RpcHook


def guards(config: BrokerConfig, directory: AccessDirectory) -> list[RpcHook]:
    """The hooks of the broker's servers: none where nothing is checked."""
    if not config.authentication_enabled:
        return []
    return [
        AccessGuard(
            directory,
            BROKER_RULES,
            authenticates=True,
            authorizes=config.authorization_enabled,
            open_to_all=_codes("authenticationWhitelist", config.authentication_whitelist),
            open_to_users=_codes("authorizationWhitelist", config.authorization_whitelist),
        )
    ]


def signing_hooks(config: BrokerConfig) -> list[RpcHook]:
    """What signs the broker's own requests to NameServers and other brokers."""
    inner = _pair(
        "innerClientAuthenticationCredentials",
        config.inner_client_authentication_credentials,
        ("accessKey", "secretKey"),
    )
    return [RequestSigner(*inner)] if inner is not None else []


def make_first_users(config: BrokerConfig, directory: AccessDirectory) -> None:
    """The users that the settings name, as super users, unless they are there."""
    named = (
        _pair("initAuthenticationUser", config.init_authentication_user, ("username", "password")),
        _pair(
            "innerClientAuthenticationCredentials",
            config.inner_client_authentication_credentials,
            ("accessKey", "secretKey"),
        ),
    )
    for pair in named:
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
