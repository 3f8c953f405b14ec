"""Places in the log where a record begins, not far before its end.

Opening a store reads a little of the log even after a clean stop, to notice damage at its end.
Reading can only begin where a record does, and records have no fixed places, so some are noted
as the log grows.
"""

from typing import Final

_DISTANCE: Final = 1 << 20
_BEHIND: Final = 4 << 20


class RecordMarks:
    """Told about the end of the log now and then; keeps a few of these places."""

    def __init__(self) -> None:
        self._marks = [0]

    def start_from(self, position: int) -> None:
        self._marks = [position]

    def note(self, end: int) -> None:
        """The log ends here now, so a record will begin here."""
        if end - self._marks[-1] >= _DISTANCE:
            self._marks.append(end)
        while len(self._marks) > 1 and end - self._marks[1] >= _BEHIND:
            self._marks.pop(0)

    def cut_at(self, end: int) -> None:
        """The log ends here now: a record will begin here, whatever was noted behind it."""
        self._marks = [mark for mark in self._marks if mark <= end] or [end]

    @property
    def oldest(self) -> int:
        """A place some megabytes before the end, or as far back as is known."""
        return self._marks[0]
