"""Who asks, and whether they may: signatures, and the guard before every handler."""

from rocketq.remoting.access.guard import AccessGuard, Directory, Rule, Rules
from rocketq.remoting.access.signature import RequestSigner, signature

__all__ = ["AccessGuard", "Directory", "RequestSigner", "Rule", "Rules", "signature"]
