"""Who is told of messages that can be read from now on."""

from collections.abc import Callable
from typing import TypeAlias

ArrivalListener: TypeAlias = Callable[[str, int, int, int, int, bytes], object]
"""Called with topic, queue id, the queue's new end offset, tags code, store time, properties."""
