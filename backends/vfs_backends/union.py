"""Several backends on top of one another: what the first has hides what the others have."""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from vfs.kernel.ports import Backend, BackendFile, DirEntry, Features, RenameFlag, Stat, StatVfs
from vfs_backends.errors import os_error

__all__ = ["UnionBackend"]

_T = TypeVar("_T")
_INODE_BITS = (1 << 64) - 1
_ROOT = Stat(stat.S_IFDIR | 0o555, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class UnionBackend:
    """The union of `layers`; see `vfs.kernel.ports.Backend`.

    - A path is that of the first layer which has it. Directories of several layers are shown merged; a
      file or link ends the merge: what lies below it in later layers is hidden.
    - All changes are made in the first layer. Directories that only a lower layer has are made there as
      needed, and a file is copied there, whole and at once, before it is changed.
    - There are no whiteouts. Removing or renaming what only a lower layer has is EROFS; after removing a
      name of the first layer, what it hid shows again. Renaming a directory that has a part in a lower
      layer is EXDEV, as in overlayfs.
    - Without layers it is an empty directory that cannot be written (EROFS).

    Features and space are the first layer's. Two calls at once are as safe as the layers are; two that
    copy up the same file end with one copy.
    """

    def __init__(self, layers: Sequence[Backend]) -> None:
        self._layers = tuple(layers)
        self._features = self._layers[0].features if self._layers else Features(writable=False)

    @property
    def features(self) -> Features:
        """See `Backend.features`."""
        return self._features

    # Reading

    def stat(self, path: str) -> Stat:
        """See `Backend.stat`."""
        return self._locate(path)[1]

    def scan(self, path: str) -> list[DirEntry]:
        """See `Backend.scan`."""
        if not self._layers and not path:
            return []
        index, found = self._locate(path)
        if not stat.S_ISDIR(found.mode):
            self._layers[index].scan(path)  # says what is wrong with it
        merged: dict[str, DirEntry] = {}
        for number, layer in enumerate(self._layers[index:], index):
            try:
                entries = layer.scan(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    break
                raise
            for entry in entries:
                merged.setdefault(entry.name, entry._replace(ino=self._inode(number, entry.ino)))
        return list(merged.values())

    def read_bytes(self, path: str) -> bytes:
        """See `Backend.read_bytes`."""
        return self._read(path, lambda layer: layer.read_bytes(path))

    def read_link(self, path: str) -> str:
        """See `Backend.read_link`."""
        return self._read(path, lambda layer: layer.read_link(path))

    def fingerprint(self, path: str) -> str:
        """Return the number of the layer and its fingerprint."""
        index, _ = self._locate(path)
        return f"{index}:{self._layers[index].fingerprint(path)}"

    def get_xattr(self, path: str, name: str) -> bytes:
        """See `Backend.get_xattr`."""
        return self._read(path, lambda layer: layer.get_xattr(path, name))

    def list_xattrs(self, path: str) -> list[str]:
        """See `Backend.list_xattrs`."""
        return self._read(path, lambda layer: layer.list_xattrs(path))

    def statvfs(self) -> StatVfs:
        """Return the space of the first layer; none without layers."""
        return self._layers[0].statvfs() if self._layers else StatVfs(4096, 0, 0, 0, 0, 0, 255)

    # Files

    def open(self, path: str, flags: int, mode: int = 0o666) -> BackendFile:
        """See `Backend.open`."""
        if not flags & (_WRITES | os.O_CREAT):
            return _UnionFile(self._shown, *self._open_existing(path, flags))
        try:
            index, found = self._locate(path)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            first = self._prepared(path)
            return _UnionFile(self._shown, 0, first.open(path, flags, mode))
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise os_error(errno.EEXIST, path)
        if not flags & _WRITES or not stat.S_ISREG(found.mode):
            return _UnionFile(self._shown, *self._open_existing(path, flags & ~os.O_CREAT))
        if index:
            self._copy_up(path, found)
        return _UnionFile(self._shown, 0, self._layers[0].open(path, flags, mode))

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """See `Backend.write_bytes`."""
        found = self._found(path)
        if found is None:
            self._prepared(path).write_bytes(path, data, exclusive=exclusive)
            return
        index, what = found
        if exclusive:
            raise os_error(errno.EEXIST, path)
        if index and stat.S_ISREG(what.mode):
            self._copy_up(path, what)  # for its permission bits
        elif index:
            self._layers[index].open(path, os.O_RDONLY).close()  # says what is wrong with it
        self._layers[0].write_bytes(path, data)

    def make_node(self, path: str, mode: int) -> None:
        """See `Backend.make_node`."""
        self._vacant(path).make_node(path, mode)

    # Names

    def make_dir(self, path: str, mode: int = 0o777) -> None:
        """See `Backend.make_dir`."""
        self._vacant(path).make_dir(path, mode)

    def remove(self, path: str) -> None:
        """See `Backend.remove`."""
        index, found = self._locate(path)
        if stat.S_ISDIR(found.mode):
            raise os_error(errno.EISDIR, path)
        self._own(index, path).remove(path)

    def remove_dir(self, path: str) -> None:
        """See `Backend.remove_dir`; what lower layers have in it counts."""
        index, found = self._locate(path)
        if not path:
            raise os_error(errno.EBUSY, path)
        if stat.S_ISDIR(found.mode) and self.scan(path):
            raise os_error(errno.ENOTEMPTY, path)
        self._own(index, path).remove_dir(path)

    def rename(self, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
        """See `Backend.rename`."""
        index, found = self._locate(source)
        if not source or not target:
            raise os_error(errno.EBUSY, target)
        first = self._own(index, source)
        other = self._found(target)
        if other is not None and source != target:
            self._refuse_target(source, other, target, found, flag)
        if stat.S_ISDIR(found.mode) and self._reaches_down(source):
            raise os_error(errno.EXDEV, source)
        if (
            flag == RenameFlag.EXCHANGE
            and stat.S_ISDIR(self._locate(target)[1].mode)
            and self._reaches_down(target)
        ):
            raise os_error(errno.EXDEV, target)
        self._make_parents(target)
        first.rename(source, target, flag)

    def link(self, source: str, target: str) -> None:
        """See `Backend.link`."""
        index, found = self._locate(source)
        first = self._vacant(target)
        if stat.S_ISDIR(found.mode):
            raise os_error(errno.EPERM, source)
        if index:
            self._copy_up(source, found)
        first.link(source, target)

    def symlink(self, target: str, path: str) -> None:
        """See `Backend.symlink`."""
        self._vacant(path).symlink(target, path)

    # Metadata

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `Backend.set_times`."""
        self._changeable(path).set_times(path, atime_ns, mtime_ns)

    def set_mode(self, path: str, mode: int) -> None:
        """See `Backend.set_mode`."""
        self._changeable(path).set_mode(path, mode)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """See `Backend.set_owner`."""
        self._changeable(path).set_owner(path, uid, gid)

    def set_xattr(self, path: str, name: str, value: bytes, flags: int = 0) -> None:
        """See `Backend.set_xattr`."""
        self._changeable(path).set_xattr(path, name, value, flags)

    def remove_xattr(self, path: str, name: str) -> None:
        """See `Backend.remove_xattr`."""
        self._changeable(path).remove_xattr(path, name)

    # The whole

    def flush(self) -> None:
        """See `Backend.flush`; only the first layer is ever written."""
        for layer in self._layers[:1]:
            layer.flush()

    def close(self) -> None:
        """Close every layer."""
        for layer in self._layers:
            layer.close()

    # Inside

    def _inode(self, index: int, ino: int) -> int:
        return (ino * max(1, len(self._layers)) + index) & _INODE_BITS

    def _shown(self, index: int, found: Stat) -> Stat:
        return found._replace(ino=self._inode(index, found.ino))

    def _locate(self, path: str) -> tuple[int, Stat]:
        """Return the number of the first layer that has `path`, and what it has there."""
        if not self._layers:
            if path:
                raise self._missing(path)
            return 0, _ROOT
        for index, layer in enumerate(self._layers):
            try:
                return index, self._shown(index, layer.stat(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                # This layer has no directory on the way. If a higher one has, the path is merely missing.
                parent = path.rpartition("/")[0]
                if stat.S_ISDIR(self._locate(parent)[1].mode):
                    break
                raise
        raise self._missing(path)

    def _missing(self, path: str) -> OSError:
        return os_error(errno.ENOENT, path)

    def _found(self, path: str) -> tuple[int, Stat] | None:
        try:
            return self._locate(path)
        except FileNotFoundError:
            return None

    def _read(self, path: str, call: Callable[[Backend], _T]) -> _T:
        index, _ = self._locate(path)
        if not self._layers:
            raise os_error(errno.ENOTSUP, path)
        return call(self._layers[index])

    def _open_existing(self, path: str, flags: int) -> tuple[int, BackendFile]:
        index, _ = self._locate(path)
        if not self._layers:
            raise os_error(errno.EISDIR, path)
        return index, self._layers[index].open(path, flags)

    def _first(self, path: str) -> Backend:
        if not self._layers:
            raise os_error(errno.EROFS, path)
        return self._layers[0]

    def _own(self, index: int, path: str) -> Backend:
        """Return the first layer, if it is the one that has `path`."""
        if index:
            raise os_error(errno.EROFS, path)
        return self._first(path)

    def _vacant(self, path: str) -> Backend:
        """Return the first layer, ready for a new `path`."""
        if self._found(path) is not None:
            raise os_error(errno.EEXIST, path)
        return self._prepared(path)

    def _prepared(self, path: str) -> Backend:
        """Return the first layer with the directories above `path` in it."""
        first = self._first(path)
        self._make_parents(path)
        return first

    def _changeable(self, path: str) -> Backend:
        """Return the first layer with `path` in it."""
        index, found = self._locate(path)
        if index:
            self._copy_up(path, found)
        return self._first(path)

    def _make_parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if not parent:
            return
        index, found = self._locate(parent)
        if not stat.S_ISDIR(found.mode):
            raise os_error(errno.ELOOP if stat.S_ISLNK(found.mode) else errno.ENOTDIR, path)
        if index:
            self._copy_up(parent, found)

    def _copy_up(self, path: str, found: Stat) -> None:
        """Bring what a lower layer has at `path` into the first, with mode and times."""
        index, _ = self._locate(path)
        lower, first = self._layers[index], self._prepared(path)
        # Somebody else may be doing the same: then theirs is as good.
        with suppress(FileExistsError):
            if stat.S_ISDIR(found.mode):
                first.make_dir(path, stat.S_IMODE(found.mode))
                return
            if stat.S_ISLNK(found.mode):
                first.symlink(lower.read_link(path), path)
            elif stat.S_ISREG(found.mode):
                first.write_bytes(path, lower.read_bytes(path), exclusive=True)
                if first.features.modes:
                    first.set_mode(path, stat.S_IMODE(found.mode))
            else:
                first.make_node(path, found.mode)
            first.set_times(path, found.atime_ns, found.mtime_ns)

    def _reaches_down(self, path: str) -> bool:
        """Return whether a lower layer has a part in the directory `path`."""
        for layer in self._layers[1:]:
            with suppress(OSError):
                return stat.S_ISDIR(layer.stat(path).mode)
        return False

    def _refuse_target(
        self, source: str, other: tuple[int, Stat], target: str, found: Stat, flag: RenameFlag
    ) -> None:
        """Refuse what the first layer cannot see: that a lower layer has something at `target`."""
        index, what = other
        if flag == RenameFlag.NOREPLACE:
            raise os_error(errno.EEXIST, target)
        if flag == RenameFlag.EXCHANGE:
            self._own(index, target)
            return
        if source.startswith(f"{target}/"):
            raise os_error(errno.ENOTEMPTY, target)
        if target.startswith(f"{source}/"):
            raise os_error(errno.EINVAL, target)
        if stat.S_ISDIR(found.mode) != stat.S_ISDIR(what.mode):
            raise os_error(errno.ENOTDIR if stat.S_ISDIR(found.mode) else errno.EISDIR, target)
        if stat.S_ISDIR(what.mode) and self.scan(target):
            raise os_error(errno.ENOTEMPTY, target)


class _UnionFile:
    """A layer's open file with the union's inode number."""

    def __init__(self, shown: Callable[[int, Stat], Stat], index: int, file: BackendFile) -> None:
        self._file = file
        self._shown = shown
        self._index = index
        self.pread = file.pread
        self.pwrite = file.pwrite
        self.truncate = file.truncate
        self.set_times = file.set_times
        self.set_mode = file.set_mode
        self.sync = file.sync
        self.fileno = file.fileno
        self.close = file.close

    def stat(self) -> Stat:
        return self._shown(self._index, self._file.stat())
