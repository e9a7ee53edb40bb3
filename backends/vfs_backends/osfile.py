"""Open files and descriptors of the operating system."""

import errno
import os
import stat
from typing import Self

from vfs.kernel.ports import Stat
from vfs_backends import syscalls
from vfs_backends.errors import os_error

_READ_STEP = 1 << 20


class Descriptor:
    """A descriptor that is closed when nobody uses it any more, and not before.

    Whoever makes a call on it holds a reference meanwhile. So a `close` in another thread can neither pull
    it away nor let its number name something else in the middle of the call.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class Root(Descriptor):
    """The directory that a backend serves; `with root as fd` makes calls on it.

    ENOENT within the block becomes ESTALE if the directory itself has been removed: what is missing then
    is not the path but everything.
    """

    __slots__ = ()

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is not None and isinstance(error, FileNotFoundError):
            explained = self.explain(error)
            if explained is not error:
                raise explained from error

    def explain(self, error: FileNotFoundError) -> OSError:
        """Return what to raise for `error`, for calls too frequent to afford the block."""
        if self.fd >= 0 and os.fstat(self.fd).st_nlink == 0:
            return OSError(errno.ESTALE, "the root of the storage has been removed")
        return error


class OsFile:
    """A regular file that the operating system keeps open; see `vfs.kernel.ports.BackendFile`.

    After `close` every call is EBADF.
    """

    __slots__ = ("_append", "_held", "_writes")

    def __init__(self, descriptor: int, flags: int) -> None:
        self._held = Descriptor(descriptor)
        self._append = bool(flags & os.O_APPEND)
        self._writes = flags & os.O_ACCMODE != os.O_RDONLY

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pread(self, size: int, offset: int) -> bytes:
        """See `BackendFile.pread`."""
        held = self._held
        if size > _READ_STEP:
            # `os.pread` allocates what it is asked for before it knows what there is.
            size = min(size, max(0, os.fstat(held.fd).st_size - offset))
        data = os.pread(held.fd, size, offset)
        if not data or len(data) == size:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(held.fd, size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, data: bytes, offset: int) -> int:
        """See `BackendFile.pwrite`."""
        held = self._held
        if self._append:
            write_all(held.fd, data)
            return len(data)
        written = os.pwrite(held.fd, data, offset)
        while written < len(data):
            written += os.pwrite(held.fd, memoryview(data)[written:], offset + written)
        return written

    def truncate(self, size: int) -> None:
        """See `BackendFile.truncate`."""
        held = self._held
        os.ftruncate(held.fd, size)

    def stat(self) -> Stat:
        """See `BackendFile.stat`."""
        held = self._held
        return to_stat(os.fstat(held.fd))

    def set_times(self, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `BackendFile.set_times`."""
        held = self._held
        syscalls.set_file_times(held.fd, atime_ns, mtime_ns)

    def set_mode(self, mode: int) -> None:
        """See `BackendFile.set_mode`."""
        held = self._held
        os.fchmod(held.fd, stat.S_IMODE(mode))

    def sync(self, *, data_only: bool) -> None:
        """See `BackendFile.sync`."""
        held = self._held
        if data_only and hasattr(os, "fdatasync"):
            os.fdatasync(held.fd)
        else:
            os.fsync(held.fd)

    def fileno(self) -> int | None:
        """Return the descriptor, which `close` takes away; None once closed."""
        return self._held.fd if self._held.fd >= 0 else None

    def close(self) -> None:
        """See `BackendFile.close`; a call that another thread has under way still ends."""
        held, self._held = self._held, Descriptor(-1)
        if self._writes and held.fd >= 0:
            # Closing any descriptor of a file reports what could not be written back (NFS, FUSE, quota);
            # the last reference cannot report.
            os.close(os.dup(held.fd))


def to_stat(result: os.stat_result) -> Stat:
    """Return `Stat` from what `os.stat` returns; without a birth time `created_ns` is the earliest time."""
    atime, mtime, ctime = result.st_atime_ns, result.st_mtime_ns, result.st_ctime_ns
    return Stat(
        result.st_mode,
        result.st_size,
        result.st_ino,
        result.st_nlink,
        result.st_uid,
        result.st_gid,
        atime,
        mtime,
        ctime,
        min(atime, mtime, ctime),
        result.st_blocks,
    )


def require_regular(result: os.stat_result, path: str) -> None:
    """Refuse what is no regular file: EISDIR, ELOOP, and ENXIO for what a reader could wait for."""
    mode = result.st_mode
    if stat.S_ISREG(mode):
        return
    number = errno.EISDIR if stat.S_ISDIR(mode) else errno.ELOOP if stat.S_ISLNK(mode) else errno.ENXIO
    raise os_error(number, path)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data` where the descriptor stands."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])
