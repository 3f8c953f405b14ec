from collections.abc import Mapping, Sequence
from typing import TypeVar

from rocketq.common.buffers import Buffer
from rocketq.remoting.headers.header import Header, RequestHeader

H = TypeVar("H", bound=Header)

RESPONSE_FLAG: int
ONEWAY_FLAG: int

def next_opaque() -> int: ...

class Command:
    code: int
    language: int
    version: int
    opaque: int
    flag: int
    serialize_type: int
    def __init__(
        self,
        code: int,
        *,
        ext_fields: dict[str, str] | None = None,
        body: Buffer | list[Buffer] = b"",
        remark: str | None = None,
        flag: int = 0,
        opaque: int = 0,
        language: int = 3,
        version: int = 479,
        serialize_type: int = 0,
    ) -> None: ...
    @staticmethod
    def request(
        header: RequestHeader | int,
        body: Buffer | Sequence[Buffer] = b"",
        *,
        code: int | None = None,
        ext: Mapping[str, str] | None = None,
        oneway: bool = False,
    ) -> Command: ...
    def reply(
        self,
        header: Header | None = None,
        body: Buffer | Sequence[Buffer] = b"",
        *,
        code: int = 0,
        remark: str | None = None,
        ext: Mapping[str, str] | None = None,
    ) -> Command: ...
    @property
    def is_response(self) -> bool: ...
    @property
    def is_oneway(self) -> bool: ...
    @property
    def remark(self) -> str | None: ...
    @remark.setter
    def remark(self, remark: str | None) -> None: ...
    @property
    def ext_fields(self) -> dict[str, str]: ...
    @property
    def has_ext_fields(self) -> bool: ...
    @property
    def body(self) -> bytes | memoryview: ...
    @body.setter
    def body(self, body: Buffer | list[Buffer]) -> None: ...
    @property
    def raw_header(self) -> memoryview: ...
    def header(self, cls: type[H]) -> H: ...
    def encode(self) -> list[Buffer]: ...
    def encode_into(self, out: list[Buffer]) -> int: ...
