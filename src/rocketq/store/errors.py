"""What can go wrong with a store, besides the disk's own `OSError`."""

from rocketq.common.errors import RocketqError


class StoreError(RocketqError):
    """The root of this package's errors."""


class StoreLocked(StoreError):
    """Another process has the directory open."""


class StoreMismatch(StoreError):
    """The files do not have the sizes that are configured.

    Sizes are recorded nowhere, so files of another size mean that the directory belongs to
    another configuration. Nothing is changed then.
    """


class QueueUnavailable(StoreError):
    """The queue is being made again from the log; ask later."""

    retriable = True


class CorruptStore(StoreError):
    """Bytes that cannot be what was written."""
