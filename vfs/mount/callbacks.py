# ruff: noqa: D102 (each method of `Callbacks` is the member of `struct fuse_operations` of its name)
"""What libfuse calls: C arguments become `Operations` calls, results and errors become C again.

Names that are not UTF-8 are carried as lone surrogates both ways. No exception ever reaches libfuse: a process
whose request is not answered could not even be killed.
"""

import ctypes
import errno
import operator
import struct
import time
from collections.abc import Callable
from typing import Any

from vfs.kernel.ports import Stat
from vfs.mount import libfuse
from vfs.mount.operations import Operations, number_of, time_ns

__all__ = ["Callbacks"]

_MINUS_ONE = 0xFFFFFFFF
_STAT_SIZE = ctypes.sizeof(libfuse.Stat)
_CODES = {2: "H", 4: "I", 8: "Q"}
_STATVFS_SIZE = ctypes.sizeof(libfuse.StatVfs)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


class _StatPacker:
    """Packs metadata into the platform's `struct stat`, whose layout is read off fusepy's declaration once."""

    _TIMES = ("st_atimespec", "st_mtimespec", "st_ctimespec")
    _PLAIN = ("st_ino", "st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")

    def __init__(self) -> None:
        places: list[tuple[int, str, str]] = []
        for name in self._PLAIN:
            field = getattr(libfuse.Stat, name)
            places.append((field.offset, _CODES[field.size], name))
        for name in self._TIMES:
            field = getattr(libfuse.Stat, name)
            places.append((field.offset, "q" if field.size == 16 else "i", f"{name}.s"))
            places.append((field.offset + field.size // 2, "q" if field.size == 16 else "i", f"{name}.ns"))
        layout, at, order = "=", 0, []
        for offset, code, name in sorted(places):
            layout += f"{offset - at}x{code}"
            at = offset + struct.calcsize(f"={code}")
            order.append(name)
        self._pack = struct.Struct(layout + f"{_STAT_SIZE - at}x").pack
        names = [*self._PLAIN, *(f"{name}.{part}" for name in self._TIMES for part in ("s", "ns"))]
        self._in_order = operator.itemgetter(*(names.index(name) for name in order))

    def __call__(self, found: Stat) -> bytes:
        atime, atime_ns = divmod(found.atime_ns, 10**9)
        mtime, mtime_ns = divmod(found.mtime_ns, 10**9)
        ctime, ctime_ns = divmod(found.ctime_ns, 10**9)
        values = (
            found.ino, found.mode, found.nlink, found.uid, found.gid, found.size, found.blocks,
            atime, atime_ns, mtime, mtime_ns, ctime, ctime_ns,
        )  # fmt: skip
        return self._pack(*self._in_order(values))


class Callbacks:
    """The callbacks over one session's operations; `table` is what libfuse is given.

    `before` is called first in each of them.

    A method is named like the member of `struct fuse_operations` it serves. What is not here libfuse answers
    itself: locks are kept by the operating system, `ioctl`, `bmap` and `poll` are not supported.
    """

    def __init__(self, operations: Operations, *, before: Callable[[], None] | None = None) -> None:
        self._operations = operations
        self._stat = _StatPacker()
        self._entry = libfuse.Stat()
        self.opened = 0
        """The number of the file that was opened or created last."""
        self.table = libfuse.operations_type()
        # Open files are worked with by number, so that they live on without a name, and each time of a pair
        # can be left as it is.
        self.table.flag_nullpath_ok = 1
        self.table.flag_utime_omit_ok = 1
        for name, prototype in ((field[0], field[1]) for field in libfuse.operations_type._fields_):
            method = getattr(type(self), name, None)
            if method is not None:
                setattr(self.table, name, prototype(_guarded(getattr(self, name), before)))

    # Metadata

    def getattr(self, path: bytes, into: Any) -> int:
        ctypes.memmove(into, self._stat(self._operations.getattr(_text(path))), _STAT_SIZE)
        return 0

    def fgetattr(self, _path: bytes | None, into: Any, info: Any) -> int:
        ctypes.memmove(into, self._stat(self._operations.fgetattr(info.contents.fh)), _STAT_SIZE)
        return 0

    def access(self, path: bytes, mask: int) -> int:
        self._operations.access(_text(path), mask)
        return 0

    def chmod(self, path: bytes, mode: int) -> int:
        self._operations.chmod(_text(path), mode)
        return 0

    def chown(self, path: bytes, uid: int, gid: int) -> int:
        self._operations.chown(
            _text(path), -1 if uid == _MINUS_ONE else uid, -1 if gid == _MINUS_ONE else gid
        )
        return 0

    def utimens(self, path: bytes, times: Any) -> int:
        now = time.time_ns()
        atime, mtime = times.contents.actime, times.contents.modtime
        self._operations.utimens(
            _text(path),
            time_ns(atime.tv_sec, atime.tv_nsec, now),
            time_ns(mtime.tv_sec, mtime.tv_nsec, now),
        )
        return 0

    def statfs(self, path: bytes, into: Any) -> int:
        space = self._operations.statfs(_text(path))
        ctypes.memset(into, 0, _STATVFS_SIZE)
        found = into.contents
        found.f_bsize = found.f_frsize = space.bsize
        found.f_blocks, found.f_bfree, found.f_bavail = space.blocks, space.bfree, space.bavail
        found.f_files, found.f_ffree, found.f_favail = space.files, space.ffree, space.ffree
        if hasattr(found, "f_namemax"):
            found.f_namemax = space.namemax
        return 0

    # The last argument is macOS's position.

    def getxattr(self, path: bytes, name: bytes, into: Any, size: int, *_: int) -> int:
        return _give(self._operations.getxattr(_text(path), _text(name)), into, size)

    def setxattr(self, path: bytes, name: bytes, value: Any, size: int, flags: int, *_: int) -> int:
        self._operations.setxattr(_text(path), _text(name), ctypes.string_at(value, size), flags)
        return 0

    def listxattr(self, path: bytes, into: Any, size: int) -> int:
        names = self._operations.listxattr(_text(path))
        return _give(b"".join(_bytes(name) + b"\0" for name in names), into, size)

    def removexattr(self, path: bytes, name: bytes) -> int:
        self._operations.removexattr(_text(path), _text(name))
        return 0

    # Names

    def readlink(self, path: bytes, into: Any, size: int) -> int:
        target = _bytes(self._operations.readlink(_text(path)))[: size - 1] + b"\0"
        ctypes.memmove(into, target, len(target))
        return 0

    def symlink(self, target: bytes, path: bytes) -> int:
        self._operations.symlink(_text(target), _text(path))
        return 0

    def link(self, source: bytes, path: bytes) -> int:
        self._operations.link(_text(source), _text(path))
        return 0

    def mkdir(self, path: bytes, mode: int) -> int:
        self._operations.mkdir(_text(path), mode)
        return 0

    def mknod(self, path: bytes, mode: int, _device: int) -> int:
        self._operations.mknod(_text(path), mode)
        return 0

    def unlink(self, path: bytes) -> int:
        self._operations.unlink(_text(path))
        return 0

    def rmdir(self, path: bytes) -> int:
        self._operations.rmdir(_text(path))
        return 0

    def rename(self, old: bytes, new: bytes) -> int:
        self._operations.rename(_text(old), _text(new))
        return 0

    def truncate(self, path: bytes, size: int) -> int:
        self._operations.truncate(_text(path), size)
        return 0

    # Open files

    def open(self, path: bytes, info: Any) -> int:
        found = info.contents
        found.fh = self.opened = self._operations.open(_text(path), found.flags)
        return 0

    def create(self, path: bytes, mode: int, info: Any) -> int:
        found = info.contents
        found.fh = self.opened = self._operations.create(_text(path), found.flags, mode)
        return 0

    def read(self, _path: bytes | None, into: Any, size: int, offset: int, info: Any) -> int:
        data = self._operations.read(info.contents.fh, size, offset)
        ctypes.memmove(into, data, len(data))
        return len(data)

    def write(self, _path: bytes | None, data: Any, size: int, offset: int, info: Any) -> int:
        return self._operations.write(info.contents.fh, ctypes.string_at(data, size), offset)

    def ftruncate(self, _path: bytes | None, size: int, info: Any) -> int:
        self._operations.ftruncate(info.contents.fh, size)
        return 0

    def flush(self, _path: bytes | None, info: Any) -> int:
        self._operations.flush(info.contents.fh)
        return 0

    def fsync(self, _path: bytes | None, data_only: int, info: Any) -> int:
        self._operations.fsync(info.contents.fh, bool(data_only))
        return 0

    def release(self, _path: bytes | None, info: Any) -> int:
        self._operations.release(info.contents.fh)
        return 0

    # Directories

    def opendir(self, path: bytes, info: Any) -> int:
        info.contents.fh = self._operations.opendir(_text(path))
        return 0

    def readdir(self, _path: bytes | None, buffer: Any, fill: Any, _offset: int, info: Any) -> int:
        # Each name at offset 0: libfuse keeps the list and hands it out piecemeal.
        entry = self._entry
        fill(buffer, b".", None, 0)
        fill(buffer, b"..", None, 0)
        for name, entry.st_ino, entry.st_mode in self._operations.readdir(info.contents.fh):
            if fill(buffer, _bytes(name), entry, 0):
                return -errno.ENOMEM
        return 0

    def releasedir(self, _path: bytes | None, info: Any) -> int:
        self._operations.releasedir(info.contents.fh)
        return 0

    def fsyncdir(self, _path: bytes | None, _data_only: int, info: Any) -> int:
        self._operations.fsyncdir(info.contents.fh)
        return 0


def _guarded(method: Callable[..., int], before: Callable[[], None] | None) -> Callable[..., int]:
    """Make every exception, of whatever kind, the negative errno that libfuse understands."""

    def call(*arguments: Any) -> int:
        try:
            if before is not None:
                before()
            return method(*arguments)
        except OSError as error:
            return -(error.errno or errno.EIO)
        except BaseException as error:  # noqa: BLE001 (an exception that reached libfuse would hang the caller)
            return -number_of(error)

    return call


def _give(data: bytes, into: Any, size: int) -> int:
    """Answer a call that may first ask for the size."""
    if size == 0:
        return len(data)
    if len(data) > size:
        return -errno.ERANGE
    ctypes.memmove(into, data, len(data))
    return len(data)
