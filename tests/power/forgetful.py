"""A file system that forgets what was not synced, when its power is cut.

    python -m tests.power.forgetful FOLDER DEVICE SEED

Files are kept in memory, page by page, as the kernel writes them back; beside them what a cut
cannot take away. Strict where POSIX is: a sync of a file says nothing of its name, and a sync of a
directory nothing of the directory's own name. After a cut

- each sector written since its file was last synced has its old content or its new one;
- a file that has grown or shrunk since has either size;
- of the names given and taken since their directories were synced, the first few are so, in the
  order in which it was done.

Commands come as lines, and each is answered with one:

    cut N       the power goes N requests from now, at once with 0: nothing is synced any more
                (answer "dark", when it has gone)
    again       mounted anew with what is left (answer "mounted LOST", sectors that are gone)
"""

import errno
import os
import random
import select
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.power import fuse
from tests.power.fuse import Attributes, Mount, Opcode, Request

_PAGE: Final = 4_096
_SECTOR: Final = 512
_ZEROS: Final = bytes(_PAGE)
_BLOCKS: Final = 1 << 20
_SIZE, _MTIME, _MTIME_NOW, _MODE = 8, 32, 256, 1
_KEEP_SIZE, _PUNCH, _ZERO_RANGE = 1, 2, 16
_NO_REPLACE: Final = 1
_CHANGING: Final = frozenset(
    {
        *(Opcode.WRITE, Opcode.FSYNC, Opcode.FSYNCDIR, Opcode.SYNCFS, Opcode.CREATE, Opcode.MKDIR),
        *(Opcode.UNLINK, Opcode.RMDIR, Opcode.RENAME, Opcode.RENAME2, Opcode.FALLOCATE),
        Opcode.SETATTR,
    }
)


