"""The broker: topics, groups, offsets and the processors that answer clients."""

from typing import TYPE_CHECKING, Any

from rocketq.broker.config import BrokerConfig, LiveConfig, load_configs

if TYPE_CHECKING:
    from rocketq.broker.broker import Broker

__all__ = ["Broker", "BrokerConfig", "LiveConfig", "load_configs"]


def __getattr__(name: str) -> Any:
    """Load the broker itself when it is asked for: its options are wanted more often."""
    if name == "Broker":
        from rocketq.broker.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
