"""Records that were written and have no queue entry yet.

With SYNC_FLUSH nothing can be read before it is on the disk, so its entries are made when a flush
is done. On a slave they are made when the bytes have come. And where a queue or the index had
no room for an entry, it is tried again.
"""

from collections.abc import Callable

from rocketq.store.dispatch import Dispatcher
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.durability.log_scan import LogReplay
from rocketq.store.durability.replay import DONE, UNFINISHED, Replay
from rocketq.store.durability.running_flags import Flag, RunningFlags
from rocketq.store.files.disk import is_passing
from rocketq.store.index.index import Index
from rocketq.store.log.append import Appender
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queues import ConsumeQueues


class CatchingUp:
    """Owned by the store; runs on the event loop alone."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        dispatcher: Dispatcher,
        appender: Appender,
        beginnings: Beginnings,
        flags: RunningFlags,
        *,
        confirmed: Callable[[], int],
        on_failure: Callable[[OSError], None],
    ) -> None:
        """`confirmed` says up to where the log may be read."""
        self._log = log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._appender = appender
        self._beginnings = beginnings
        self._flags = flags
        self._confirmed = confirmed
        self._on_failure = on_failure
        self._has_failed = False
        self._replay = Replay(
            dispatcher, queues.open_tail, False, False, is_growing=True, tails=queues.tails
        )

    def run(self) -> None:
        """Dispatch what lies between the dispatcher and what may be read."""
        self._appender.has_waiting = False
        start, end = self._dispatcher.position, self._confirmed()
        if start >= end:
            return
        replay = self._replay
        replay.beginnings = self._beginnings.by_name or None
        segment = self._log.segments.find(start)
        if segment is not None and end <= segment.end:
            # Nearly always: what has come since the last time lies in one file, and is whole.
            status = replay.run(segment.view, segment.start, start, end)
            if status in (DONE, UNFINISHED):
                self._done(replay.position)
                return
            start = replay.position
        waiting = LogReplay(self._log.segments, start, end, replay)
        if waiting.run():
            self._done(waiting.position)
        else:
            self.note_failure()

    def _done(self, position: int) -> None:
        if position > self._dispatcher.position:
            self._dispatcher.position = position
        if self._has_failed:
            self._has_failed = False
            self._flags.clear(Flag.LOGICS_QUEUE_ERROR, "queue entries can be written again")
            self._flags.clear(Flag.INDEX_FILE_ERROR, "index entries can be written again")

    def note_failure(self) -> None:
        """Say why an entry could not be written."""
        self._has_failed = True
        failure = self._queues.failure
        if failure is not None:
            self._queues.failure = None
            self._flags.set(Flag.LOGICS_QUEUE_ERROR, str(failure))
        elif self._index is not None and self._index.failure is not None:
            failure, self._index.failure = self._index.failure, None
            self._flags.set(Flag.INDEX_FILE_ERROR, str(failure))
        if failure is not None and not is_passing(failure):
            self._on_failure(failure)
