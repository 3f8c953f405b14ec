"""Encrypted connections: their settings, their certificates, and the layer that does it."""

from rocketq.remoting.tls.certificates import ClientTls, ServerTls
from rocketq.remoting.tls.settings import TlsMode, TlsSettings

__all__ = ["ClientTls", "ServerTls", "TlsMode", "TlsSettings"]
