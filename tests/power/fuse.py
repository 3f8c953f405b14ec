"""Linux's protocol for file systems in user space, as far as a store needs it.

Spoken over /dev/fuse without a library, so that a power cut can be placed between any two
requests. Requests and answers are little-endian structs as in the kernel's fuse.h (7.31 and later):

    request   length u32, opcode u32, unique u64, node u64, uid u32, gid u32, pid u32, 4 bytes; body
    answer    length u32, error i32, unique u64; body
"""

import ctypes
import errno
import os
import stat
import struct
import time
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

_IN: Final = struct.Struct("<IIQQIIII")
_OUT: Final = struct.Struct("<IiQ")
_INIT: Final = struct.Struct("<IIIIHHIIHHII24x")
_ENTRY: Final = struct.Struct("<QQQQII")
_ATTR: Final = struct.Struct("<QQQQQQIIIIIIIIII")
_KNOWN_FOR: Final = struct.Struct("<QII")
_DIRENT: Final = struct.Struct("<QQII")
_STATFS: Final = struct.Struct("<QQQQQIIII24x")

ROOT: Final = 1
LARGEST_WRITE: Final = 1 << 20
_BUFFER: Final = LARGEST_WRITE + 4_096

_WRITEBACK_CACHE: Final = 1 << 16
_MAX_PAGES: Final = 1 << 22
_BIG_WRITES: Final = 1 << 5
_MNT_DETACH: Final = 2

_libc = ctypes.CDLL(None, use_errno=True)


class Opcode(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    RENAME2 = 45
    SYNCFS = 50


UNANSWERED: Final = frozenset({Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT})


class Request(NamedTuple):
    opcode: int
    unique: int
    node: int
    body: memoryview


class Attributes(NamedTuple):
    """What `stat` says of a file."""

    node: int
    mode: int
    size: int
    modified_ns: int

    def encode(self) -> bytes:
        s, ns = divmod(self.modified_ns, 1_000_000_000)
        links = 2 if stat.S_ISDIR(self.mode) else 1
        blocks = -(-self.size // 512)
        return _ATTR.pack(
            *(self.node, self.size, blocks, s, s, s, ns, ns, ns),
            *(self.mode, links, os.getuid(), os.getgid(), 0, 4096, 0),
        )


class Mount:
    """One mounted file system: the kernel's requests come from here, answers go back."""

    def __init__(self, path: Path, device: str) -> None:
        """`device` is a block device nobody else uses.

        The kernel keeps it as the file system's own, and in return passes `syncfs` on, which a
        file system without a device never hears of.
        """
        self.path = path
        _wait_until_free(device)
        self.descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.descriptor},rootmode=40000,user_id=0,group_id=0,blksize=512"
        words = (device.encode(), os.fsencode(path), b"fuseblk", 0, options.encode())
        if _libc.mount(*words) != 0:
            code = ctypes.get_errno()
            os.close(self.descriptor)
            raise OSError(code, os.strerror(code), str(path))

    def close(self) -> None:
        """What was not answered fails for whoever waits for it."""
        # In this order: the kernel takes leave of a file system that still listens, and waits.
        os.close(self.descriptor)
        _libc.umount2(os.fsencode(self.path), _MNT_DETACH)

    def next(self) -> Request:
        raw = os.read(self.descriptor, _BUFFER)
        _, opcode, unique, node, *_ = _IN.unpack_from(raw)
        return Request(opcode, unique, node, memoryview(raw)[_IN.size :])

    def answer(self, request: Request, body: bytes = b"", error: int = 0) -> None:
        if request.opcode in UNANSWERED:
            return
        head = _OUT.pack(_OUT.size + len(body), -error, request.unique)
        try:
            os.write(self.descriptor, head + body)
        except FileNotFoundError:
            pass  # whoever asked was killed meanwhile


def _wait_until_free(device: str) -> None:
    """Mounted again too early, the file system of before would be found under the device."""
    deadline = time.monotonic() + 30
    while True:
        try:
            os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.001)
        else:
            return


def greeting(request: Request) -> bytes:
    """The answer to INIT: caches are written back by the kernel when it likes, as on a disk."""
    _, minor, ahead, offered = struct.unpack_from("<IIII", request.body)
    wanted = offered & (_WRITEBACK_CACHE | _MAX_PAGES | _BIG_WRITES)
    assert wanted & _WRITEBACK_CACHE
    pages = LARGEST_WRITE // 4_096
    return _INIT.pack(7, min(minor, 38), ahead, wanted, 16, 12, LARGEST_WRITE, 1, pages, 0, 0, 0)


def entry(attributes: Attributes) -> bytes:
    """The answer that names a file, known for an hour: nobody but the kernel changes it."""
    head = _ENTRY.pack(attributes.node, 0, 3600, 3600, 0, 0)
    return head + attributes.encode()


def known(attributes: Attributes) -> bytes:
    return _KNOWN_FOR.pack(3600, 0, 0) + attributes.encode()


def listing(names: list[tuple[bytes, int, int]], first: int, size: int) -> bytes:
    """Names with their nodes and modes, from a place on, as many as there is room for."""
    out = bytearray()
    for place, (name, node, mode) in enumerate(names[first:], first + 1):
        line = _DIRENT.pack(node, place, len(name), stat.S_IFMT(mode) >> 12) + name
        line += bytes(-len(line) % 8)
        if len(out) + len(line) > size:
            break
        out += line
    return bytes(out)


def statistics(blocks: int, free: int) -> bytes:
    return _STATFS.pack(blocks, free, free, 1 << 20, 1 << 19, 4_096, 255, 4_096, 0)


def is_possible() -> bool:
    """Whether this machine lets us mount file systems of our own."""
    if os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
        os.close(os.open("/dev/loop-control", os.O_RDWR))
    except OSError:
        return False
    return "fuseblk" in Path("/proc/filesystems").read_text()
