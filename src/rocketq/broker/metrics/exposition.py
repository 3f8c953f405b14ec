"""Which figures a broker shows, and under which labels."""

from functools import partial

from rocketq.broker.config import BrokerConfig
from rocketq.broker.metrics import families
from rocketq.broker.metrics.deferred import DeferredFigures
from rocketq.broker.metrics.health import BrokerHealth
from rocketq.broker.metrics.lag import LagFigures
from rocketq.broker.metrics.storage import StorageFigures
from rocketq.broker.metrics.traffic import TrafficFigures, latencies
from rocketq.common.metrics.family import Collector
from rocketq.common.metrics.monitoring import Part
from rocketq.remoting.link.meter import RequestMeter


def labels(config: BrokerConfig) -> dict[str, str]:
    """What all series of a broker have in common, as in RocketMQ."""
    return {
        "cluster": config.broker_cluster_name,
        "node_id": config.broker_name,
        "node_type": "broker",
    }


def add_figures(
    part: Part,
    config: BrokerConfig,
    health: BrokerHealth,
    traffic: TrafficFigures,
    clients: Collector,
    lag: LagFigures,
    storage: StorageFigures,
    deferred: DeferredFigures,
    meter: RequestMeter | None,
) -> None:
    """Tell which figures there are, by RocketMQ's settings for groups of them."""
    health.add_to(part)
    if config.enable_stats_metrics:
        part.add(families.NODE, traffic.node)
        part.add(families.CREATIONS, traffic.creations)
    if config.enable_request_metrics:
        part.add(families.MESSAGES, traffic.messages)
    if config.enable_connection_metrics:
        part.add(families.CLIENTS, clients)
    if meter is not None:
        part.add(families.REMOTING, partial(latencies, meter))
    if config.enable_lag_and_dlq_metrics:
        part.add(families.LAGS, lag.collect)
    if config.enable_transaction_metrics:
        part.add(families.TRANSACTIONS, deferred.transactions)
    if config.enable_pop_metrics:
        part.add(families.POP, deferred.pop)
    if config.enable_message_store_metrics:
        part.add(families.TIMER, deferred.timer)
        part.add(families.STORAGE, storage.storage)
    part.add(families.REPLICATION, storage.replication)
