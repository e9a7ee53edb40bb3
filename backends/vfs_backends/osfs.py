"""A directory of the operating system, from which no path, link or race leads out."""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from vfs.kernel.ports import DirEntry, Features, RenameFlag, Stat, StatVfs
from vfs_backends import atomic, syscalls
from vfs_backends.beneath import O_PATH, Resolver, best_resolver
from vfs_backends.errors import os_error
from vfs_backends.osfile import OsFile, Root, require_regular, to_stat
from vfs_backends.place import Place
from vfs_backends.reserved import STALE_SECONDS, TemporaryNames, is_reserved, refuse_odd_names

__all__ = ["OsBackend"]

_HONOURED = os.O_ACCMODE | os.O_TRUNC | os.O_APPEND
_NO_WAIT = os.O_NONBLOCK | os.O_NOCTTY
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_READ = os.O_RDONLY | _NO_WAIT
_ITSELF = O_PATH | os.O_NOFOLLOW
_LARGEST_READ = 0x7FFF_F000  # the most that one read(2) returns
_ATTEMPTS = 64
_USER = "user."


class OsBackend:
    """The tree under the directory `root`, which must exist; see `vfs.kernel.ports.Backend`.

    The root is held by a descriptor. Moved elsewhere, it is still the tree; removed, every call raises
    ESTALE, and nothing is ever made again at the path it had. Every path is resolved from that descriptor
    by `resolver` (the best that this kernel has, unless given), and what is done is done to a descriptor,
    or to one name in the directory a descriptor holds; no path is walked twice.

    Where POSIX leaves room:

    - `created_ns` is the earliest of the three times; asking for the birth time costs a second call.
    - A mode is exact whatever the umask. For the moment between making a file and widening its mode it is
      narrower, never wider.
    - `write_bytes` gives the path a new inode. Mode, and owner where permitted, are carried over; further
      hard links keep the old content, extended attributes are not carried over. A link in its place is
      ELOOP. It survives the death of the process at any moment; before a power cut call `flush`.
    - `read_bytes` of 2 GiB or more is EFBIG; read such a file through `open`.
    - Extended attributes are those in `user.`; other names are ENOTSUP.
    - Reserved names (`vfs_backends.reserved`) are hidden; `sweep` removes what crashes left of them.

    Raises OSError if `root` is not a directory that can be opened.
    """

    def __init__(self, root: str | os.PathLike[str], *, resolver: Resolver | None = None) -> None:
        self._root = Root(os.open(root, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        self._resolver = resolver or best_resolver()
        self._names = TemporaryNames()
        self._features = self._probe_features()

    def __repr__(self) -> str:
        return f"<OsBackend on descriptor {self._root.fd}, by {type(self._resolver).__name__}>"

    @property
    def features(self) -> Features:
        """See `Backend.features`."""
        return self._features

    # Reading

    def stat(self, path: str) -> Stat:
        """See `Backend.stat`."""
        if path.startswith(".") or "/." in path:
            refuse_odd_names(path)
        root = self._root
        try:
            if "/" not in path and path:
                return to_stat(os.stat(path, dir_fd=root.fd, follow_symlinks=False))
            descriptor = self._resolver.open(root.fd, path, _ITSELF)
        except FileNotFoundError as error:
            raise root.explain(error) from None
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if not path and not found.st_nlink:
            raise root.explain(FileNotFoundError())
        return to_stat(found)

    def scan(self, path: str) -> list[DirEntry]:
        """See `Backend.scan`."""
        refuse_odd_names(path)
        with self._root as root:
            directory = self._resolver.open(root, path, _DIRECTORY)
            try:
                with os.scandir(directory) as entries:
                    found = [
                        DirEntry(entry.name, entry.inode(), kind)
                        for entry in entries
                        if not is_reserved(entry.name) and (kind := _type(entry))
                    ]
                # A removed directory reads as an empty one.
                if not found and os.fstat(directory).st_nlink == 0:
                    raise os_error(errno.ENOENT, path)
                return found
            finally:
                os.close(directory)

    def read_bytes(self, path: str) -> bytes:
        """See `Backend.read_bytes`."""
        if path.startswith(".") or "/." in path:
            refuse_odd_names(path)
        root = self._root
        try:
            descriptor = self._resolver.open(root.fd, path, _READ)
        except FileNotFoundError as error:
            raise root.explain(error) from None
        try:
            found = os.fstat(descriptor)
            size = found.st_size
            if not stat.S_ISREG(found.st_mode):
                require_regular(found, path)
            if size >= _LARGEST_READ:
                raise os_error(errno.EFBIG, path)
            data = os.read(descriptor, size + 1)
            if len(data) == size:
                return data
            # It grew or shrank meanwhile.
            while more := os.read(descriptor, 1 << 16):
                data += more
            return data
        finally:
            os.close(descriptor)

    def read_link(self, path: str) -> str:
        """See `Backend.read_link`."""
        with self._place(path) as (directory, name):
            return os.readlink(name, dir_fd=directory)

    def fingerprint(self, path: str) -> str:
        """Return inode, size, and the times of the last change of content and of anything."""
        now = self.stat(path)
        return f"{now.ino:x}:{now.size:x}:{now.mtime_ns:x}:{now.ctime_ns:x}"

    def statvfs(self) -> StatVfs:
        """See `Backend.statvfs`."""
        with self._root as root:
            space = os.fstatvfs(root)
        return StatVfs(
            space.f_frsize,
            space.f_blocks,
            space.f_bfree,
            space.f_bavail,
            space.f_files,
            space.f_ffree,
            space.f_namemax,
        )

    # Files

    def open(self, path: str, flags: int, mode: int = 0o666) -> OsFile:
        """See `Backend.open`."""
        refuse_odd_names(path)
        root = self._root
        try:
            if flags & os.O_CREAT:
                descriptor = self._open_or_create(root.fd, path, flags, stat.S_IMODE(mode))
            else:
                descriptor = self._open_regular(root.fd, path, flags)
        except FileNotFoundError as error:
            raise root.explain(error) from None
        return OsFile(descriptor, flags)

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """See `Backend.write_bytes`; the class says what is carried over."""
        with self._place(path) as (directory, name):
            for _ in range(_ATTEMPTS):
                old = _existing(directory, name)
                if old is not None and not exclusive:
                    require_regular(old, path)
                    atomic.replace(directory, name, data, self._names, old)
                    return
                try:
                    if old is not None:
                        raise os_error(errno.EEXIST, path)
                    atomic.create(directory, name, data, self._names)
                    return
                except FileExistsError:
                    if exclusive:
                        raise
        raise _busy(path)

    def make_node(self, path: str, mode: int) -> None:
        """See `Backend.make_node`; anything else is EPERM."""
        kind = stat.S_IFMT(mode) or stat.S_IFREG
        if kind == stat.S_IFREG:
            self.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode).close()
            return
        if kind not in (stat.S_IFIFO, stat.S_IFSOCK):
            raise PermissionError(errno.EPERM, "only files, FIFOs and sockets can be made", path)
        with self._place(path) as (directory, name):
            os.mknod(name, kind | stat.S_IMODE(mode), dir_fd=directory)
            _set_exact_mode(directory, name, stat.S_IMODE(mode))

    # Names

    def make_dir(self, path: str, mode: int = 0o777) -> None:
        """See `Backend.make_dir`."""
        with self._place(path) as (directory, name):
            os.mkdir(name, stat.S_IMODE(mode), dir_fd=directory)
            _set_exact_mode(directory, name, stat.S_IMODE(mode))

    def remove(self, path: str) -> None:
        """See `Backend.remove`."""
        with self._place(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def remove_dir(self, path: str) -> None:
        """See `Backend.remove_dir`; what a crash left in it does not count, once it is stale."""
        if not path:
            raise OSError(errno.EBUSY, "the root cannot be removed")
        with self._place(path) as (directory, name):
            try:
                os.rmdir(name, dir_fd=directory)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY or not self._sweep(path)[1]:
                    raise
                os.rmdir(name, dir_fd=directory)

    def rename(self, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
        """See `Backend.rename`; ENOTSUP for a flag that this file system does not have."""
        with self._place(source) as (source_fd, source_name), self._place(target) as (target_fd, target_name):
            if flag == RenameFlag.REPLACE:
                os.rename(source_name, target_name, src_dir_fd=source_fd, dst_dir_fd=target_fd)
                return
            try:
                syscalls.rename(source_fd, source_name, target_fd, target_name, flag)
            except OSError as error:
                nested = f"{target}/".startswith(f"{source}/") or f"{source}/".startswith(f"{target}/")
                if error.errno == errno.ENOSYS or (error.errno == errno.EINVAL and not nested):
                    raise os_error(errno.ENOTSUP, target) from error
                raise

    def link(self, source: str, target: str) -> None:
        """See `Backend.link`."""
        with self._place(source) as (source_fd, source_name), self._place(target) as (target_fd, target_name):
            os.link(
                source_name, target_name, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False
            )

    def symlink(self, target: str, path: str) -> None:
        """See `Backend.symlink`."""
        with self._place(path) as (directory, name):
            os.symlink(target, name, dir_fd=directory)

    # Metadata

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `Backend.set_times`."""
        with self._place(path) as (directory, name):
            syscalls.set_times(directory, name, atime_ns, mtime_ns)

    def set_mode(self, path: str, mode: int) -> None:
        """See `Backend.set_mode`."""
        with self._itself(path) as descriptor:
            _change_mode(descriptor, stat.S_IMODE(mode), path)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """See `Backend.set_owner`."""
        with self._place(path) as (directory, name):
            os.chown(name, uid, gid, dir_fd=directory, follow_symlinks=False)

    def get_xattr(self, path: str, name: str) -> bytes:
        """See `Backend.get_xattr`."""
        _require_user(name)
        with self._itself(path) as descriptor:
            return os.getxattr(_link_to(descriptor), name)

    def set_xattr(self, path: str, name: str, value: bytes, flags: int = 0) -> None:
        """See `Backend.set_xattr`."""
        _require_user(name)
        with self._itself(path) as descriptor:
            os.setxattr(_link_to(descriptor), name, value, flags)

    def list_xattrs(self, path: str) -> list[str]:
        """See `Backend.list_xattrs`."""
        with self._itself(path) as descriptor:
            return [name for name in os.listxattr(_link_to(descriptor)) if name.startswith(_USER)]

    def remove_xattr(self, path: str, name: str) -> None:
        """See `Backend.remove_xattr`."""
        _require_user(name)
        with self._itself(path) as descriptor:
            os.removexattr(_link_to(descriptor), name)

    # The whole

    def flush(self) -> None:
        """See `Backend.flush`; it waits for the whole file system that holds the root."""
        with self._root as root:
            directory = os.open(".", _DIRECTORY | os.O_CLOEXEC, dir_fd=root)
            try:
                syscalls.sync_storage(directory)
            finally:
                os.close(directory)

    def sweep(self) -> int:
        """Remove the reserved files that no write has touched for a minute; return how many there were.

        Walks the whole tree. A directory that cannot be read is passed over.
        """
        removed = 0
        paths = [""]
        while paths:
            below, count = self._sweep(paths.pop())
            paths += below
            removed += count
        return removed

    def close(self) -> None:
        """See `Backend.close`; later calls are EBADF, calls that other threads have under way still end."""
        self._root = Root(-1)

    # Inside

    def _place(self, path: str) -> Place:
        return Place(self._root, self._resolver, path)

    @contextmanager
    def _itself(self, path: str) -> Iterator[int]:
        """Hold a descriptor of what is at `path`, a link itself if it is one, that cannot read or write."""
        refuse_odd_names(path)
        with self._root as root:
            descriptor = self._resolver.open(root, path, _ITSELF)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def _open_regular(self, root: int, path: str, flags: int) -> int:
        descriptor = self._resolver.open(root, path, flags & _HONOURED | _NO_WAIT)
        try:
            require_regular(os.fstat(descriptor), path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _open_or_create(self, root: int, path: str, flags: int, mode: int) -> int:
        # Opening and making are tried in turns, so that it is known which of them it was: only a file
        # that was made here gets the mode.
        for _ in range(_ATTEMPTS):
            if not flags & os.O_EXCL:
                try:
                    return self._open_regular(root, path, flags)
                except FileNotFoundError:
                    pass
            try:
                descriptor = self._resolver.open(
                    root, path, flags & _HONOURED | _NO_WAIT | os.O_CREAT | os.O_EXCL, mode
                )
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
                continue
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
                os.fchmod(descriptor, mode)
            return descriptor
        raise _busy(path)

    def _sweep(self, path: str) -> tuple[list[str], int]:
        """Sweep one directory; return the directories in it and the number of files removed."""
        below: list[str] = []
        removed = 0
        oldest = time.time() - STALE_SECONDS
        try:
            with self._root as root:
                directory = self._resolver.open(root, path, _DIRECTORY)
        except OSError:
            return below, removed
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        below.append(f"{path}/{entry.name}".lstrip("/"))
                    elif is_reserved(entry.name):
                        found = _existing(directory, entry.name)
                        if found and stat.S_ISREG(found.st_mode) and found.st_mtime < oldest:
                            os.unlink(entry.name, dir_fd=directory)
                            removed += 1
        finally:
            os.close(directory)
        return below, removed

    def _probe_features(self) -> Features:
        with self._root as root:
            writable = not os.fstatvfs(root).f_flag & os.ST_RDONLY
            try:
                os.getxattr(_link_to(root), "user.vfs")
                xattrs = True
            except OSError as error:
                xattrs = error.errno == errno.ENODATA
        return Features(
            symlinks=True,
            hard_links=True,
            modes=True,
            owners=True,
            xattrs=xattrs,
            special_nodes=True,
            atomic_rename=True,
            writable=writable,
        )


def _existing(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _type(entry: os.DirEntry[str]) -> int:
    """Return the type bits, mostly without asking again; 0 if the entry has gone meanwhile."""
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    if entry.is_symlink():
        return stat.S_IFLNK
    try:
        return stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return 0


def _link_to(descriptor: int) -> str:
    """Return a path that leads to the very file of a descriptor, for calls that take no O_PATH descriptor."""
    return f"/proc/self/fd/{descriptor}"


def _change_mode(descriptor: int, mode: int, path: str) -> None:
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        raise OSError(errno.ENOTSUP, "a symbolic link has no mode of its own", path)
    os.chmod(_link_to(descriptor), mode)


def _set_exact_mode(directory: int, name: str, mode: int) -> None:
    """Give what was just made the mode that the umask kept from it; a set-group-id it inherited stays."""
    made = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    wanted = mode | (made & stat.S_ISGID if stat.S_ISDIR(made) else 0)
    if stat.S_IMODE(made) == wanted:
        return
    descriptor = os.open(name, _ITSELF | os.O_CLOEXEC, dir_fd=directory)
    try:
        _change_mode(descriptor, wanted, name)
    finally:
        os.close(descriptor)


def _require_user(name: str) -> None:
    if not name.startswith(_USER):
        raise OSError(errno.ENOTSUP, "only extended attributes in `user.` are supported", name)


def _busy(path: str) -> OSError:
    return OSError(errno.EAGAIN, "others make and remove the file faster than it can be opened", path)
