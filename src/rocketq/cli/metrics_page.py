"""docs/metrics.md, made from what the code declares: `python -m rocketq.cli.metrics_page`."""

from collections.abc import Iterable, Iterator

from rocketq.broker.metrics import families
from rocketq.common.metrics import monitoring, process
from rocketq.common.metrics.family import Family
from rocketq.controller import metrics as controller
from rocketq.namesrv import metrics as namesrv
from rocketq.proxy import metrics as proxy

_INTRODUCTION = """\
# Metrics and health

<!-- Made by `python -m rocketq.cli.metrics_page`; change the code instead. -->

    rocketq up --metrics-port 5557
    curl http://127.0.0.1:5557/metrics

`--metrics-port P` (0 picks a free port; the `ready` line says `metrics=URL`) is short for
`metricsExporterType=PROM` and `metricsPromExporterPort=P`. The other keys are in
[settings.md](settings.md): `metricsPromExporterHost` is the address it listens on (else
`brokerIP1`), `metricsLabel` adds labels to every series, `metricsOtelCardinalityLimit` bounds the
series of a family. `metricsExporterType=OTLP_GRPC` sends everything to an OpenTelemetry collector
instead (`pip install '.[metrics]'`), `LOG` writes it to the log.

The same port answers three questions about health, with 200 or with 503 and what is wrong:

| path | red when |
|---|---|
| `/livez` | never, while the process answers at all: for whoever restarts processes |
| `/readyz` | it starts or stops, the disk failed or is full, too few slaves are in sync |
| `/healthz` | any of these, or a slave is missing, a master or a NameServer is away |

A failing disk, a full one and a broken replication turn it red within two seconds. For that the log
is flushed every second where metrics are on, also when there is little to flush.

Names that begin with `rocketmq_`, and their labels, are those of RocketMQ 5.5.0 (which adds the
unit to the name where there is one), so dashboards made for it work; all series of a broker have
the labels `cluster`, `node_id` and `node_type`. Names with `rocketq_` are ours. Of RocketMQ's
only those are left out that tell of stores or a consensus which do not exist here: RocksDB's, the
tiered store's, and the controller's `dledger_` ones.

Counting costs little: the figures are those that the broker keeps anyway, and become text
when somebody asks, some milliseconds at a time. An answer is given again for a second. Requests are
timed where metrics are on: up to a thousand a second that come alone, and one in 16 of the others
and of the runs in which sends come, which counts for 16. A request whose answer waits, for the disk
or for messages, is timed up to where it begins to wait.

`python -m benchmarks.metrics` measures it. When every pull was timed (commit 764ebb3, 17 November
2026, four pairs of brokers, 110 turns each) a send took 2.1 % (±1.0) more CPU with metrics and a
pull of 32 messages 5.8 % (±1.1); an answer for 100 topics and as many groups, 313 kB, took 5.9 ms,
which is 0.12 % of a core if somebody asks every five seconds. With one in 16 it has not been
measured yet.

`deploy/grafana` has a dashboard, `deploy/prometheus` rules for alerts.
"""


def page() -> Iterator[str]:
    """The lines of the page."""
    yield _INTRODUCTION
    yield from _table("Every process", (*process.FAMILIES, monitoring.HEALTHY, monitoring.LEFT_OUT))
    yield from _table("NameServer", namesrv.FAMILIES)
    yield from _table("Controller", controller.FAMILIES)
    yield from _table("Proxy", proxy.FAMILIES)
    for title, rows in (
        ("Broker", (*families.NODE, *families.CREATIONS)),
        ("Messages", families.MESSAGES),
        ("Clients", (*families.CLIENTS, *families.REMOTING)),
        ("Lag", families.LAGS),
        ("Storage", families.STORAGE),
        ("Replication", families.REPLICATION),
        ("Transactions", families.TRANSACTIONS),
        ("Pop", families.POP),
        ("Timers and delays", families.TIMER),
    ):
        yield from _table(title, rows)


def _table(title: str, rows: Iterable[Family]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| name | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for family in rows:
        labels = ", ".join(f"`{name}`" for name in family.labels)
        yield f"| `{family.name}` | {family.kind.value} | {labels} | {family.help} |"
    yield ""


if __name__ == "__main__":
    print("\n".join(page()).rstrip())