class File:
    """Pages as they are, and as they were when they were last synced."""

    def __init__(self, mode: int) -> None:
        self.mode = mode
        self.size = 0
        self.modified_ns = time.time_ns()
        self.pages: dict[int, bytes] = {}
        self.synced_size = 0
        self._synced: dict[int, bytes] = {}
        self._unsynced: set[int] = set()

    def read(self, offset: int, size: int) -> bytes:
        size = max(min(size, self.size - offset), 0)
        first = offset // _PAGE
        last = -(-(offset + size) // _PAGE)
        whole = b"".join(self.pages.get(number, _ZEROS) for number in range(first, last))
        start = offset - first * _PAGE
        return whole[start : start + size]

    def write(self, offset: int, data: memoryview) -> None:
        self.size = max(self.size, offset + len(data))
        while data:
            number, start = divmod(offset, _PAGE)
            part = data[: _PAGE - start]
            if len(part) == _PAGE:
                page = bytes(part)
            else:
                before = self.pages.get(number, _ZEROS)
                page = before[:start] + bytes(part) + before[start + len(part) :]
            self.pages[number] = page
            self._unsynced.add(number)
            offset += len(part)
            data = data[len(part) :]

    def clear(self, offset: int, size: int) -> None:
        while size > 0:
            number, start = divmod(offset, _PAGE)
            part = min(_PAGE - start, size)
            if number in self.pages:
                before = self.pages[number]
                self.pages[number] = before[:start] + bytes(part) + before[start + part :]
                self._unsynced.add(number)
            offset += part
            size -= part

    def resize(self, size: int) -> None:
        if size < self.size:
            self.clear(size, self.size - size)
        self.size = size

    def sync(self) -> None:
        for number in self._unsynced:
            self._synced[number] = self.pages[number]
        self._unsynced.clear()
        self.synced_size = self.size

    def lose(self, chance: random.Random) -> int:
        """Keep what a cut leaves; how many sectors were lost."""
        lost = 0
        luck = chance.choice((0.0, 0.5, 0.95))
        for number in self._unsynced:
            old, new = self._synced.get(number, _ZEROS), self.pages[number]
            sectors = []
            for at in range(0, _PAGE, _SECTOR):
                is_old = chance.random() >= luck
                lost += is_old and old[at : at + _SECTOR] != new[at : at + _SECTOR]
                sectors.append((old if is_old else new)[at : at + _SECTOR])
            self.pages[number] = self._synced[number] = b"".join(sectors)
        self._unsynced.clear()
        if self.size != self.synced_size and chance.random() < 0.5:
            self.resize(self.synced_size)
        self.sync()
        return lost


class Folder:
    """Names as they are, and as they were when they were last synced."""

    def __init__(self, mode: int) -> None:
        self.mode = mode
        self.size = _PAGE
        self.modified_ns = time.time_ns()
        self.names: dict[bytes, int] = {}
        self.synced: dict[bytes, int] = {}


Node = File | Folder
Change = list[tuple[int, bytes, int | None]]
"""Names given in directories, or taken, by one call."""


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(os.strerror(code))
        self.code = code


class ForgetfulFileSystem:
    """What is mounted, and what a cut leaves of it."""

    def __init__(self, chance: random.Random) -> None:
        self.is_dark = False
        self._chance = chance
        self._nodes: dict[int, Node] = {fuse.ROOT: Folder(stat.S_IFDIR | 0o755)}
        self._last = fuse.ROOT
        self._changes: list[Change] = []
        self._does: dict[int, Callable[[Request], bytes]] = {
            Opcode.INIT: fuse.greeting,
            Opcode.LOOKUP: lambda r: self._entry(self._child(r.node, _name(r.body))),
            Opcode.GETATTR: lambda r: fuse.known(self._attributes(r.node)),
            Opcode.SETATTR: self._set_attributes,
            Opcode.MKDIR: lambda r: self._make(r, 8, stat.S_IFDIR),
            Opcode.MKNOD: lambda r: self._make(r, 16, 0),
            Opcode.CREATE: lambda r: self._make(r, 16, 0, at=4) + bytes(16),
            Opcode.UNLINK: self._unlink,
            Opcode.RMDIR: self._unlink,
            Opcode.RENAME: lambda r: self._rename(r, 8),
            Opcode.RENAME2: lambda r: self._rename(r, 16),
            Opcode.OPEN: lambda r: bytes(16),
            Opcode.OPENDIR: lambda r: bytes(16),
            Opcode.READ: self._read,
            Opcode.READDIR: self._list,
            Opcode.WRITE: self._write,
            Opcode.FALLOCATE: self._allocate,
            Opcode.FSYNC: self._sync,
            Opcode.FSYNCDIR: self._sync_folder,
            Opcode.SYNCFS: self._sync_all,
            Opcode.STATFS: self._statistics,
        } | dict.fromkeys(
            (Opcode.FLUSH, Opcode.RELEASE, Opcode.RELEASEDIR, Opcode.ACCESS, Opcode.DESTROY),
            lambda r: b"",
        )

    def do(self, request: Request) -> bytes:
        handler = self._does.get(request.opcode)
        if handler is None:
            raise Refused(errno.ENOSYS)
        return handler(request)

    # Names

    def _folder(self, node: int) -> Folder:
        found = self._nodes[node]
        assert isinstance(found, Folder)
        return found

    def _file(self, node: int) -> File:
        found = self._nodes[node]
        assert isinstance(found, File)
        return found

    def _child(self, folder: int, name: bytes) -> int:
        found = self._folder(folder).names.get(name)
        if found is None:
            raise Refused(errno.ENOENT)
        return found

    def _attributes(self, node: int) -> Attributes:
        found = self._nodes[node]
        return Attributes(node, found.mode, found.size, found.modified_ns)

    def _entry(self, node: int) -> bytes:
        return fuse.entry(self._attributes(node))

    def _make(self, request: Request, head: int, kind: int, at: int = 0) -> bytes:
        (mode,) = struct.unpack_from("<I", request.body, at)
        name = _name(request.body[head:])
        if name in self._folder(request.node).names:
            raise Refused(errno.EEXIST)
        self._last += 1
        self._nodes[self._last] = Folder(kind | mode) if kind else File(mode)
        self._change([(request.node, name, self._last)])
        return self._entry(self._last)

    def _unlink(self, request: Request) -> bytes:
        name = _name(request.body)
        found = self._nodes[self._child(request.node, name)]
        if isinstance(found, Folder) and found.names:
            raise Refused(errno.ENOTEMPTY)
        self._change([(request.node, name, None)])
        return b""

    def _rename(self, request: Request, head: int) -> bytes:
        goal, flags = struct.unpack_from("<QI", request.body.tobytes().ljust(12, b"\0"))
        old, new, _ = request.body[head:].tobytes().split(b"\0")
        node = self._child(request.node, old)
        there = self._folder(goal).names.get(new)
        if head == 16 and flags & ~_NO_REPLACE:
            raise Refused(errno.EINVAL)
        if there is not None:
            if head == 16 and flags & _NO_REPLACE:
                raise Refused(errno.EEXIST)
            replaced = self._nodes[there]
            if isinstance(replaced, Folder) and replaced.names:
                raise Refused(errno.ENOTEMPTY)
        self._change([(request.node, old, None), (goal, new, node)])
        return b""

    def _change(self, change: Change) -> None:
        self._changes.append(change)
        for folder, name, node in change:
            _put(self._folder(folder).names, name, node)
            self._folder(folder).modified_ns = time.time_ns()

    def _list(self, request: Request) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", request.body)
        names = self._folder(request.node).names
        every = [(name, node, self._nodes[node].mode) for name, node in names.items()]
        here = [(name, request.node, stat.S_IFDIR) for name in (b".", b"..")]
        return fuse.listing(here + every, offset, size)

    # Contents

    def _set_attributes(self, request: Request) -> bytes:
        valid, _, _, size, _, _, mtime, _, _, mtime_ns, _, mode = struct.unpack_from(
            "<IIQQQQQQIIII", request.body
        )
        node = self._nodes[request.node]
        if valid & _SIZE:
            self._file(request.node).resize(size)
        if valid & _MTIME_NOW:
            node.modified_ns = time.time_ns()
        elif valid & _MTIME:
            node.modified_ns = mtime * 1_000_000_000 + mtime_ns
        if valid & _MODE:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        return fuse.known(self._attributes(request.node))

    def _read(self, request: Request) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", request.body)
        return self._file(request.node).read(offset, size)

    def _write(self, request: Request) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", request.body)
        self._file(request.node).write(offset, request.body[40 : 40 + size])
        return struct.pack("<II", size, 0)

    def _allocate(self, request: Request) -> bytes:
        _, offset, size, mode = struct.unpack_from("<QQQI", request.body)
        file = self._file(request.node)
        if mode & ~(_KEEP_SIZE | _PUNCH | _ZERO_RANGE):
            raise Refused(errno.EOPNOTSUPP)
        if mode & (_PUNCH | _ZERO_RANGE):
            file.clear(offset, size)
        if not mode & _KEEP_SIZE:
            file.size = max(file.size, offset + size)
        return b""

    def _statistics(self, _: Request) -> bytes:
        used = sum(len(node.pages) for node in self._nodes.values() if isinstance(node, File))
        return fuse.statistics(_BLOCKS, max(_BLOCKS - used, 0))

    # Syncs and cuts

    def _sync(self, request: Request) -> bytes:
        if self.is_dark:
            raise Refused(errno.EIO)
        self._file(request.node).sync()
        return b""

    def _sync_folder(self, request: Request) -> bytes:
        if self.is_dark:
            raise Refused(errno.EIO)
        waiting = []
        for change in self._changes:
            if any(folder == request.node for folder, _, _ in change):
                self._keep(change)
            else:
                waiting.append(change)
        self._changes = waiting
        return b""

    def _sync_all(self, _: Request) -> bytes:
        if self.is_dark:
            raise Refused(errno.EIO)
        for change in self._changes:
            self._keep(change)
        self._changes.clear()
        for node in self._nodes.values():
            if isinstance(node, File):
                node.sync()
        return b""

    def _keep(self, change: Change) -> None:
        for folder, name, node in change:
            _put(self._folder(folder).synced, name, node)

    def lose_power(self) -> int:
        """What the next mount finds; how many sectors are lost."""
        kept = self._chance.choice((0, self._chance.randint(0, len(self._changes))))
        for change in self._changes[:kept]:
            self._keep(change)
        self._changes.clear()
        reached: dict[int, Node] = {}
        self._reach(fuse.ROOT, reached)
        self._nodes = reached
        lost = 0
        for node in reached.values():
            if isinstance(node, File):
                lost += node.lose(self._chance)
            else:
                node.names = dict(node.synced)
        self.is_dark = False
        return lost

    def _reach(self, number: int, reached: dict[int, Node]) -> None:
        node = reached[number] = self._nodes[number]
        if isinstance(node, Folder):
            for child in node.synced.values():
                self._reach(child, reached)


def _name(body: memoryview) -> bytes:
    return body.tobytes().split(b"\0", 1)[0]


def _put(names: dict[bytes, int], name: bytes, node: int | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


class Server:
    """Answers the kernel and whoever holds the switch, one after the other."""

    def __init__(self, path: Path, device: str, seed: int) -> None:
        self._files = ForgetfulFileSystem(random.Random(seed))
        self._path = path
        self._device = device
        self._mount = Mount(path, device)
        self._until_cut: int | None = None

    def serve(self) -> None:
        print("mounted 0", flush=True)
        commands = sys.stdin.fileno()
        try:
            while True:
                ready, _, _ = select.select([self._mount.descriptor, commands], [], [])
                if commands in ready:
                    words = os.read(commands, 4_096).split()
                    if not words:
                        return
                    self._obey(words)
                else:
                    self._answer(self._mount.next())
        finally:
            self._mount.close()

    def _obey(self, words: list[bytes]) -> None:
        if words[0] == b"again":
            self._mount.close()
            lost = self._files.lose_power()
            self._mount = Mount(self._path, self._device)
            self._until_cut = None
            print(f"mounted {lost}", flush=True)
        elif not self._files.is_dark:
            self._until_cut = int(words[1])
            self._cut_if_due()

    def _answer(self, request: Request) -> None:
        try:
            self._mount.answer(request, self._files.do(request))
        except Refused as refused:
            self._mount.answer(request, error=refused.code)
        if self._until_cut is not None and request.opcode in _CHANGING:
            self._until_cut -= 1
            self._cut_if_due()

    def _cut_if_due(self) -> None:
        if self._until_cut is not None and self._until_cut <= 0:
            self._until_cut = None
            self._files.is_dark = True
            print("dark", flush=True)


if __name__ == "__main__":
    Server(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])).serve()
