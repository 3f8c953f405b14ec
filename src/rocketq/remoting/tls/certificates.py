"""From settings to what a handshake needs: keys, certificates, whom to trust.

`ServerTls` is asked for each connection anew. It looks at its files from time to time, and when
one has changed, connections made from then on use the new ones; files that do not fit together
(a certificate written, its key not yet) leave the old ones in force until they do.

TLS 1.2 is the least. Clients do not compare a certificate with the address they call, as in
RocketMQ: brokers are known by numbers, and certificates name hosts. `check_hostname` does.
"""

import asyncio
import logging
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketq.common.config import ConfigError
from rocketq.common.loop.service import asked_to_stop
from rocketq.remoting.tls.self_signed import load_self_signed
from rocketq.remoting.tls.settings import ClientAuth, TlsMode, TlsSettings, with_tls_file

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_S: Final = 0.5

_VERSIONS: Final = {"TLSV1.2": ssl.TLSVersion.TLSv1_2, "TLSV1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """How connections that we make are encrypted; can be pickled, as Spark's tasks need it."""

    trust: str = ""
    """A file of certificates; servers have to show one that these vouch for."""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    check_hostname: bool = False
    protocols: str = ""
    ciphers: str = ""

    def context(self) -> ssl.SSLContext:
        """Read the files. Raises ConfigError when they cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _limit(context, self.protocols, self.ciphers)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if self.trust:
            context.verify_mode = ssl.CERT_REQUIRED
            context.check_hostname = self.check_hostname
            _trust(context, self.trust)
        elif self.check_hostname:
            raise ConfigError("a host's name can only be checked with certificates to trust")
        if self.certificate or self.key:
            _load(context, self.certificate, self.key, self.key_password)
        return context


def client_tls(settings: TlsSettings) -> ClientTls | None:
    """How a server's own connections are encrypted, if they are."""
    if not settings.encrypts_own_connections:
        return None
    settings = with_tls_file(settings)
    trust = ""
    if settings.tls_client_auth_server and not settings.tls_test_mode_enable:
        trust = settings.tls_client_trust_cert_path
        if not trust:
            raise ConfigError("tls.client.authServer=true: needs tls.client.trustCertPath")
    elif settings.tls_client_auth_server:
        raise ConfigError("tls.client.authServer=true: needs tls.test.mode.enable=false")
    return ClientTls(
        trust=trust,
        certificate=settings.tls_client_cert_path,
        key=settings.tls_client_key_path,
        key_password=settings.tls_client_key_password,
        protocols=settings.tls_protocols,
        ciphers=settings.tls_ciphers,
    )


class ServerTls:
    """What a server encrypts with. Used by the loop alone."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises ConfigError when the settings or their files cannot be used."""
        settings = with_tls_file(settings)
        self.mode = settings.tls_server_mode
        self._settings = settings
        self._context: ssl.SSLContext | None = None
        self._seen = self._stamps()
        if self.mode is not TlsMode.disabled:
            _check(settings)
            if not settings.tls_test_mode_enable:
                self._context = _server_context(settings)

    def context(self) -> ssl.SSLContext:
        """For the next handshake. A certificate for tests is made when somebody needs it."""
        if self._context is None:
            self._context = _server_context(self._settings)
        return self._context

    async def run(self, stop: asyncio.Event) -> None:
        """Look for changed files until the end."""
        watches = self.mode is not TlsMode.disabled and not self._settings.tls_test_mode_enable
        while not await asked_to_stop(stop, within_s=_LOOK_INTERVAL_S if watches else 3600.0):
            if watches:
                await self.look()

    async def look(self) -> None:
        """Take changed files over, if they can be used."""
        stamps = await asyncio.to_thread(self._stamps)
        if stamps == self._seen or None in stamps.values():
            return  # nothing new, or somebody is just replacing a file
        self._seen = stamps
        try:
            self._context = await asyncio.to_thread(_server_context, self._settings)
        except ConfigError as error:
            logger.warning("changed certificates cannot be used, the old ones are: %s", error)
        else:
            logger.info("certificates have changed; new connections use them")

    def _stamps(self) -> dict[str, tuple[int, int, int] | None]:
        """What tells a changed file from the one that was read."""
        settings = self._settings
        paths = (
            settings.tls_server_cert_path,
            settings.tls_server_key_path,
            settings.tls_server_trust_cert_path,
        )
        return {path: _stamp(path) for path in paths if path}


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _check(settings: TlsSettings) -> None:
    """What each setting needs of the others; raises ConfigError where it is missing."""
    wanted = settings.tls_server_need_client_auth
    if settings.tls_test_mode_enable:
        for name, value in (
            ("tls.server.certPath", settings.tls_server_cert_path),
            ("tls.server.keyPath", settings.tls_server_key_path),
            ("tls.server.trustCertPath", settings.tls_server_trust_cert_path),
            ("tls.server.authClient=true", settings.tls_server_auth_client),
            ("tls.server.need.client.auth=require", wanted is ClientAuth.require),
        ):
            if value:
                raise ConfigError(f"{name}: needs tls.test.mode.enable=false")
        return
    if not (settings.tls_server_cert_path and settings.tls_server_key_path):
        raise ConfigError(
            "tls.test.mode.enable=false: needs tls.server.certPath and tls.server.keyPath"
        )
    if settings.tls_server_auth_client:
        if not settings.tls_server_trust_cert_path:
            raise ConfigError("tls.server.authClient=true: needs tls.server.trustCertPath")
        if wanted is ClientAuth.none:
            raise ConfigError(
                "tls.server.authClient=true: needs tls.server.need.client.auth=require or optional"
            )
    elif wanted is ClientAuth.require:
        raise ConfigError(
            "tls.server.need.client.auth=require: needs tls.server.authClient=true and "
            "tls.server.trustCertPath, or any certificate would do"
        )


def _server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _limit(context, settings.tls_protocols, settings.tls_ciphers)
    if settings.tls_test_mode_enable:
        load_self_signed(context)
        return context
    _load(
        context,
        settings.tls_server_cert_path,
        settings.tls_server_key_path,
        settings.tls_server_key_password,
    )
    if settings.tls_server_auth_client:
        _trust(context, settings.tls_server_trust_cert_path)
        context.verify_mode = settings.tls_server_need_client_auth.value
    return context


def _limit(context: ssl.SSLContext, protocols: str, ciphers: str) -> None:
    """Versions and ciphers as comma lists; none means what OpenSSL holds good, from 1.2 on."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    named = [word.strip().upper() for word in protocols.split(",") if word.strip()]
    versions = [_VERSIONS.get(word) for word in named]
    if None in versions:
        raise ConfigError(f"tls.protocols={protocols}: must be some of TLSv1.2, TLSv1.3")
    known = [version for version in versions if version is not None]
    if known:
        context.minimum_version = min(known)
        context.maximum_version = max(known)
    if ciphers.strip():
        names = ":".join(word.strip() for word in ciphers.split(",") if word.strip())
        try:
            context.set_ciphers(names)
        except ssl.SSLError:
            raise ConfigError(
                f"tls.ciphers={ciphers}: none of them is known; they are named as OpenSSL does"
            ) from None


def _load(context: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
    for path in (certificate, key or certificate):
        if not Path(path).is_file():
            raise ConfigError(f"certificate or key {path!r}: there is no such file")
    try:
        # A password that is not given is not asked for at a terminal either.
        context.load_cert_chain(certificate, key or None, lambda: password)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ConfigError(f"certificate {certificate} with key {key}: {reason}") from None


def _trust(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ConfigError(f"certificates to trust in {path}: {reason}") from None
