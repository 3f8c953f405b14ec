"""Users and policies of a broker, and what each request needs."""

from rocketq.broker.access.directory import AccessDirectory
from rocketq.broker.access.rules import BROKER_RULES
from rocketq.broker.access.setup import guards, make_first_users, signing_hooks

__all__ = ["BROKER_RULES", "AccessDirectory", "guards", "make_first_users", "signing_hooks"]
