from rocketq.broker.acknowledgements import Acknowledgements
from rocketq.broker.config import LiveConfig
from rocketq.broker.processor.send import SendProcessor
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.topics import Topics
from rocketq.remoting import Command, Connection
from rocketq.store import MessageStore

class SendPath:
    def __init__(
        self,
        sends: SendProcessor,
        live: LiveConfig,
        topics: Topics,
        store: MessageStore,
        acknowledgements: Acknowledgements,
        stats: BrokerStats,
        store_host: bytes,
    ) -> None: ...
    def handle_run(self, requests: list[Command], connection: Connection) -> list[Command]: ...
    def handle_batch(self, request: Command, connection: Connection) -> Command | None: ...
    def configure(self) -> None: ...
    def report_counts(self) -> None: ...

def look_through_properties(properties: bytes) -> tuple[int, int, bool]: ...
