"""What can be wrong with etcd, as far as it makes a difference."""

from rocketq.common.errors import RocketqError


class EtcdError(RocketqError):
    """etcd refused, or did not answer."""


class EtcdUnavailable(EtcdError):
    """No node answered in time. What was asked may have been done, or may be done yet."""

    retriable = True


class EtcdFull(EtcdError):
    """etcd's space is used up (NOSPACE): it takes no writes until somebody makes room."""


class EtcdRefused(EtcdError):
    """Wrong user or password, no right to the keys, or a request it does not understand."""


class HistoryGone(EtcdError):
    """What a watch was to begin with has been compacted: everything must be read anew."""
