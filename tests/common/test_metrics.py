"""Figures as text and over HTTP, and what strangers may do with it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from prometheus_client.parser import text_string_to_metric_families

from rocketq.common.metrics import process
from rocketq.common.metrics.family import Histogram, Point, counter, gauge, histogram
from rocketq.common.metrics.health import Health
from rocketq.common.metrics.monitoring import (
    ExporterKind,
    ExporterSettings,
    Monitoring,
    parse_labels,
)
from rocketq.common.metrics.text import exposition
from tests.http_pages import ask, exchange, read_page
from tests.waiting import eventually

SENT = counter("test_sent_total", 'Sent; with "quotes" and \\ and\na second line.', "topic")
SIZE = gauge("test_size", "A size.")
TIMES = histogram("test_seconds", "Times.", (0.1, 1.0), "kind")


# --- text ---------------------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=30), st.integers(0, 2**60), max_size=5))
def test_any_text_can_be_a_label(counts: dict[str, int]) -> None:
    points = [Point(SENT, (topic,), count) for topic, count in counts.items()]
    text = exposition(points, {"node": 'a"b\\c\n'})
    read = {
        sample.labels["topic"]: (sample.value, sample.labels["node"])
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert read == {topic: (count, 'a"b\\c\n') for topic, count in counts.items()}


@given(st.lists(st.floats(0, 5), max_size=20))
def test_a_histogram_counts_each_value_once_and_its_buckets_add_up(values: list[float]) -> None:
    times = Histogram(TIMES.bounds)
    for value in values:
        times.observe(value)
    text = exposition([Point(TIMES, ("a",), times)], {})
    (family,) = text_string_to_metric_families(text)
    read = {(each.name, each.labels.get("le")): each.value for each in family.samples}
    assert read["test_seconds_bucket", "0.1"] == sum(value <= 0.1 for value in values)
    assert read["test_seconds_bucket", "1.0"] == sum(value <= 1.0 for value in values)
    assert read["test_seconds_bucket", "+Inf"] == read["test_seconds_count", None] == len(values)
    assert read["test_seconds_sum", None] == pytest.approx(sum(values))


def test_labels_are_written_as_in_rocketmq() -> None:
    assert parse_labels("k:v, dc:east,broken,:x") == {"k": "v", "dc": "east", "broken": ""}


@pytest.mark.parametrize(("text", "kind"), [("prom", ExporterKind.PROM), ("1", "OTLP_GRPC")])
def test_kinds_of_exporters_have_names_and_numbers(text: str, kind: ExporterKind | str) -> None:
    assert ExporterKind.parse(text) in (kind, ExporterKind.OTLP_GRPC)


# --- the server ---------------------------------------------------------------------------


@asynccontextmanager
async def served(points: list[Point], **options: Any) -> AsyncIterator[Monitoring]:
    settings = ExporterSettings(kind=ExporterKind.PROM, port=0, **options)
    monitoring = Monitoring(settings)

    def collect() -> Iterator[Point]:
        yield from points

    monitoring.part("test", {"node": "n"}).add((SENT, SIZE, TIMES), collect)
    async with monitoring.serving():
        yield monitoring


async def test_a_page_has_everything_that_is_counted() -> None:
    async with served([Point(SIZE, (), 3)], labels={"dc": "east"}) as monitoring:
        page = await ask(monitoring.url)
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {each.name: each for each in text_string_to_metric_families(page.body.decode())}
    (sample,) = families["test_size"].samples
    assert (sample.value, sample.labels) == (3.0, {"dc": "east", "node": "n"})
    said = set(families) | {f"{name}_total" for name in families}
    assert {family.name for family in process.FAMILIES} <= said


async def test_series_beyond_the_limit_are_left_out_and_counted() -> None:
    points = [Point(SENT, (str(number),), number) for number in range(10)]
    async with served(points, series_limit=4) as monitoring:
        text = b"".join(await monitoring.text()).decode()
    assert text.count("test_sent_total{") == 4
    assert 'rocketq_metrics_series_left_out{metric="test_sent_total"} 6.0' in text


async def test_a_collector_that_fails_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    monitoring = Monitoring(ExporterSettings(kind=ExporterKind.PROM, port=0))

    def broken() -> Iterator[Point]:
        yield Point(SIZE, (), 1)
        raise ValueError("broken")

    part = monitoring.part("test", {})
    part.add((SIZE,), broken)
    part.add((SENT,), lambda: [Point(SENT, ("a",), 2)])
    text = b"".join(await monitoring.text()).decode()
    assert "test_size 1.0" in text
    assert 'test_sent_total{topic="a"} 2.0' in text
    assert "figures of test failed" in caplog.text


async def test_questions_within_a_second_get_one_answer() -> None:
    asked = 0

    def collect() -> Iterator[Point]:
        nonlocal asked
        asked += 1
        yield Point(SIZE, (), asked)

    monitoring = Monitoring(ExporterSettings(kind=ExporterKind.PROM, port=0))
    monitoring.part("test", {}).add((SIZE,), collect)
    async with monitoring.serving():
        pages = await asyncio.gather(*(ask(monitoring.url) for _ in range(8)))
    assert asked <= 2
    assert all(page.status == 200 for page in pages)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics SPDY/3\r\n\r\n", 400),
        (b"GET /livez HTTP/1.0\r\n\r\n", 200),
        (b"GET /livez?verbose HTTP/1.1\r\n\r\n", 200),
        (b"GET /livez HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_strangers_send(sent: bytes, status: int) -> None:
    async with served([]) as monitoring:
        port = int(monitoring.url.rpartition(":")[2].partition("/")[0])
        said = await exchange("127.0.0.1", port, sent)
        assert said == b"" or read_page(said).status == status
        assert status == 431 or said
        assert (await ask(monitoring.url, "/livez")).status == 200


async def test_a_head_question_gets_no_body() -> None:
    async with served([]) as monitoring:
        page = await ask(monitoring.url, method="HEAD")
    assert page.status == 200
    assert page.body == b""
    assert int(page.headers["content-length"]) > 100


async def test_no_more_connections_than_allowed_and_none_is_kept_for_ever() -> None:
    async with served([]) as monitoring:
        port = int(monitoring.url.rpartition(":")[2].partition("/")[0])
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(64)]
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\n\r\n")
        try:
            assert await reader.read() == b""
        except ConnectionError:
            pass  # it was hung up on, which may be seen either way
        for _, each in [(reader, writer), *idle]:
            each.close()
        await eventually(lambda: _is_served(monitoring.url), "room for another connection")


async def _is_served(url: str) -> bool:
    try:
        return (await ask(url, "/livez")).status == 200
    except (OSError, ValueError, IndexError):
        return False


async def test_long_work_leaves_the_loop_its_turns() -> None:
    """Many series, and a timer that must not be late by more than a few slices."""
    points = [Point(SENT, (f"topic-{number}",), number) for number in range(40_000)]
    async with served(points) as monitoring:
        loop = asyncio.get_running_loop()
        asking = asyncio.ensure_future(ask(monitoring.url))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        page = asking.result()
        assert loop.time() > 0
    assert page.body.count(b"\n") > 40_000
    assert turns > 20


# --- health -------------------------------------------------------------------------------


def test_a_check_that_fails_is_a_fault() -> None:
    health = Health()
    health.add("good", lambda: None)
    health.add("bad", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    health.add("nice to have", lambda: "gone", is_needed=False)
    assert health.faults() == {
        "bad": "ZeroDivisionError: division by zero",
        "nice to have": "gone",
    }
    assert list(health.faults(of_ready=True)) == ["bad"]


async def test_pages_tell_health() -> None:
    fault: list[str | None] = [None]
    async with served([]) as monitoring:
        monitoring.health.add("disk", lambda: fault[0])
        monitoring.health.add("copies", lambda: "one is gone", is_needed=False)
        assert (await ask(monitoring.url, "/readyz")).status == 200
        healthy = await ask(monitoring.url, "/healthz")
        assert (healthy.status, healthy.json["faults"]) == (503, {"copies": "one is gone"})
        fault[0] = "it is on fire"
        ready = await ask(monitoring.url, "/readyz")
        assert (ready.status, ready.json) == (
            503,
            {"status": "failing", "faults": {"disk": "it is on fire"}},
        )
        assert (await ask(monitoring.url, "/livez")).status == 200
        assert 'rocketq_healthy{check="disk"} 0.0' in b"".join(await monitoring.text()).decode()


# --- sent elsewhere -----------------------------------------------------------------------


async def test_figures_are_sent_to_a_collector() -> None:
    """A real gRPC server takes them and reads them with OpenTelemetry's own classes."""
    received: list[Any] = []
    metadata: list[dict[str, Any]] = []

    async def export(request: Any, context: Any) -> Any:
        received.append(request)
        metadata.append(dict(context.invocation_metadata()))
        return metrics_service_pb2.ExportMetricsServiceResponse()

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        export,
        request_deserializer=metrics_service_pb2.ExportMetricsServiceRequest.FromString,
        response_serializer=lambda answer: answer.SerializeToString(),
    )
    name = "opentelemetry.proto.collector.metrics.v1.MetricsService"
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(name, {"Export": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    times = Histogram(TIMES.bounds)
    times.observe(0.5)
    points = [Point(SENT, ("a",), 7), Point(SIZE, (), 3), Point(TIMES, ("k",), times)]
    monitoring = Monitoring(
        ExporterSettings(
            kind=ExporterKind.OTLP_GRPC,
            target=f"http://127.0.0.1:{port}",
            headers={"Authorization": "token"},
            interval_s=0.05,
            batch=4,
        )
    )
    monitoring.part("test", {"node": "n"}).add((SENT, SIZE, TIMES), lambda: points)
    try:
        async with monitoring.serving():
            await eventually(lambda: _metrics(received).keys() >= {"test_seconds", "test_size"})
    finally:
        await server.stop(None)
    metrics = _metrics(received)
    (sent,) = metrics["test_sent_total"].sum.data_points
    assert sent.as_double == 7.0
    assert metrics["test_sent_total"].sum.is_monotonic
    assert {each.key: each.value.string_value for each in sent.attributes} == {
        "node": "n",
        "topic": "a",
    }
    assert metrics["test_size"].gauge.data_points[0].as_double == 3.0
    assert list(metrics["test_seconds"].histogram.data_points[0].bucket_counts) == [0, 1, 0]
    assert metadata[0]["authorization"] == "token"
    assert all(
        sum(len(_points(metric)) for metric in request.resource_metrics[0].scope_metrics[0].metrics)
        <= 4
        for request in received
    )


def _metrics(requests: list[Any]) -> dict[str, Any]:
    return {
        metric.name: metric
        for request in requests
        for metric in request.resource_metrics[0].scope_metrics[0].metrics
    }


def _points(metric: Any) -> Any:
    kind = metric.WhichOneof("data")
    return getattr(metric, kind).data_points


async def test_figures_can_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    monitoring = Monitoring(ExporterSettings(kind=ExporterKind.LOG, interval_s=0.01))
    monitoring.part("test", {}).add((SENT,), lambda: [Point(SENT, ("a",), 7)])
    async with monitoring.serving():
        await eventually(lambda: '"test_sent_total"' in caplog.text)
    assert '{"name":"test_sent_total","labels":{"topic":"a"},"value":7.0}' in caplog.text
