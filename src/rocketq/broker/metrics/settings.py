"""Where a broker's settings for metrics become those of the exporter."""

from typing import Final

from rocketq.broker.config import BrokerConfig
from rocketq.common.config import ConfigError
from rocketq.common.metrics import pushing
from rocketq.common.metrics.monitoring import ExporterKind, ExporterSettings, parse_labels

_NO_ADDRESS: Final = ("0.0.0.0", "::", "")


def exporter_settings(config: BrokerConfig) -> ExporterSettings:
    """Raises `ConfigError` for what cannot be had."""
    kind = ExporterKind.parse(config.metrics_exporter_type)
    host = config.metrics_prom_exporter_host or config.broker_ip1
    target = config.metrics_grpc_exporter_target.strip()
    if kind is ExporterKind.OTLP_GRPC:
        if not target:
            raise ConfigError("metricsExporterType=OTLP_GRPC needs metricsGrpcExporterTarget")
        if not target.startswith("http"):
            target = f"https://{target}"
        pushing.check_available()
    interval_ms = config.metric_grpc_exporter_interval_in_mills
    if kind is ExporterKind.LOG:
        interval_ms = config.metric_logging_exporter_interval_in_mills
    return ExporterSettings(
        kind=kind,
        host=host,
        port=config.metrics_prom_exporter_port,
        shown_host=config.broker_ip1 if host in _NO_ADDRESS else host,
        series_limit=config.metrics_otel_cardinality_limit,
        labels=parse_labels(config.metrics_label),
        target=target,
        headers=parse_labels(config.metrics_grpc_exporter_header),
        timeout_s=config.metric_grpc_exporter_time_out_in_mills / 1000,
        interval_s=interval_ms / 1000,
        batch=config.metrics_export_batch_max_data_points,
    )
