"""What a server may be told about its figures: RocketMQ's keys, the same for every kind of server.

A configuration inherits from `MetricsSettings`, calls `check_metrics`, and hands itself to
`exporter_settings` when it starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rocketq.common.config import ConfigError
from rocketq.common.metrics import pushing
from rocketq.common.metrics.monitoring import (
    EXPORTER_KINDS,
    ExporterKind,
    ExporterSettings,
    parse_labels,
)

_DAY_MS: Final = 24 * 60 * 60 * 1000
# Whoever listens on every address is asked at the host's own.
_SHOWN_AS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}

METRICS_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "metrics_prom_exporter_port": (0, 65_535),
    "metric_grpc_exporter_time_out_in_mills": (1, 600_000),
    "metric_grpc_exporter_interval_in_mills": (100, _DAY_MS),
    "metric_logging_exporter_interval_in_mills": (100, _DAY_MS),
    "metrics_otel_cardinality_limit": (1, 1_000_000),
    "metrics_export_batch_max_data_points": (1, 100_000),
}


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """Where figures are to be had, or where they are sent."""

    metrics_exporter_type: str = "DISABLE"
    metrics_prom_exporter_port: int = 5557
    metrics_prom_exporter_host: str = ""
    metrics_grpc_exporter_target: str = ""
    metrics_grpc_exporter_header: str = field(default="", repr=False)
    metric_grpc_exporter_time_out_in_mills: int = 3_000
    metric_grpc_exporter_interval_in_mills: int = 60_000
    metric_logging_exporter_interval_in_mills: int = 10_000
    metrics_label: str = ""
    metrics_otel_cardinality_limit: int = 50_000
    metrics_export_batch_max_data_points: int = 1_000

    def check_metrics(self) -> None:
        """Raise `ConfigError` for an exporter that cannot be had."""
        if self.metrics_exporter_type.strip().upper() not in EXPORTER_KINDS:
            raise ConfigError(
                f"metricsExporterType={self.metrics_exporter_type}: must be one of "
                + ", ".join(EXPORTER_KINDS)
            )
        exporter_settings(self, "")


def exporter_settings(
    settings: MetricsSettings, bind_address: str, reached_at: str = ""
) -> ExporterSettings:
    """For a server that listens there; `ConfigError` for what cannot be had.

    `reached_at` is its address where the other stands for all of the host's.
    """
    kind = ExporterKind.parse(settings.metrics_exporter_type)
    host = settings.metrics_prom_exporter_host or bind_address
    target = settings.metrics_grpc_exporter_target.strip()
    if kind is ExporterKind.OTLP_GRPC:
        if not target:
            raise ConfigError("metricsExporterType=OTLP_GRPC needs metricsGrpcExporterTarget")
        if not target.startswith("http"):
            target = f"https://{target}"
        pushing.check_available()
    interval_ms = settings.metric_grpc_exporter_interval_in_mills
    if kind is ExporterKind.LOG:
        interval_ms = settings.metric_logging_exporter_interval_in_mills
    shown_host = _SHOWN_AS.get(host, host)
    return ExporterSettings(
        kind=kind,
        host=host,
        port=settings.metrics_prom_exporter_port,
        shown_host=reached_at if reached_at and shown_host != host else shown_host,
        series_limit=settings.metrics_otel_cardinality_limit,
        labels=parse_labels(settings.metrics_label),
        target=target,
        headers=parse_labels(settings.metrics_grpc_exporter_header),
        timeout_s=settings.metric_grpc_exporter_time_out_in_mills / 1000,
        interval_s=interval_ms / 1000,
        batch=settings.metrics_export_batch_max_data_points,
    )
