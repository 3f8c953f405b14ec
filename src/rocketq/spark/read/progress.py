"""How far a running query is behind its topics.

Spark's own progress has it, from Spark 4.2 on: for every source where the last batch ended and
what was the newest then. `backlog` takes the difference; `BacklogListener` tells it with every
trigger:

    spark.streams.addListener(BacklogListener())     # one line a trigger on the console

Between them and the broker there is one more way: with the option `groupId` every tool that
shows the lag of consumer groups shows the query's.
"""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from rocketq.message.queue import MessageQueue
from rocketq.spark.read import offsets
from rocketq.spark.read.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )


def backlog(progress: "StreamingQueryProgress") -> dict[MessageQueue, int]:
    """How many messages each queue has that the query has not read; none left out.

    Empty where there is no source of ours, or Spark (4.1) does not say what is the newest.
    """
    behind: dict[MessageQueue, int] = {}
    for source in progress.sources:
        end, newest = _offsets(source.endOffset), _offsets(source.latestOffset)
        if end is not None and newest is not None:
            behind |= {queue: max(0, newest[queue] - end.get(queue, 0)) for queue in newest}
    return behind


def _offsets(text: Any) -> Offsets | None:
    """The offsets of a source of ours; None for others', which look different."""
    try:
        given = json.loads(text) if isinstance(text, str) else text
        return offsets.from_json(given)
    except (ValueError, TypeError, AttributeError):
        return None


def progress_line(progress: "StreamingQueryProgress") -> str:
    """One trigger of a query in one line."""
    behind = backlog(progress)
    parts = [
        f"{progress.name or progress.id} batch {progress.batchId}:",
        f"{progress.numInputRows:,} rows,",
        f"{progress.processedRowsPerSecond or 0:,.0f} per second",
    ]
    if behind:
        parts[-1] += ","
        parts.append(f"{sum(behind.values()):,} behind")
    return " ".join(parts)


class BacklogListener(StreamingQueryListener):
    """Tells rows, rate and backlog of every query with every trigger that had something."""

    def __init__(self, tell: Callable[[str], object] | None = None) -> None:
        """`tell` takes the lines; without it they go to stderr."""
        self._tell = tell or _to_stderr

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        if event.progress.numInputRows:
            self._tell(progress_line(event.progress))

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """Nothing to tell yet."""

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Nothing new."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Spark tells."""


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
