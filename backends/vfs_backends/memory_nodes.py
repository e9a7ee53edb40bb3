"""What a memory backend keeps: inodes, and file content that stores no holes."""

import errno
import os
import stat
import time

from vfs.kernel.ports import Stat

_PAGE = 1 << 16
_LARGEST_FILE = (1 << 63) - 1


class Space:
    """The bytes in use, of at most `capacity` (None: no limit). Not thread-safe: the backend's lock guards it."""

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.used = 0

    def take(self, size: int) -> None:
        """Take `size` more bytes, or give back if negative; ENOSPC beyond the capacity."""
        if size > 0 and self.capacity is not None and self.used + size > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.used += size


class Content:
    """The bytes of a file in pages; a page that nobody wrote is a hole and takes no memory."""

    __slots__ = ("_pages", "_space", "size")

    def __init__(self, space: Space) -> None:
        self.size = 0
        self._pages: dict[int, bytearray] = {}
        self._space = space

    @property
    def stored(self) -> int:
        """Bytes that take memory."""
        return sum(map(len, self._pages.values()))

    def read(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end."""
        end = min(offset + size, self.size)
        if end <= offset:
            return b""
        result = bytearray(end - offset)
        for number in range(offset // _PAGE, (end - 1) // _PAGE + 1):
            page = self._pages.get(number)
            if page is None:
                continue
            start = number * _PAGE
            low, high = max(offset, start), min(end, start + len(page))
            if low < high:
                result[low - offset : high - offset] = page[low - start : high - start]
        return bytes(result)

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data`; on ENOSPC what fitted stays written."""
        if offset + len(data) > _LARGEST_FILE:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        view = memoryview(data)
        while view:
            number, start = divmod(offset, _PAGE)
            part = view[: _PAGE - start]
            page = self._pages.get(number, bytearray())
            growth = start + len(part) - len(page)
            if growth > 0:
                self._space.take(growth)
                page.extend(bytes(growth))
            page[start : start + len(part)] = part
            self._pages[number] = page
            offset += len(part)
            self.size = max(self.size, offset)
            view = view[len(part) :]

    def truncate(self, size: int) -> None:
        """Cut, or extend by a hole."""
        if size < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if size > _LARGEST_FILE:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        last, kept = divmod(size, _PAGE)
        if size < self.size:
            for number in [number for number in self._pages if number >= last]:
                page = self._pages[number]
                keep = kept if number == last else 0
                self._space.take(-max(0, len(page) - keep))
                del page[keep:]
                if not page:
                    del self._pages[number]
        self.size = size


class Node:
    """An inode: a file, directory, link, FIFO or socket, whatever names it has."""

    __slots__ = (
        "atime_ns",
        "children",
        "content",
        "created_ns",
        "ctime_ns",
        "gid",
        "ino",
        "mode",
        "mtime_ns",
        "nlink",
        "opened",
        "target",
        "uid",
        "xattrs",
    )

    def __init__(self, ino: int, mode: int, space: Space, *, target: str = "") -> None:
        now = time.time_ns()
        self.ino = ino
        self.mode = mode
        self.uid = os.geteuid()
        self.gid = os.getegid()
        self.nlink = 2 if stat.S_ISDIR(mode) else 1
        self.atime_ns = self.mtime_ns = self.ctime_ns = self.created_ns = now
        self.children: dict[str, Node] = {}
        self.content = Content(space)
        self.target = target
        self.xattrs: dict[str, bytes] = {}
        self.opened = 0

    @property
    def type(self) -> int:
        """The type bits of the mode."""
        return stat.S_IFMT(self.mode)

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)

    def stat(self) -> Stat:
        """Return the metadata."""
        size = len(os.fsencode(self.target)) if stat.S_ISLNK(self.mode) else self.content.size
        return Stat(
            self.mode,
            size,
            self.ino,
            self.nlink,
            self.uid,
            self.gid,
            self.atime_ns,
            self.mtime_ns,
            self.ctime_ns,
            self.created_ns,
            (self.content.stored + 511) // 512,
        )

    def changed(self, *, content: bool = False) -> None:
        """Note that metadata, or content too, changes now."""
        self.ctime_ns = time.time_ns()
        if content:
            self.mtime_ns = self.ctime_ns

    def set_times(self, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times given."""
        self.atime_ns = self.atime_ns if atime_ns is None else atime_ns
        self.mtime_ns = self.mtime_ns if mtime_ns is None else mtime_ns
        self.changed()

    def set_mode(self, mode: int) -> None:
        """Set the permission bits."""
        self.mode = self.type | stat.S_IMODE(mode)
        self.changed()

    def release(self) -> None:
        """Give back the content once neither a name nor an open file holds it."""
        if self.nlink == 0 and self.opened == 0:
            self.content.truncate(0)
