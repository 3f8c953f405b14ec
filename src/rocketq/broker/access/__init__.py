"""What each request to a broker needs."""

from rocketq.broker.access.rules import BROKER_RULES

__all__ = ["BROKER_RULES"]
