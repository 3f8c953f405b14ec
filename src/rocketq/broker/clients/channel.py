"""One client as a broker sees it: a connection and what its heartbeats say."""

from rocketq.remoting import Connection


class ClientChannel:
    """A client's connection. A client that reconnects is a new channel with the same id."""

    __slots__ = ("client_id", "connection", "language", "last_update_ms", "user", "version")

    def __init__(
        self,
        connection: Connection,
        client_id: str,
        language: int,
        version: int,
        now_ms: int,
        user: str = "",
    ) -> None:
        self.connection = connection
        self.client_id = client_id
        self.language = language
        self.version = version
        self.last_update_ms = now_ms
        self.user = user  # who has signed its heartbeats, where somebody had to

    @property
    def address(self) -> str:
        """Where the client is, as tools print it."""
        host, port = self.connection.peer[:2]
        return f"{host}:{port}"

    @property
    def is_live(self) -> bool:
        return not self.connection.is_closing

    def __repr__(self) -> str:
        return f"<{self.client_id} at {self.address}>"
