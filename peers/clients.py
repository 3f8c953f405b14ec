"""Columns 1 to 4: every feature through a client of one side, against a broker of the other.

Java's client runs rocketmq/Features.java, ours peers.sdk; both print the same lines.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from peers import java
from peers.outcomes import Column, Outcome, Outcomes, run_program
from peers.servers import Cluster

FEATURES = [
    *("send-sync", "send-async", "send-oneway", "send-to-queue", "send-batch", "ordered", "delay"),
    *("transaction-commit", "transaction-rollback", "transaction-check"),
    *("push-concurrent", "push-orderly", "two-instances", "broadcasting", "retry", "dead-letter"),
    *("tag-filter", "sql-filter", "pull", "lite-pull-subscribe", "lite-pull-assign"),
    *("request-reply", "offsets-by-time", "offset-reset"),
    *("query-by-id", "query-by-unique-key", "query-by-key"),
    *("trace", "namespace", "large-body", "compressed-body"),
]
# What only clients and brokers of RocketMQ 5 know.
FEATURES_5 = ["timer", "recall", "pop-push", "pop-two-instances", "pop-retry", "priority"]
SDK_FEATURES_5 = [
    *("timer", "recall", "simple-consumer", "simple-again", "pop-push", "pop-retry", "priority"),
]
BINARY_HEADERS = "binary-headers"
# What goes through each kind of request once more, with RocketMQ's binary header in place of JSON.
WITH_BINARY_HEADERS = [
    *("send-sync", "send-oneway", "send-batch", "delay", "transaction-commit", "push-orderly"),
    *("dead-letter", "sql-filter", "pull", "lite-pull-assign", "request-reply", "query-by-key"),
]
WITHIN_S = 900.0
Attempt = Callable[[Sequence[str]], Mapping[str, Outcome]]


def tried_twice(attempt: Attempt, names: Sequence[str]) -> dict[str, Outcome]:
    """What failed is tried once more: several features are about time, and machines are busy."""
    found = {name: Outcome(False, "no answer") for name in names}
    found.update(attempt(names))
    if failed := [name for name, outcome in found.items() if not outcome.ok]:
        found.update(attempt(failed))
    return found


def java_client(release: str, folder: Path, rows: Sequence[str]) -> Outcomes:
    """The official client of a release against rocketq."""
    with Cluster(folder) as cluster:
        namesrv = cluster.rocketq_namesrv()
        cluster.rocketq_broker("a", namesrv, recallMessageEnable="true")
        found: dict[str, Outcome] = {}
        if wanted := [
            name for name in FEATURES_5 if release == java.V5 and (not rows or name in rows)
        ]:
            found |= tried_twice(
                lambda names: java_features_5(release, folder, namesrv.address, names), wanted
            )
        if wanted := [name for name in FEATURES if not rows or name in rows]:
            found |= tried_twice(
                lambda names: java_features(release, folder, namesrv.address, names), wanted
            )
        if not rows or BINARY_HEADERS in rows:
            jvm = ["-Drocketmq.serialize.type=ROCKETMQ", *java.SMALL_JVM]
            parts = tried_twice(
                lambda names: java_features(release, folder, namesrv.address, names, jvm=jvm),
                WITH_BINARY_HEADERS,
            )
            failed = [f"{name}: {part.detail}" for name, part in parts.items() if not part.ok]
            found[BINARY_HEADERS] = Outcome(not failed, "; ".join(failed))
        return found


def java_features(
    release: str,
    folder: Path,
    namesrv: str,
    names: Sequence[str],
    jvm: Sequence[str] = java.SMALL_JVM,
) -> dict[str, Outcome]:
    classes = java.compiled("Features.java", release)
    command = java.command(release, "Features", folder, classes, jvm=jvm)
    return run_program([*command, namesrv, *names], folder, WITHIN_S)


def java_features_5(
    release: str, folder: Path, namesrv: str, names: Sequence[str]
) -> dict[str, Outcome]:
    base = java.compiled("Features.java", release)
    classes = java.compiled("Features5.java", release, base)
    command = java.command(release, "Features5", folder, classes, base)
    return run_program([*command, namesrv, *names], folder, WITHIN_S)


def our_client(release: str | None, folder: Path, rows: Sequence[str]) -> Outcomes:
    """The SDK against a Java broker of a release, or against rocketq itself."""
    with Cluster(folder) as cluster:
        features = FEATURES if release == java.V4 else [*FEATURES, *SDK_FEATURES_5]
        if release is None:
            namesrv = cluster.rocketq_namesrv()
            cluster.rocketq_broker("a", namesrv, recallMessageEnable="true")
        else:
            namesrv = cluster.java_namesrv(release)
            recalls = {} if release == java.V4 else {"recallMessageEnable": "true"}
            cluster.java_broker("a", namesrv, release, **recalls)
        if wanted := [name for name in features if not rows or name in rows]:
            return tried_twice(lambda names: our_features(folder, namesrv.address, names), wanted)
        return {}


def our_features(folder: Path, namesrv: str, names: Sequence[str]) -> dict[str, Outcome]:
    root = Path(__file__).resolve().parent.parent
    command = ["env", "-C", str(root), sys.executable, "-m", "peers.sdk", namesrv, *names]
    return run_program(command, folder, WITHIN_S)


def java_version() -> str:
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return (answer.stderr or answer.stdout).splitlines()[0].replace('"', "")


COLUMNS = [
    Column(
        "java-5-client",
        "Java 5.5.0 client → rocketq",
        lambda folder, rows: java_client(java.V5, folder, rows),
    ),
    Column(
        "java-4-client",
        "Java 4.9.8 client → rocketq",
        lambda folder, rows: java_client(java.CLIENT_4, folder, rows),
    ),
    Column(
        "sdk-to-java-5",
        "rocketq SDK → RocketMQ 5.5.0",
        lambda folder, rows: our_client(java.V5, folder, rows),
    ),
    Column(
        "sdk-to-java-4",
        "rocketq SDK → RocketMQ 4.9.7",
        lambda folder, rows: our_client(java.V4, folder, rows),
    ),
    Column(
        "sdk-to-rocketq",
        "rocketq SDK → rocketq",
        lambda folder, rows: our_client(None, folder, rows),
    ),
]
