"""The bit sets of the protocol: what a message's, a pull's and a topic's flags mean.

They are plain integers in classes, not `IntFlag`s: they are tested for every message, where
an enum's arithmetic would cost more than the rest of the work.
"""

from enum import IntEnum
from typing import Final


class SysFlag:
    """Bits of a message's `sysFlag`, set by clients and the store, not by users."""

    COMPRESSED: Final = 0x1
    MULTI_TAGS: Final = 0x2
    TRANSACTION_NONE: Final = 0x0
    TRANSACTION_PREPARED: Final = 0x4
    TRANSACTION_COMMIT: Final = 0x8
    TRANSACTION_ROLLBACK: Final = 0xC
    TRANSACTION_MASK: Final = 0xC
    BORN_HOST_V6: Final = 0x10
    STORE_HOST_V6: Final = 0x20
    NEED_UNWRAP: Final = 0x40
    INNER_BATCH: Final = 0x80
    COMPRESSION_LZ4: Final = 0x100
    COMPRESSION_ZSTD: Final = 0x200
    COMPRESSION_ZLIB: Final = 0x300
    COMPRESSION_MASK: Final = 0x700


class CompressionType(IntEnum):
    """How a body is compressed: bits 8 to 10 of `sysFlag`."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


class PullFlag:
    """Bits of a pull request's `sysFlag`."""

    COMMIT_OFFSET: Final = 0x1
    SUSPEND: Final = 0x2
    SUBSCRIPTION: Final = 0x4
    CLASS_FILTER: Final = 0x8
    LITE_PULL: Final = 0x10


class Permission:
    """Bits of a topic's or a broker's permission.

    The inherit bit marks a topic that can serve as template for new ones.
    """

    PRIORITY: Final = 0x8
    READ: Final = 0x4
    WRITE: Final = 0x2
    INHERIT: Final = 0x1
    READ_WRITE: Final = READ | WRITE

    @staticmethod
    def text(permission: int) -> str:
        """As the tools print it: `RW-` is readable and writable, `RWX` a template too."""
        return "".join(
            letter if permission & bit else "-"
            for letter, bit in (
                ("R", Permission.READ),
                ("W", Permission.WRITE),
                ("X", Permission.INHERIT),
            )
        )


def transaction_type(sys_flag: int) -> int:
    """One of `SysFlag.TRANSACTION_*`."""
    return sys_flag & SysFlag.TRANSACTION_MASK


def with_transaction_type(sys_flag: int, kind: int) -> int:
    """The flag with its transaction bits replaced."""
    return (sys_flag & ~SysFlag.TRANSACTION_MASK) | kind


def is_compressed(sys_flag: int) -> bool:
    return bool(sys_flag & SysFlag.COMPRESSED)


def with_compression(sys_flag: int, kind: CompressionType) -> int:
    """The flag of a message whose body was compressed this way."""
    return (sys_flag & ~SysFlag.COMPRESSION_MASK) | SysFlag.COMPRESSED | (kind << 8)
