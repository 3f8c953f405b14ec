"""Rules: from a request to what it needs, one for each code that a server answers."""

from collections.abc import Callable, Iterable, Mapping

from rocketq.common.access import Need
from rocketq.remoting.wire.command import Command

Rule = Callable[[Command], Iterable[Need]]
Rules = Mapping[int, Rule]
