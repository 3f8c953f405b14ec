"""What keeps an administrator's request from being carried out."""

from rocketq.common.errors import RocketqError


class AdminError(RocketqError):
    """The request makes no sense for this cluster; the text says why."""


class UnknownTopic(AdminError):
    """No NameServer asked knows the topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"no broker serves the topic {topic}")
        self.topic = topic


class UnknownCluster(AdminError):
    """No broker of that cluster is registered."""

    def __init__(self, cluster: str, known: list[str]) -> None:
        super().__init__(f"there is no cluster {cluster}; there is {', '.join(known) or 'none'}")
        self.cluster = cluster


class UnknownBroker(AdminError):
    """No broker of that name or address is registered."""

    def __init__(self, broker: str) -> None:
        super().__init__(f"no broker {broker} is registered")
        self.broker = broker
