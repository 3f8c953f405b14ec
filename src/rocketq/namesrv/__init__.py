"""The NameServer: tells clients which broker serves a topic."""

from rocketq.namesrv.config import NamesrvConfig
from rocketq.namesrv.server import NameServer

__all__ = ["NameServer", "NamesrvConfig"]
