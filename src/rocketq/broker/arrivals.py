"""Who in the broker is told of messages that arrive.

The store tells one listener, in the turn of the append, and nobody at all while nobody waits:
what is not waited for costs nothing.
"""

from collections.abc import Callable

from rocketq.store import MessageStore
from rocketq.store.arrival import ArrivalListener


class Arrivals:
    """Hands the store's arrivals to everybody who listens at the moment."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._listeners: dict[str, ArrivalListener] = {}

    def listen(self, name: str) -> Callable[[ArrivalListener | None], None]:
        """A place of that name: to be given a listener, or None to listen no more."""

        def set_listener(listener: ArrivalListener | None) -> None:
            if listener is None:
                self._listeners.pop(name, None)
            else:
                self._listeners[name] = listener
            listeners = list(self._listeners.values())
            one = listeners[0] if len(listeners) == 1 else self._tell_all
            self._store.arrival_listener = one if listeners else None

        return set_listener

    def _tell_all(
        self, topic: str, queue_id: int, end: int, tags_code: int, time_ms: int, properties: bytes
    ) -> None:
        for listener in list(self._listeners.values()):
            listener(topic, queue_id, end, tags_code, time_ms, properties)
