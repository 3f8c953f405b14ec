"""Figures sent to others at intervals: to an OpenTelemetry collector, or to the log.

The protocol's messages and gRPC itself are in the extra `metrics`; who asks for OTLP_GRPC
without having it installed is told so at start.
"""

import asyncio
import importlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from rocketq.common import json
from rocketq.common.config import ConfigError
from rocketq.common.extras import how_to_install
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.metrics.family import Family, Histogram, Kind, Point

if TYPE_CHECKING:
    from rocketq.common.metrics.monitoring import ExporterSettings, Monitoring

logger = logging.getLogger(__name__)

_EXPORT: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_SCOPE: Final = "rocketq"
# OTLP's number for "a counter says how much it is since the start".
_CUMULATIVE: Final = 2


class Exporter(Protocol):
    async def run(self, stop: asyncio.Event) -> None: ...


def exporter(monitoring: "Monitoring") -> Exporter:
    """The one that the settings ask for."""
    from rocketq.common.metrics.monitoring import ExporterKind

    if monitoring.settings.kind is ExporterKind.LOG:
        return LogExporter(monitoring)
    return OtlpExporter(monitoring)


def check_available() -> None:
    """Raise unless what OTLP needs is installed."""
    try:
        _proto("metrics")
        importlib.import_module("grpc.aio")
    except ImportError:
        raise ConfigError(
            f"metricsExporterType=OTLP_GRPC needs the extra `metrics`: {how_to_install('metrics')}"
        ) from None


class LogExporter:
    """One JSON object for each series, in the log."""

    def __init__(self, monitoring: "Monitoring") -> None:
        self._monitoring = monitoring

    async def run(self, stop: asyncio.Event) -> None:
        while not await asked_to_stop(stop, within_s=self._monitoring.settings.interval_s):
            async for labels, points in self._monitoring.points():
                for point in points:
                    logger.info("%s", json.dumps(_as_object(dict(labels), point)).decode())


def _as_object(labels: dict[str, str], point: Point) -> dict[str, Any]:
    labels |= dict(zip(point.family.labels, point.labels, strict=True))
    said: dict[str, Any] = {"name": point.family.name, "labels": labels}
    if isinstance(point.value, Histogram):
        return said | {"count": point.value.count, "sum": point.value.sum}
    return said | {"value": float(point.value)}


class OtlpExporter:
    """Sends to an OpenTelemetry collector with gRPC, so many points in a request."""

    def __init__(self, monitoring: "Monitoring") -> None:
        self._monitoring = monitoring
        self._started_ns = time.time_ns()
        self._has_failed = False

    async def run(self, stop: asyncio.Event) -> None:
        settings = self._monitoring.settings
        async with _channel(settings) as channel:
            call = channel.unary_unary(
                _EXPORT,
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=lambda data: data,
            )
            is_last = False
            while not is_last:
                is_last = await asked_to_stop(stop, within_s=settings.interval_s)
                await self._send_all(call)

    async def _send_all(self, call: Any) -> None:
        settings = self._monitoring.settings
        batch: list[tuple[dict[str, str], Point]] = []
        requests: list[Any] = []
        async for labels, points in self._monitoring.points():
            for point in points:
                batch.append((dict(labels), point))
                if len(batch) >= settings.batch:
                    requests.append(self._request(batch))
                    batch = []
        requests.append(self._request(batch))
        grpc = importlib.import_module("grpc")
        metadata = [(name.lower(), value) for name, value in settings.headers.items()]
        for request in requests:
            try:
                await call(
                    request,
                    timeout=settings.timeout_s,
                    metadata=metadata,
                    compression=grpc.Compression.Gzip,
                )
            except grpc.aio.AioRpcError as error:
                if not self._has_failed:
                    logger.warning("figures cannot be sent to %s: %s", settings.target, error)
                self._has_failed = True
                return  # the next ones say everything again
        if self._has_failed:
            logger.info("figures can be sent to %s again", settings.target)
        self._has_failed = False

    def _request(self, batch: list[tuple[dict[str, str], Point]]) -> Any:
        service = _proto("collector.metrics", "metrics_service_pb2")
        request = service.ExportMetricsServiceRequest()
        metrics = request.resource_metrics.add().scope_metrics.add()
        metrics.scope.name = _SCOPE
        now_ns = time.time_ns()
        family: Family | None = None
        metric: Any = None
        for labels, point in batch:
            if point.family is not family:
                family = point.family
                metric = metrics.metrics.add(name=family.name, description=family.help)
            said = _points_of(metric, point.family).add(
                time_unix_nano=now_ns, start_time_unix_nano=self._started_ns
            )
            labels |= dict(zip(point.family.labels, point.labels, strict=True))
            for name, value in labels.items():
                said.attributes.add(key=name).value.string_value = value
            if isinstance(point.value, Histogram):
                said.count, said.sum = point.value.count, point.value.sum
                said.bucket_counts.extend(point.value.counts)
                said.explicit_bounds.extend(point.value.bounds)
            else:
                said.as_double = float(point.value)
        return request


def _points_of(metric: Any, family: Family) -> Any:
    if family.kind is Kind.GAUGE:
        return metric.gauge.data_points
    if family.kind is Kind.COUNTER:
        metric.sum.is_monotonic = True
        metric.sum.aggregation_temporality = _CUMULATIVE
        return metric.sum.data_points
    metric.histogram.aggregation_temporality = _CUMULATIVE
    return metric.histogram.data_points


def _proto(part: str, module: str = "metrics_pb2") -> Any:
    return importlib.import_module(f"opentelemetry.proto.{part}.v1.{module}")


def _channel(settings: "ExporterSettings") -> Any:
    grpc_aio = importlib.import_module("grpc.aio")
    target = settings.target.removeprefix("http://").removeprefix("https://").rstrip("/")
    if settings.target.startswith("http://"):
        return grpc_aio.insecure_channel(target)
    grpc = importlib.import_module("grpc")
    return grpc_aio.secure_channel(target, grpc.ssl_channel_credentials())
