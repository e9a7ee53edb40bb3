"""What a mount does: POSIX calls on paths and open files, translated to a session's `Files` and nothing more.

Engines serve these operations to the operating system. Verdicts, audit rows and storage are the kernel's
business; the engine knows the wire. Here is what neither knows: the numbers of open files, whose files a
program is to believe it owns, and which errno says what happened.

Every method raises OSError with an errno and nothing else. Paths begin with a slash; names are bytes-faithful
(`os.fsencode` gives their bytes). Calls may come from several threads as far as the kernel's `Files` allow.
"""

import errno
import functools
import itertools
import logging
import os
import stat
import threading
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

from vfs.kernel.errors import InvalidPathError, SandboxError
from vfs.kernel.files import Files
from vfs.kernel.handles import Handle
from vfs.kernel.paths import NAME_MAX
from vfs.kernel.ports import DirEntry, RenameFlag, Stat, StatVfs
from vfs.kernel.trust import Operation
from vfs.kernel.zones import ZONES

__all__ = ["UTIME_NOW", "UTIME_OMIT", "Operations", "number_of", "time_ns"]

P = ParamSpec("P")
R = TypeVar("R")

UTIME_NOW = 0x3FFFFFFF
"""As nanoseconds of a time: the time is now (utimensat(2))."""

UTIME_OMIT = 0x3FFFFFFE
"""As nanoseconds of a time: the time stays as it is."""

