"""A tree in memory with the meaning of POSIX."""

import errno
import itertools
import os
import stat
import threading

from vfs.kernel.ports import DirEntry, Features, RenameFlag, Stat, StatVfs
from vfs_backends.errors import os_error
from vfs_backends.memory_file import MemoryFile
from vfs_backends.memory_nodes import Node, Space

__all__ = ["MemoryBackend"]

_BLOCK = 4096
_UNLIMITED = 1 << 50
_NAME_MAX = 255
_LARGEST_READ = 0x7FFF_F000
_USER = "user."
_XATTR_MAX = 1 << 16


class MemoryBackend:
    """Files, links and directories that last as long as this object; see `vfs.kernel.ports.Backend`.

    Complete but for one thing: permission bits and owners are kept, not enforced; the caller is as root.
    Files are sparse. With `capacity`, content beyond so many bytes is ENOSPC (names and metadata do not
    count). One lock makes every call atomic. Extended attributes are those in `user.`, on files and
    directories.
    """

    def __init__(self, *, capacity: int | None = None) -> None:
        self._lock = threading.RLock()
        self._space = Space(capacity)
        self._inodes = itertools.count(1)
        self._root = self._new(stat.S_IFDIR | 0o755)
        self._features = Features(
            symlinks=True,
            hard_links=True,
            modes=True,
            owners=True,
            xattrs=True,
            special_nodes=True,
            atomic_rename=True,
        )

    @property
    def features(self) -> Features:
        """See `Backend.features`."""
        return self._features

    # Reading

    def stat(self, path: str) -> Stat:
        """See `Backend.stat`."""
        with self._lock:
            return self._find(path).stat()

    def scan(self, path: str) -> list[DirEntry]:
        """See `Backend.scan`."""
        with self._lock:
            node = self._find(path)
            if not node.is_dir:
                raise os_error(errno.ELOOP if stat.S_ISLNK(node.mode) else errno.ENOTDIR, path)
            return [DirEntry(name, child.ino, child.type) for name, child in node.children.items()]

    def read_bytes(self, path: str) -> bytes:
        """See `Backend.read_bytes`; 2 GiB or more is EFBIG."""
        with self._lock:
            content = self._regular(path).content
            if content.size >= _LARGEST_READ:
                raise os_error(errno.EFBIG, path)
            return content.read(content.size, 0)

    def read_link(self, path: str) -> str:
        """See `Backend.read_link`."""
        with self._lock:
            node = self._find(path)
            if not stat.S_ISLNK(node.mode):
                raise os_error(errno.EINVAL, path)
            return node.target

    def fingerprint(self, path: str) -> str:
        """See `Backend.fingerprint`."""
        now = self.stat(path)
        return f"{now.ino:x}:{now.size:x}:{now.mtime_ns:x}:{now.ctime_ns:x}"

    def statvfs(self) -> StatVfs:
        """See `Backend.statvfs`."""
        total = _UNLIMITED if self._space.capacity is None else self._space.capacity
        free = (total - self._space.used) // _BLOCK
        return StatVfs(_BLOCK, total // _BLOCK, free, free, 1 << 32, 1 << 32, _NAME_MAX)

    # Files

    def open(self, path: str, flags: int, mode: int = 0o666) -> MemoryFile:
        """See `Backend.open`."""
        with self._lock:
            try:
                node = self._regular(path)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
                node = self._add(path, stat.S_IFREG | stat.S_IMODE(mode))
            except OSError as error:
                # What is there decides before what it is.
                if flags & os.O_CREAT and flags & os.O_EXCL and self._lookup(path) is not None:
                    raise os_error(errno.EEXIST, path) from error
                raise
            else:
                if flags & os.O_CREAT and flags & os.O_EXCL:
                    raise os_error(errno.EEXIST, path)
                if flags & os.O_TRUNC:
                    node.content.truncate(0)
                    node.changed(content=True)
            node.opened += 1
            return MemoryFile(node, self._lock, flags)

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """See `Backend.write_bytes`."""
        with self._lock:
            old = self._lookup(path)
            if old is not None:
                if exclusive:
                    raise os_error(errno.EEXIST, path)
                self._regular(path)
            parent, name = self._parent(path)
            node = self._new(old.mode if old else stat.S_IFREG | 0o644)
            try:
                node.content.write(data, 0)
            except OSError:
                node.content.truncate(0)
                raise
            # Space for both is needed for a moment, and whoever has the old one open keeps it, as on disk.
            if old is not None:
                node.uid, node.gid = old.uid, old.gid
                self._drop(parent, name)
            self._attach(parent, name, node)

    def make_node(self, path: str, mode: int) -> None:
        """See `Backend.make_node`; anything else is EPERM."""
        kind = stat.S_IFMT(mode) or stat.S_IFREG
        if kind not in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK):
            raise os_error(errno.EPERM, path)
        with self._lock:
            self._add(path, kind | stat.S_IMODE(mode))

    # Names

    def make_dir(self, path: str, mode: int = 0o777) -> None:
        """See `Backend.make_dir`."""
        with self._lock:
            self._add(path, stat.S_IFDIR | stat.S_IMODE(mode))

    def remove(self, path: str) -> None:
        """See `Backend.remove`."""
        with self._lock:
            parent, name, node = self._entry(path)
            if node.is_dir:
                raise os_error(errno.EISDIR, path)
            self._drop(parent, name)

    def remove_dir(self, path: str) -> None:
        """See `Backend.remove_dir`."""
        with self._lock:
            if not path:
                raise os_error(errno.EBUSY, path)
            parent, name, node = self._entry(path)
            if not node.is_dir:
                raise os_error(errno.ENOTDIR, path)
            if node.children:
                raise os_error(errno.ENOTEMPTY, path)
            self._drop(parent, name)

    def rename(self, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
        """See `Backend.rename`."""
        with self._lock:
            if not source or not target:
                raise os_error(errno.EBUSY, target)
            parent, name, node = self._entry(source)
            to_parent, to_name = self._parent(target)
            other = to_parent.children.get(to_name)
            if other is not None and flag == RenameFlag.NOREPLACE:
                raise os_error(errno.EEXIST, target)
            if other is None and flag == RenameFlag.EXCHANGE:
                raise os_error(errno.ENOENT, target)
            _refuse_nesting(source, target, flag)
            if other is node:
                return
            if flag != RenameFlag.EXCHANGE and other is not None:
                _refuse_other_kind(node, other, target)
                self._drop(to_parent, to_name)
                other = None
            self._detach(parent, name)
            if other is not None:
                self._detach(to_parent, to_name)
                self._attach(parent, name, other)
            self._attach(to_parent, to_name, node)

    def link(self, source: str, target: str) -> None:
        """See `Backend.link`."""
        with self._lock:
            node = self._find(source)
            parent, name = self._parent(target)
            if name in parent.children or not target:
                raise os_error(errno.EEXIST, target)
            if node.is_dir:
                raise os_error(errno.EPERM, source)
            node.nlink += 1
            self._attach(parent, name, node)

    def symlink(self, target: str, path: str) -> None:
        """See `Backend.symlink`."""
        if not target:
            raise os_error(errno.ENOENT, path)
        with self._lock:
            self._add(path, stat.S_IFLNK | 0o777, target=target)

    # Metadata

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `Backend.set_times`."""
        with self._lock:
            self._find(path).set_times(atime_ns, mtime_ns)

    def set_mode(self, path: str, mode: int) -> None:
        """See `Backend.set_mode`."""
        with self._lock:
            node = self._find(path)
            if stat.S_ISLNK(node.mode):
                raise os_error(errno.ENOTSUP, path)
            node.set_mode(mode)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """See `Backend.set_owner`."""
        with self._lock:
            node = self._find(path)
            node.uid = node.uid if uid == -1 else uid
            node.gid = node.gid if gid == -1 else gid
            node.changed()

    def get_xattr(self, path: str, name: str) -> bytes:
        """See `Backend.get_xattr`."""
        with self._lock:
            try:
                return self._attributed(path, name).xattrs[name]
            except KeyError:
                raise os_error(errno.ENODATA, path) from None

    def set_xattr(self, path: str, name: str, value: bytes, flags: int = 0) -> None:
        """See `Backend.set_xattr`."""
        with self._lock:
            node = self._attributed(path, name)
            if stat.S_ISLNK(node.mode):
                raise os_error(errno.EPERM, path)
            if flags & os.XATTR_CREATE and name in node.xattrs:
                raise os_error(errno.EEXIST, path)
            if flags & os.XATTR_REPLACE and name not in node.xattrs:
                raise os_error(errno.ENODATA, path)
            if len(value) > _XATTR_MAX:
                raise os_error(errno.E2BIG, path)
            node.xattrs[name] = bytes(value)
            node.changed()

    def list_xattrs(self, path: str) -> list[str]:
        """See `Backend.list_xattrs`."""
        with self._lock:
            return list(self._find(path).xattrs)

    def remove_xattr(self, path: str, name: str) -> None:
        """See `Backend.remove_xattr`."""
        with self._lock:
            node = self._attributed(path, name)
            if node.xattrs.pop(name, None) is None:
                raise os_error(errno.ENODATA, path)
            node.changed()

    # The whole

    def flush(self) -> None:
        """Do nothing: memory is as stable as it gets."""

    def close(self) -> None:
        """Do nothing: the tree goes with the last reference to it."""

    # Inside; the caller holds the lock

    def _new(self, mode: int, target: str = "") -> Node:
        return Node(next(self._inodes), mode, self._space, target=target)

    def _lookup(self, path: str) -> Node | None:
        try:
            return self._find(path)
        except FileNotFoundError:
            return None

    def _find(self, path: str) -> Node:
        if not path:
            return self._root
        parent, name = self._parent(path)
        try:
            return parent.children[name]
        except KeyError:
            raise os_error(errno.ENOENT, path) from None

    def _parent(self, path: str) -> tuple[Node, str]:
        *directories, last = path.split("/")
        node = self._root
        for name in directories:
            below = node.children.get(_checked(name, path))
            if below is None:
                raise os_error(errno.ENOENT, path)
            if not below.is_dir:
                raise os_error(errno.ELOOP if stat.S_ISLNK(below.mode) else errno.ENOTDIR, path)
            node = below
        return node, _checked(last, path) if path else ""

    def _entry(self, path: str) -> tuple[Node, str, Node]:
        node = self._find(path)
        if not path:
            raise os_error(errno.EISDIR, path)
        return *self._parent(path), node

    def _regular(self, path: str) -> Node:
        node = self._find(path)
        if stat.S_ISREG(node.mode):
            return node
        raise os_error(
            errno.EISDIR if node.is_dir else errno.ELOOP if stat.S_ISLNK(node.mode) else errno.ENXIO, path
        )

    def _attributed(self, path: str, name: str) -> Node:
        if not name.startswith(_USER):
            raise os_error(errno.ENOTSUP, path)
        return self._find(path)

    def _add(self, path: str, mode: int, target: str = "") -> Node:
        parent, name = self._parent(path)
        if name in parent.children or not path:
            raise os_error(errno.EEXIST, path)
        node = self._new(mode, target)
        self._attach(parent, name, node)
        return node

    def _attach(self, parent: Node, name: str, node: Node) -> None:
        parent.children[name] = node
        parent.nlink += node.is_dir
        parent.changed(content=True)
        node.changed()

    def _detach(self, parent: Node, name: str) -> Node:
        node = parent.children.pop(name)
        parent.nlink -= node.is_dir
        parent.changed(content=True)
        return node

    def _drop(self, parent: Node, name: str) -> None:
        node = self._detach(parent, name)
        node.nlink -= 2 if node.is_dir else 1
        node.changed()
        node.release()


def _checked(name: str, path: str) -> str:
    if name in ("", ".", ".."):
        raise os_error(errno.EINVAL, path)
    if len(os.fsencode(name)) > _NAME_MAX:
        raise os_error(errno.ENAMETOOLONG, path)
    return name


def _refuse_nesting(source: str, target: str, flag: RenameFlag) -> None:
    if target.startswith(f"{source}/"):
        raise os_error(errno.EINVAL, target)
    if source.startswith(f"{target}/"):
        raise os_error(errno.EINVAL if flag == RenameFlag.EXCHANGE else errno.ENOTEMPTY, target)


def _refuse_other_kind(node: Node, other: Node, target: str) -> None:
    if node.is_dir and not other.is_dir:
        raise os_error(errno.ENOTDIR, target)
    if other.is_dir and not node.is_dir:
        raise os_error(errno.EISDIR, target)
    if other.children:
        raise os_error(errno.ENOTEMPTY, target)
