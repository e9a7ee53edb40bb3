"""Some of the top-level directories of another backend, and nothing else of it."""

import errno
import os
from collections.abc import Iterable

from vfs.kernel.ports import Backend, BackendFile, DirEntry, Features, RenameFlag, Stat, StatVfs
from vfs_backends.errors import os_error

__all__ = ["SubsetBackend"]


class SubsetBackend:
    """What `inner` has under the top-level `names`; see `vfs.kernel.ports.Backend`.

    The root and the `names` themselves are fixed: making, removing, renaming or relabelling them is EPERM
    (making one that exists is EEXIST), and so is making any other top-level name. To look for another
    top-level name is ENOENT, whether or not `inner` has it. Everything below is `inner`'s own.
    """

    def __init__(self, inner: Backend, names: Iterable[str]) -> None:
        self._inner = inner
        self._names = frozenset(names)

    @property
    def features(self) -> Features:
        """See `Backend.features`."""
        return self._inner.features

    # Reading

    def stat(self, path: str) -> Stat:
        """See `Backend.stat`."""
        return self._inner.stat(self._visible(path))

    def scan(self, path: str) -> list[DirEntry]:
        """See `Backend.scan`."""
        entries = self._inner.scan(self._visible(path))
        return entries if path else [entry for entry in entries if entry.name in self._names]

    def read_bytes(self, path: str) -> bytes:
        """See `Backend.read_bytes`."""
        return self._inner.read_bytes(self._visible(path))

    def read_link(self, path: str) -> str:
        """See `Backend.read_link`."""
        return self._inner.read_link(self._visible(path))

    def fingerprint(self, path: str) -> str:
        """See `Backend.fingerprint`."""
        return self._inner.fingerprint(self._visible(path))

    def get_xattr(self, path: str, name: str) -> bytes:
        """See `Backend.get_xattr`."""
        return self._inner.get_xattr(self._visible(path), name)

    def list_xattrs(self, path: str) -> list[str]:
        """See `Backend.list_xattrs`."""
        return self._inner.list_xattrs(self._visible(path))

    def statvfs(self) -> StatVfs:
        """See `Backend.statvfs`."""
        return self._inner.statvfs()

    # Files

    def open(self, path: str, flags: int, mode: int = 0o666) -> BackendFile:
        """See `Backend.open`."""
        if flags & os.O_CREAT:
            exists = self._is_fixed(path) and self._exists(path)
            return self._inner.open(path if exists else self._free(path), flags, mode)
        return self._inner.open(self._visible(path), flags, mode)

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """See `Backend.write_bytes`."""
        self._inner.write_bytes(self._free(path), data, exclusive=exclusive)

    def make_node(self, path: str, mode: int) -> None:
        """See `Backend.make_node`."""
        self._inner.make_node(self._vacant(path), mode)

    # Names

    def make_dir(self, path: str, mode: int = 0o777) -> None:
        """See `Backend.make_dir`."""
        self._inner.make_dir(self._vacant(path), mode)

    def remove(self, path: str) -> None:
        """See `Backend.remove`."""
        self._inner.remove(self._changeable(path))

    def remove_dir(self, path: str) -> None:
        """See `Backend.remove_dir`."""
        if not path:
            raise os_error(errno.EBUSY, path)
        self._inner.remove_dir(self._changeable(path))

    def rename(self, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
        """See `Backend.rename`."""
        if not source or not target:
            raise os_error(errno.EBUSY, target)
        self._inner.rename(self._changeable(source), self._free(target), flag)

    def link(self, source: str, target: str) -> None:
        """See `Backend.link`."""
        self._inner.link(self._visible(source), self._vacant(target))

    def symlink(self, target: str, path: str) -> None:
        """See `Backend.symlink`."""
        self._inner.symlink(target, self._vacant(path))

    # Metadata

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `Backend.set_times`."""
        self._inner.set_times(self._changeable(path), atime_ns, mtime_ns)

    def set_mode(self, path: str, mode: int) -> None:
        """See `Backend.set_mode`."""
        self._inner.set_mode(self._changeable(path), mode)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """See `Backend.set_owner`."""
        self._inner.set_owner(self._changeable(path), uid, gid)

    def set_xattr(self, path: str, name: str, value: bytes, flags: int = 0) -> None:
        """See `Backend.set_xattr`."""
        self._inner.set_xattr(self._changeable(path), name, value, flags)

    def remove_xattr(self, path: str, name: str) -> None:
        """See `Backend.remove_xattr`."""
        self._inner.remove_xattr(self._changeable(path), name)

    # The whole

    def flush(self) -> None:
        """See `Backend.flush`."""
        self._inner.flush()

    def close(self) -> None:
        """Close the inner backend."""
        self._inner.close()

    # Inside

    def _visible(self, path: str) -> str:
        if path and path.partition("/")[0] not in self._names:
            raise os_error(errno.ENOENT, path)
        return path

    def _is_fixed(self, path: str) -> bool:
        return not path or path in self._names

    def _exists(self, path: str) -> bool:
        try:
            self._inner.stat(path)
        except FileNotFoundError:
            return False
        return True

    def _changeable(self, path: str) -> str:
        """Return `path` if what is there may be changed or removed."""
        if self._is_fixed(self._visible(path)):
            raise os_error(errno.EPERM, path)
        return path

    def _free(self, path: str) -> str:
        """Return `path` if something may be made or replaced there."""
        if "/" not in path:
            raise os_error(errno.EPERM, path)
        return self._visible(path)

    def _vacant(self, path: str) -> str:
        """Return `path` if something may be made there; EEXIST for a fixed name that is there."""
        if self._is_fixed(path) and self._exists(path):
            raise os_error(errno.EEXIST, path)
        return self._free(path)