_OPEN_FLAGS = os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND
_SECOND = 10**9
_NODE_TYPES = (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
_USER = "user."

_log = logging.getLogger("vfs.mount")


def number_of(error: BaseException) -> int:
    """Return the errno that tells a program what `error` means; EIO, and a line in the log, if it is a bug."""
    if isinstance(error, InvalidPathError):
        return _number_of_path(error.path or "")
    if isinstance(error, SandboxError):
        return error.errno
    if isinstance(error, OSError) and error.errno:
        return error.errno
    _log.error("an operation of the mount failed unexpectedly", exc_info=error)
    return errno.EIO


def _number_of_path(path: str) -> int:
    """Tell the over-long from the unknown: programs know a name that is not there from one that cannot be."""
    names = [name for name in path.split("/") if name]
    if path.endswith("…") or any(len(os.fsencode(name)) > NAME_MAX for name in names):
        return errno.ENAMETOOLONG
    return errno.ENOENT if names and names[0] not in ZONES else errno.EINVAL


def _posix(method: Callable[P, R]) -> Callable[P, R]:
    """Make every exception of an operation an OSError with an errno."""

    @functools.wraps(method)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return method(*arguments, **named)
        except Exception as error:
            number = number_of(error)
            raise OSError(number, os.strerror(number)) from error

    return call


class Owner(NamedTuple):
    """A user and a group."""

    uid: int
    gid: int


class _Directory:
    """An open directory: what was listed when it was opened, until it is read."""

    __slots__ = ("entries", "path")

    def __init__(self, path: str, entries: list[DirEntry]) -> None:
        self.path = path
        self.entries: list[DirEntry] | None = entries


class Operations:
    """One session's tree as POSIX calls.

    A file that belongs to whom the root of its zone belongs to is shown as the server's own, so that programs
    run by the server's user find it theirs (git calls any other repository one of dubious ownership). `open`,
    `create` and `opendir` return numbers, which the calls on open files take.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._me = Owner(os.geteuid(), os.getegid())
        self._owners: dict[str, Owner] = {}
        self._numbers = itertools.count(1)
        self._handles: dict[int, Handle] = {}
        self._directories: dict[int, _Directory] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Drop what was kept of verdicts: the session's trust has changed. Callable from any thread."""
        self._owners = {}

    def close(self) -> None:
        """Close what programs still had open, so that every outcome is recorded; errors are logged."""
        for number in list(self._handles):
            try:
                self.release(number)
            except OSError as error:
                _log.warning("closing an open file at the end failed: %s", error)
        self._directories.clear()

    @property
    def open_files(self) -> int:
        """Return how many files and directories are open."""
        return len(self._handles) + len(self._directories)

    # Metadata

    @_posix
    def getattr(self, path: str) -> Stat:
        """Return the metadata of what is at `path`, a link itself."""
        return self._shown(path, self._files.stat(path))

    @_posix
    def fgetattr(self, number: int) -> Stat:
        """Return the metadata of an open file, whatever became of its name."""
        handle = self._handle(number)
        return self._shown(str(handle.path), handle.stat())

    @_posix
    def access(self, path: str, mask: int) -> None:
        """Raise EACCES unless both the session's rights and the permission bits grant R_OK, W_OK, X_OK."""
        found = self._files.stat(path)
        is_dir = stat.S_ISDIR(found.mode)
        wanted = []
        if mask & os.R_OK:
            wanted.append(Operation.LIST if is_dir else Operation.READ)
        if mask & os.W_OK:
            wanted.append(Operation.WRITE)
        if mask & os.X_OK and not is_dir:
            wanted.append(Operation.READ)
        if not all(self._files.access(path, operation) for operation in wanted):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        if mask & ~_granted_by_bits(found, self._me):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    @_posix
    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits."""
        self._files.set_mode(path, stat.S_IMODE(mode))

    @_posix
    def fchmod(self, number: int, mode: int) -> None:
        """Set the permission bits of an open file."""
        self._handle(number).set_mode(stat.S_IMODE(mode))

    @_posix
    def chown(self, path: str, uid: int, gid: int) -> None:
        """Set owner and group, -1 leaving one; giving a file to whom it already belongs changes nothing."""
        found = self._shown(path, self._files.stat(path))
        if uid in (-1, found.uid) and gid in (-1, found.gid) and self._files.access(path, Operation.WRITE):
            return
        owner = self._owner(path)
        self._files.set_owner(
            path, owner.uid if uid == self._me.uid else uid, owner.gid if gid == self._me.gid else gid
        )

    @_posix
    def utimens(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times given, in nanoseconds since the epoch; None leaves one."""
        self._files.set_times(path, atime_ns, mtime_ns)

    @_posix
    def futimens(self, number: int, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times of an open file."""
        self._handle(number).set_times(atime_ns, mtime_ns)

    @_posix
    def statfs(self, path: str) -> StatVfs:
        """Return the space of the storage under the zone of `path`."""
        return self._files.statvfs(path)

    @_posix
    def getxattr(self, path: str, name: str) -> bytes:
        """Return an extended attribute; those outside `user.` are ENOTSUP."""
        _require_user(name)
        return self._files.get_xattr(path, name)

    @_posix
    def setxattr(self, path: str, name: str, value: bytes, flags: int) -> None:
        """Set an extended attribute in `user.`; `flags` is XATTR_CREATE, XATTR_REPLACE or 0."""
        _require_user(name)
        self._files.set_xattr(path, name, value, flags)

    @_posix
    def listxattr(self, path: str) -> list[str]:
        """Return the names of the extended attributes in `user.`."""
        if path == "/":
            return []
        return [name for name in self._files.list_xattrs(path) if name.startswith(_USER)]

    @_posix
    def removexattr(self, path: str, name: str) -> None:
        """Remove an extended attribute in `user.`."""
        _require_user(name)
        self._files.remove_xattr(path, name)

    # Names

    @_posix
    def readlink(self, path: str) -> str:
        """Return what a link says."""
        return self._files.read_link(path)

    @_posix
    def symlink(self, target: str, path: str) -> None:
        """Make the link `path` that says `target`."""
        _require_zone(path)
        self._files.symlink(target, path)

    @_posix
    def link(self, source: str, path: str) -> None:
        """Give a file the further name `path`."""
        _require_zone(path)
        self._files.link(source, path)

    @_posix
    def mkdir(self, path: str, mode: int) -> None:
        """Make a directory."""
        _require_zone(path)
        self._files.make_dir(path, stat.S_IMODE(mode))

    @_posix
    def mknod(self, path: str, mode: int) -> None:
        """Make an empty file, FIFO or socket; devices are EPERM."""
        _require_zone(path)
        if stat.S_IFMT(mode) not in _NODE_TYPES:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        self._files.make_node(path, mode if stat.S_IFMT(mode) else mode | stat.S_IFREG)

    @_posix
    def unlink(self, path: str) -> None:
        """Remove a name; open files stay open."""
        self._files.remove(path)

    @_posix
    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self._files.remove_dir(path)

    @_posix
    def rename(self, old: str, new: str, flags: int = 0) -> None:
        """Move a name; `flags` as for renameat2(2), those that are not known EINVAL."""
        _require_zone(new)
        if flags & ~(RenameFlag.NOREPLACE | RenameFlag.EXCHANGE):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._files.rename(old, new, RenameFlag(flags))

    @_posix
    def truncate(self, path: str, size: int) -> None:
        """Cut or extend a file that the caller has not open."""
        handle = self._files.open(path, os.O_WRONLY)
        try:
            handle.truncate(size)
        finally:
            handle.close()

    # Open files

    @_posix
    def open(self, path: str, flags: int) -> int:
        """Open a file with the meaning of `os.O_*` and return its number."""
        return self._add(self._files.open(path, flags & _OPEN_FLAGS & ~os.O_CREAT & ~os.O_EXCL))

    @_posix
    def create(self, path: str, flags: int, mode: int) -> int:
        """Make and open a file and return its number."""
        _require_zone(path)
        return self._add(self._files.open(path, flags & _OPEN_FLAGS | os.O_CREAT, stat.S_IMODE(mode)))

    @_posix
    def read(self, number: int, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer only at the end."""
        return self._handles[number].pread(size, offset)

    @_posix
    def write(self, number: int, data: bytes, offset: int) -> int:
        """Write all of `data` at `offset` and return its length."""
        return self._handles[number].pwrite(data, offset)

    @_posix
    def ftruncate(self, number: int, size: int) -> None:
        """Cut or extend an open file."""
        self._handle(number).truncate(size)

    @_posix
    def flush(self, number: int) -> None:
        """Let close(2) report what a storage without descriptors (a remote one) only then says."""
        handle = self._handle(number)
        if handle.bytes_written:
            handle.sync(data_only=True)

    def needs_flush(self, number: int) -> bool:
        """Tell whether close(2) has anything to wait for; not where the operating system has the file."""
        handle = self._handles.get(number)
        return handle is not None and handle.fileno() is None

    @_posix
    def fsync(self, number: int, data_only: bool) -> None:  # noqa: FBT001 (the wire's own order)
        """Return when what was written has reached stable storage."""
        self._handle(number).sync(data_only=data_only)

    @_posix
    def release(self, number: int) -> None:
        """Close a file; the last use of its number."""
        handle = self._handles.pop(number, None)
        if handle is not None:
            handle.close()

    @_posix
    def opendir(self, path: str) -> int:
        """List a directory and return a number under which the list is read; refused here, not at the read."""
        number = next(self._numbers)
        self._directories[number] = _Directory(path, self._files.scan(path))
        return number

    @_posix
    def readdir(self, number: int) -> list[DirEntry]:
        """Return the entries; the second time and later, as they are then."""
        directory = self._directories[number]
        entries, directory.entries = directory.entries, None
        return self._files.scan(directory.path) if entries is None else entries

    @_posix
    def releasedir(self, number: int) -> None:
        """Close a directory."""
        self._directories.pop(number, None)

    @_posix
    def fsyncdir(self, number: int) -> None:
        """Return when the names made in a directory have reached stable storage."""
        if self._files.access(self._directories[number].path, Operation.WRITE):
            self._files.flush()

    # Within

    def _add(self, handle: Handle) -> int:
        number = next(self._numbers)
        self._handles[number] = handle
        return number

    def _handle(self, number: int) -> Handle:
        handle = self._handles.get(number)
        if handle is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return handle

    def _shown(self, path: str, found: Stat) -> Stat:
        owner, me = self._owner(path), self._me
        if owner == me:
            return found
        return found._replace(
            uid=me.uid if found.uid == owner.uid else found.uid,
            gid=me.gid if found.gid == owner.gid else found.gid,
        )

    def _owner(self, path: str) -> Owner:
        """Return whom the root of the path's zone belongs to."""
        zone = path[1:].partition("/")[0]
        owner = self._owners.get(zone)
        if owner is None:
            root = self._files.stat(f"/{zone}")
            owner = self._owners[zone] = Owner(root.uid, root.gid)
        return owner


def _granted_by_bits(found: Stat, who: Owner) -> int:
    """Return which of R_OK, W_OK and X_OK the permission bits give to `who`."""
    bits = stat.S_IMODE(found.mode)
    if who.uid == 0:
        return 6 | (1 if bits & 0o111 or stat.S_ISDIR(found.mode) else 0)
    if who.uid == found.uid:
        return bits >> 6 & 7
    in_group = found.gid == who.gid or found.gid in os.getgroups()
    return bits >> 3 & 7 if in_group else bits & 7


def _require_user(name: str) -> None:
    if not name.startswith(_USER):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))


def _require_zone(path: str) -> None:
    """Refuse to make names beside the zones with the errno that says so."""
    if path.rfind("/") == 0 and path[1:] not in ZONES:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def time_ns(seconds: int, nanoseconds: int, now: int) -> int | None:
    """Return a time as utimensat(2) gives it in nanoseconds since the epoch, None for one that stays."""
    if nanoseconds == UTIME_OMIT:
        return None
    return now if nanoseconds == UTIME_NOW else seconds * _SECOND + nanoseconds
