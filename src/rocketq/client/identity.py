"""Who a client is, and how it encrypts, where the program does not say so.

What the program says counts first, then the environment, then a file, so that no secret has to
be in a program or on a command line:

    ROCKETQ_ACCESS_KEY           accessKey
    ROCKETQ_SECRET_KEY           secretKey
    ROCKETQ_SECURITY_TOKEN       securityToken
    ROCKETQ_TLS                  tls.enable
    ROCKETQ_TLS_TRUST            tls.client.trustCertPath
    ROCKETQ_TLS_CERTIFICATE      tls.client.certPath
    ROCKETQ_TLS_KEY              tls.client.keyPath
    ROCKETQ_TLS_KEY_PASSWORD     tls.client.keyPassword
    ROCKETQ_TLS_CHECK_HOSTNAME   tls.client.checkHostname

The file is a `.properties` file, or a `.yml` one of the same plain lines, as RocketMQ's
`conf/tools.yml` is; `ROCKETQ_CLIENT_CONFIG` names it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketq.client.errors import InvalidSettings
from rocketq.common.config import parse_properties
from rocketq.remoting.tls.certificates import ClientTls

if TYPE_CHECKING:
    from rocketq.client.config import ClientConfig

CONFIG_FILE: Final = "ROCKETQ_CLIENT_CONFIG"

# The option of the SDK, the variable, the key in the file.
_NAMES: Final = (
    ("access_key", "ROCKETQ_ACCESS_KEY", "accessKey"),
    ("secret_key", "ROCKETQ_SECRET_KEY", "secretKey"),
    ("security_token", "ROCKETQ_SECURITY_TOKEN", "securityToken"),
)
_TLS_NAMES: Final = (
    ("tls", "ROCKETQ_TLS", "tls.enable"),
    ("tls_trust", "ROCKETQ_TLS_TRUST", "tls.client.trustCertPath"),
    ("tls_certificate", "ROCKETQ_TLS_CERTIFICATE", "tls.client.certPath"),
    ("tls_key", "ROCKETQ_TLS_KEY", "tls.client.keyPath"),
    ("tls_key_password", "ROCKETQ_TLS_KEY_PASSWORD", "tls.client.keyPassword"),
    ("tls_check_hostname", "ROCKETQ_TLS_CHECK_HOSTNAME", "tls.client.checkHostname"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What requests are signed with and connections encrypted with; nothing where it is off."""

    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    tls: ClientTls | None = None


def identity_of(config: ClientConfig, environment: Mapping[str, str] | None = None) -> Identity:
    """Everything about it; raises InvalidSettings for halves of a pair."""
    environment = os.environ if environment is None else environment
    path = environment.get(CONFIG_FILE, "")
    file = read_client_file(Path(path)) if path else {}
    # Who is named in one place is not signed for with a secret of another.
    keys = (
        {name: getattr(config, name) for name, _, _ in _NAMES},
        {name: environment.get(variable, "") for name, variable, _ in _NAMES},
        {name: file.get(key, "") for name, _, key in _NAMES},
    )
    found = next((each for each in keys if each["access_key"] or each["secret_key"]), keys[0])
    if bool(found["access_key"]) != bool(found["secret_key"]):
        raise InvalidSettings("access key and secret key go together: one of them is missing")
    ways = (
        {name: getattr(config, name) for name, _, _ in _TLS_NAMES},
        {name: environment.get(variable, "") for name, variable, _ in _TLS_NAMES},
        {name: file.get(key, "") for name, _, key in _TLS_NAMES},
    )
    return Identity(**found, tls=next((tls for tls in map(_tls, ways) if tls is not None), None))


def _tls(settings: Mapping[str, str | bool]) -> ClientTls | None:
    if not _is_true(settings["tls"]):
        return None
    return ClientTls(
        trust=str(settings["tls_trust"]),
        certificate=str(settings["tls_certificate"]),
        key=str(settings["tls_key"]),
        key_password=str(settings["tls_key_password"]),
        check_hostname=_is_true(settings["tls_check_hostname"]),
    )


def _is_true(value: str | bool) -> bool:
    return value if isinstance(value, bool) else value.strip().lower() == "true"


def read_client_file(path: Path) -> dict[str, str]:
    """The keys of such a file, in either form. Raises InvalidSettings."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{path} cannot be read: {error}") from None
    if path.suffix not in (".yml", ".yaml"):
        return parse_properties(text)
    found = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and not key.lstrip().startswith("#"):
            found[key.strip()] = _yaml_text(value.strip())
    return found


def _yaml_text(text: str) -> str:
    """A plain or quoted value, without a comment behind it."""
    if text[:1] in ('"', "'"):
        quote, rest = text[0], text[1:]
        return rest[: rest.find(quote)] if quote in rest else rest
    return text.partition(" #")[0].strip()
