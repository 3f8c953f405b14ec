"""Compressed bodies: how producers make them, and how consumers open them again.

A producer compresses a body from 4 KiB on; brokers keep it as it came. Three bits of the
message's flag tell how (`SysFlag.COMPRESSION_*`). Messages from old producers have the
compressed bit alone, which means zlib.

    ZLIB   a zlib stream; always there
    LZ4    an LZ4 frame; needs the package lz4
    ZSTD   a zstd frame; needs the package zstandard
"""

import importlib
import zlib
from typing import Any, Final, TypeAlias

from rocketq.common.errors import RocketqError
from rocketq.common.extras import how_to_install
from rocketq.message.flags import CompressionType, SysFlag

Buffer: TypeAlias = bytes | bytearray | memoryview

DEFAULT_LEVEL: Final = 5
MAX_DECOMPRESSED_SIZE: Final = 64 * 1024 * 1024
"""A few bytes can claim to be gigabytes. No broker takes messages near this size."""


class CompressionError(RocketqError):
    """A body that cannot be compressed or decompressed here."""


def compress(kind: CompressionType, level: int, data: Buffer) -> bytes:
    """The compressed form of a body. The level counts as in zlib: 1 is fast, 9 is small."""
    if kind == CompressionType.ZLIB:
        return zlib.compress(data, level)
    if kind == CompressionType.LZ4:
        # The frame format has levels from 3 on for what zlib calls small.
        lz4_level = 0 if level <= DEFAULT_LEVEL else level
        lz4_frame = _package("lz4.frame", "lz4")
        return bytes(lz4_frame.compress(data, compression_level=lz4_level))
    compressor = _package("zstandard", "zstandard").ZstdCompressor(level=level)
    return bytes(compressor.compress(data))


def decompress(sys_flag: int, data: Buffer, max_size: int = MAX_DECOMPRESSED_SIZE) -> bytes:
    """The original body of a message with this flag; a body never compressed comes as it is.

    Raises `CompressionError` for damaged data, for more than `max_size` bytes, and when the
    package for this kind is not installed.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return bytes(data)
    kind = sys_flag & SysFlag.COMPRESSION_MASK
    if kind in (0, SysFlag.COMPRESSION_ZLIB):
        stream: Any = zlib.decompressobj()
        failures: tuple[type[Exception], ...] = (zlib.error,)
    elif kind == SysFlag.COMPRESSION_LZ4:
        stream = _package("lz4.frame", "lz4").LZ4FrameDecompressor()
        failures = (RuntimeError, EOFError)
    elif kind == SysFlag.COMPRESSION_ZSTD:
        return _decompress_zstd(data, max_size)
    else:
        raise CompressionError(f"compression type {kind >> 8} is not known")
    try:
        body: bytes = stream.decompress(data, max_size + 1)
    except failures as cause:
        raise CompressionError(f"the body is damaged: {cause}") from cause
    if len(body) > max_size:
        raise _too_large(max_size)
    if not stream.eof:
        raise CompressionError("the body is damaged: it ends too early")
    return body


def _decompress_zstd(data: Buffer, max_size: int) -> bytes:
    zstandard = _package("zstandard", "zstandard")
    try:
        # The limit below is for frames that do not say their size, as Java writes them; one
        # that says it is believed, so ask first.
        if zstandard.frame_content_size(data) > max_size:
            raise _too_large(max_size)
        body = zstandard.ZstdDecompressor().decompress(data, max_output_size=max_size)
    except zstandard.ZstdError as cause:
        if "too small" in str(cause):
            raise _too_large(max_size) from cause
        raise CompressionError(f"the body is damaged: {cause}") from cause
    return bytes(body)


def _too_large(max_size: int) -> CompressionError:
    return CompressionError(f"the body has more than {max_size} bytes when decompressed")


def _package(module: str, distribution: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as cause:
        raise CompressionError(
            f"this kind of compression needs the package {distribution}: "
            f"{how_to_install('compression')}"
        ) from cause
