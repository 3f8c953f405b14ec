"""What a task tells the driver of what it wrote."""

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass
class Written(WriterCommitMessage):
    """What one task sent."""

    messages: int
    bytes: int


@dataclass(kw_only=True)
class Prepared(Written):
    """The same of half messages, for the driver to end."""

    sink: str
    batch: int
    topic: str  # as on the wire; empty without rows
    prefix: str  # of the unique keys
    is_ordered: bool
    places: dict[str, bytes]  # by broker, packed
