"""The access files of RocketMQ 4: accounts, white lists, rights of topics and groups."""

from rocketq.remoting.access.plain.accounts import InvalidAccounts, PlainAccount, PlainFile
from rocketq.remoting.access.plain.files import PlainFiles
from rocketq.remoting.access.plain.guard import PlainGuard

__all__ = ["InvalidAccounts", "PlainAccount", "PlainFile", "PlainFiles", "PlainGuard"]
