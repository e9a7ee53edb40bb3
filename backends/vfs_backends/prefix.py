"""One directory of another backend, as a backend of its own."""

import errno

from vfs.kernel.ports import Backend, BackendFile, DirEntry, Features, RenameFlag, Stat, StatVfs
from vfs_backends.errors import os_error

__all__ = ["PrefixBackend"]


class PrefixBackend:
    """What `inner` has under the directory `prefix`; see `vfs.kernel.ports.Backend`.

    Several may share one inner backend, so closing this one does not close that. The directory must exist
    before it is used, and is not made.
    """

    def __init__(self, inner: Backend, prefix: str) -> None:
        self._inner = inner
        self._prefix = prefix
        self._below = f"{prefix}/"

    @property
    def features(self) -> Features:
        """See `Backend.features`."""
        return self._inner.features

    def stat(self, path: str) -> Stat:
        """See `Backend.stat`."""
        return self._inner.stat(self._at(path))

    def scan(self, path: str) -> list[DirEntry]:
        """See `Backend.scan`."""
        return self._inner.scan(self._at(path))

    def read_bytes(self, path: str) -> bytes:
        """See `Backend.read_bytes`."""
        return self._inner.read_bytes(self._at(path))

    def read_link(self, path: str) -> str:
        """See `Backend.read_link`."""
        return self._inner.read_link(self._at(path))

    def fingerprint(self, path: str) -> str:
        """See `Backend.fingerprint`."""
        return self._inner.fingerprint(self._at(path))

    def get_xattr(self, path: str, name: str) -> bytes:
        """See `Backend.get_xattr`."""
        return self._inner.get_xattr(self._at(path), name)

    def list_xattrs(self, path: str) -> list[str]:
        """See `Backend.list_xattrs`."""
        return self._inner.list_xattrs(self._at(path))

    def statvfs(self) -> StatVfs:
        """See `Backend.statvfs`."""
        return self._inner.statvfs()

    def open(self, path: str, flags: int, mode: int = 0o666) -> BackendFile:
        """See `Backend.open`."""
        return self._inner.open(self._at(path), flags, mode)

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """See `Backend.write_bytes`."""
        self._inner.write_bytes(self._at(path), data, exclusive=exclusive)

    def make_node(self, path: str, mode: int) -> None:
        """See `Backend.make_node`."""
        self._inner.make_node(self._at(path), mode)

    def make_dir(self, path: str, mode: int = 0o777) -> None:
        """See `Backend.make_dir`."""
        self._inner.make_dir(self._at(path), mode)

    def remove(self, path: str) -> None:
        """See `Backend.remove`."""
        self._inner.remove(self._at(path))

    def remove_dir(self, path: str) -> None:
        """See `Backend.remove_dir`."""
        self._inner.remove_dir(self._at(_named(path)))

    def rename(self, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
        """See `Backend.rename`."""
        self._inner.rename(self._at(_named(source)), self._at(_named(target)), flag)

    def link(self, source: str, target: str) -> None:
        """See `Backend.link`."""
        self._inner.link(self._at(source), self._at(target))

    def symlink(self, target: str, path: str) -> None:
        """See `Backend.symlink`."""
        self._inner.symlink(target, self._at(path))

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `Backend.set_times`."""
        self._inner.set_times(self._at(path), atime_ns, mtime_ns)

    def set_mode(self, path: str, mode: int) -> None:
        """See `Backend.set_mode`."""
        self._inner.set_mode(self._at(path), mode)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """See `Backend.set_owner`."""
        self._inner.set_owner(self._at(path), uid, gid)

    def set_xattr(self, path: str, name: str, value: bytes, flags: int = 0) -> None:
        """See `Backend.set_xattr`."""
        self._inner.set_xattr(self._at(path), name, value, flags)

    def remove_xattr(self, path: str, name: str) -> None:
        """See `Backend.remove_xattr`."""
        self._inner.remove_xattr(self._at(path), name)

    def flush(self) -> None:
        """See `Backend.flush`."""
        self._inner.flush()

    def close(self) -> None:
        """Do nothing: the inner backend is shared."""

    def _at(self, path: str) -> str:
        return self._below + path if path else self._prefix


def _named(path: str) -> str:
    """Return `path` unless it is the root, which is no name that could be moved or removed."""
    if not path:
        raise os_error(errno.EBUSY, path)
    return path
