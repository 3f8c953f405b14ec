"""Whether a server is well: named checks, each of which says in a few words what is wrong.

Three questions, three answers:

    alive    the process answers. Whoever restarts processes asks this.
    ready    it has started, is not about to stop, and can do its work.
    healthy  nothing at all is wrong, not even what it can work with for a while, such as a
             slave that is gone. Whoever is called at night asks this.
"""

from collections.abc import Callable
from typing import NamedTuple

Check = Callable[[], str | None]
"""What is wrong, in a few words; None if nothing is."""


class _Check(NamedTuple):
    ask: Check
    is_needed: bool


class Health:
    """The checks of all parts of a process. Asked on the loop, so a check never waits."""

    def __init__(self) -> None:
        self._checks: dict[str, _Check] = {}

    def add(self, name: str, check: Check, *, is_needed: bool = True) -> None:
        """`is_needed`: without it the server cannot do its work, and is not ready."""
        assert name not in self._checks, name
        self._checks[name] = _Check(check, is_needed)

    def faults(self, *, of_ready: bool = False) -> dict[str, str]:
        """What is wrong, by check."""
        found = {}
        for name, (ask, is_needed) in self._checks.items():
            if of_ready and not is_needed:
                continue
            try:
                fault = ask()
            except Exception as error:  # a check that fails knows nothing good
                fault = f"{type(error).__name__}: {error}"
            if fault is not None:
                found[name] = fault
        return found

    @property
    def names(self) -> list[str]:
        return list(self._checks)
