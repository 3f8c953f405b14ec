from rocketq.remoting.command import Command
from rocketq.remoting.errors import BadFrame

FRAME_LIMIT: int

class FrameSplitter:
    error: BadFrame | None
    def __init__(self, limit: int = ...) -> None: ...
    @property
    def buffered(self) -> int: ...
    def feed(self, data: bytes | bytearray) -> list[Command]: ...
