"""The columns of a topic in Spark.

    topic            string     the topic it was read from
    broker_name      string     which broker, queue and place in it
    queue_id         int
    queue_offset     bigint
    msg_id           string     the unique key; where there is none, the offset id
    keys             string     space-separated, as RocketMQ has them: split(keys, ' ')
    tags             string
    body             binary     decompressed
    properties       map        all of them, the system's own included
    born_timestamp   timestamp  when the producer made it
    store_timestamp  timestamp  when the broker stored it
    born_host        string     host:port of the producer
    reconsume_times  int
    sys_flag         int        compression, transaction, address family
    flag             int        the application's own
    body_error       string     why the body is null; only with failOnDamage=false

With the option kafkaColumns=true a topic has the columns of Spark's Kafka source instead; they may
also be asked for by name:

    key binary (keys), value binary (body), topic, partition int (queue_id),
    offset bigint (queue_offset), timestamp (store_timestamp)

Absent keys and tags are null. `columns` leaves out what a job does not need: the map of
properties alone is about a quarter of the cost of a read.
"""

from collections.abc import Sequence
from typing import Final

COLUMNS: Final[dict[str, str]] = {
    "topic": "string",
    "broker_name": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "msg_id": "string",
    "keys": "string",
    "tags": "string",
    "body": "binary",
    "properties": "map<string,string>",
    "born_timestamp": "timestamp",
    "store_timestamp": "timestamp",
    "born_host": "string",
    "reconsume_times": "int",
    "sys_flag": "int",
    "flag": "int",
    "body_error": "string",
}
DEFAULT_COLUMNS: Final = tuple(name for name in COLUMNS if name != "body_error")

ALIASES: Final = {
    "key": "keys",
    "value": "body",
    "partition": "queue_id",
    "offset": "queue_offset",
    "timestamp": "store_timestamp",
}
"""Kafka's names of columns, and ours."""
ALL_COLUMNS: Final[dict[str, str]] = {
    **COLUMNS,
    "key": "binary",
    "value": "binary",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
}
KAFKA_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp")


def ddl(columns: Sequence[str]) -> str:
    """The schema of these columns, in Spark's words."""
    return ", ".join(f"{name} {ALL_COLUMNS[name]}" for name in columns)
