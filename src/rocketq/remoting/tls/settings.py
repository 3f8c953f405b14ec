"""The `tls.*` keys of servers, under RocketMQ's names and with its defaults.

In RocketMQ they are properties of the Java system; here they are keys of a server's `.conf`
file and of `--set`. A file of their own, `tls.config.file`, counts before both for all of them
but the mode, `tls.enable` and itself, as in RocketMQ.

What cannot be meant stops the start: RocketMQ takes `tls.server.need.client.auth=require`
without anything to check certificates against, and lets everybody in who shows one.
"""

import ssl
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from rocketq.common.config import ConfigError, key, parse_properties, update

T = TypeVar("T", bound="TlsSettings")

DEFAULT_FILE: Final = "/etc/rocketmq/tls.properties"
_NOT_FROM_FILE: Final = frozenset({"tls.server.mode", "tls.enable", "tls.config.file"})


# The names of members are what files hold.


class TlsMode(Enum):
    """What connections to a server may be."""

    disabled = 0
    permissive = 1
    enforcing = 2


class ClientAuth(Enum):
    """Whether clients have to show certificates."""

    none = ssl.CERT_NONE
    optional = ssl.CERT_OPTIONAL
    require = ssl.CERT_REQUIRED


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """What a server is told about encryption; servers' configurations inherit it."""

    tls_server_mode: TlsMode = field(default=TlsMode.permissive, metadata=key("tls.server.mode"))
    tls_config_file: str = field(default=DEFAULT_FILE, metadata=key("tls.config.file"))
    tls_test_mode_enable: bool = field(default=True, metadata=key("tls.test.mode.enable"))
    tls_protocols: str = field(default="", metadata=key("tls.protocols"))
    tls_ciphers: str = field(default="", metadata=key("tls.ciphers"))

    # Connections that others make to us.
    tls_server_key_path: str = field(default="", metadata=key("tls.server.keyPath"))
    tls_server_key_password: str = field(
        default="", repr=False, metadata=key("tls.server.keyPassword")
    )
    tls_server_cert_path: str = field(default="", metadata=key("tls.server.certPath"))
    tls_server_need_client_auth: ClientAuth = field(
        default=ClientAuth.none, metadata=key("tls.server.need.client.auth")
    )
    tls_server_auth_client: bool = field(default=False, metadata=key("tls.server.authClient"))
    tls_server_trust_cert_path: str = field(default="", metadata=key("tls.server.trustCertPath"))

    # Connections that we make to others.
    tls_enable: bool = field(default=False, metadata=key("tls.enable"))
    use_tls: bool = field(default=False, metadata=key("useTLS"))
    tls_client_key_path: str = field(default="", metadata=key("tls.client.keyPath"))
    tls_client_key_password: str = field(
        default="", repr=False, metadata=key("tls.client.keyPassword")
    )
    tls_client_cert_path: str = field(default="", metadata=key("tls.client.certPath"))
    tls_client_auth_server: bool = field(default=False, metadata=key("tls.client.authServer"))
    tls_client_trust_cert_path: str = field(default="", metadata=key("tls.client.trustCertPath"))

    @property
    def encrypts_own_connections(self) -> bool:
        """Whether connections that we make are encrypted: asked for, or expected of others."""
        return self.tls_enable or self.use_tls or self.tls_server_mode is TlsMode.enforcing


def with_tls_file(settings: T) -> T:
    """The same settings with those of their file; a file that was named has to be there."""
    path = Path(settings.tls_config_file or DEFAULT_FILE)
    try:
        found = parse_properties(path.read_text("utf-8"))
    except FileNotFoundError:
        if str(path) == DEFAULT_FILE:
            return settings
        raise ConfigError(f"tls.config.file={path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tls.config.file={path}: cannot be read: {error}") from None
    kept = {name: value for name, value in found.items() if name not in _NOT_FROM_FILE}
    return update(settings, kept)
