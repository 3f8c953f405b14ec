"""docs/compatibility.md: the table of the last run, and what differs on purpose."""

from collections.abc import Mapping
from pathlib import Path

from peers import clients, elected, hand_over, mixed, replication, security, spark, tools
from peers.grpc import columns as grpc
from peers.table import Table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
# Kept by hand, below this line of the page.
ON_PURPOSE = "## What differs on purpose"

PARTS = [
    ("Clients", "Each feature through the client, against the broker.", clients.COLUMNS),
    (
        "gRPC",
        "Official clients of four languages, and a bare one that tries the protocol case by case. "
        "RocketMQ's own proxy comes first: where it is known to answer otherwise than ours, a case "
        "wants its answer there.",
        grpc.COLUMNS,
    ),
    (
        "mqadmin",
        "Every command of 5.5.0 that concerns one master without ACL, run against a Java broker "
        "and against rocketq with the same data; the outputs are the same up to addresses, "
        "times, ids and figures of the moment.",
        tools.COLUMNS,
    ),
    (
        "Users, rights and encryption",
        "Clients with right, wrong and missing credentials and rights, against brokers and "
        "NameServers with users, plain and encrypted; Java's broker at our NameServer and our "
        "controller; the commands for users and policies of mqadmin 5, compared as above, and "
        "those for accounts of mqadmin 4.",
        security.COLUMNS,
    ),
    (
        "Stores",
        "One store, by turns under a Java broker and under rocketq, three times each way.",
        hand_over.COLUMNS,
    ),
    (
        "Mixed clusters",
        "A rocketq broker and a Java broker at one NameServer, one topic on both.",
        mixed.COLUMNS,
    ),
    (
        "Replicas",
        "A SYNC_MASTER and its slave: 100,000 messages of all kinds, then the master is killed "
        "and its directory deleted, and the slave's directory is started as a master.",
        replication.COLUMNS,
    ),
    (
        "Elected masters",
        "Three brokers of one name under a controller, a producer that sends all the time; the "
        "master is killed, another takes over, the killed one comes back, again and again.",
        elected.COLUMNS,
    ),
    (
        "Spark",
        "The suite's own tests of reading topics in Spark, with a Java broker to read from.",
        spark.COLUMNS,
    ),
]


def text(table: Table, dates: Mapping[str, str], kept: str) -> str:
    days = sorted({dates[column.name] for column in table.columns})
    out = [
        "# Compatibility",
        "",
        "Made by `make peers`, which runs rocketq and Apache RocketMQ against each other.",
        f"Last run: {' to '.join(days)}, {clients.java_version()}.",
    ]
    for title, introduction, columns in PARTS:
        run = [column for column in columns if column in table.columns]
        if not run:
            continue
        rows = [
            row for row in table.rows() if any(row in table.outcomes[each.name] for each in run)
        ]
        out += ["", f"## {title}", "", introduction, "", *table.markdown(rows, run)]
    if failures := table.failures():
        out += ["", "Not green in this run:", "", *(f"- {failure}" for failure in failures)]
    return "\n".join(out) + "\n\n" + kept


def write(table: Table, dates: Mapping[str, str]) -> None:
    """Everything above what is kept by hand is made again."""
    before = PAGE.read_text() if PAGE.exists() else ""
    _, found, kept = before.partition(ON_PURPOSE)
    PAGE.write_text(text(table, dates, found + kept))
    print(f"written: {PAGE.relative_to(ROOT)}")
