"""Any PyFilesystem2 file system as a backend; the only place that trusts `fs` helpers."""

import errno
import hashlib
import os
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NoReturn

from vfs.kernel.ports import DirEntry, Features, RenameFlag, Stat, StatVfs
from vfs_backends.errors import os_error
from vfs_backends.fs_compat import FS, Info, ResourceType, errors
from vfs_backends.fs_errors import as_os_error
from vfs_backends.fs_file import FsFile, Spool
from vfs_backends.reserved import TemporaryNames, is_reserved, refuse_odd_names

__all__ = ["FsBackend"]

_TYPES = {
    ResourceType.fifo: stat.S_IFIFO,
    ResourceType.socket: stat.S_IFSOCK,
    ResourceType.character: stat.S_IFCHR,
    ResourceType.block_special_file: stat.S_IFBLK,
}
_UNKNOWN_SPACE = StatVfs(4096, 1 << 38, 1 << 37, 1 << 37, 1 << 32, 1 << 31, 255)
_MICROSECONDS = 1_000_000


class FsBackend:
    """The tree of `fs`; see `vfs.kernel.ports.Backend`. Closing it closes `fs`.

    It is as good as `fs` is, and says so in `features`: no links, modes, owners or attributes. In detail:

    - One lock makes the calls of this process one after the other. Between processes, `O_EXCL` and
      `exclusive` are as exclusive as mode `x` of `fs`: truly so on a file system of the operating system,
      not on most others.
    - `write_bytes` replaces in one step where `fs` can move a file; otherwise as `fs.writebytes` does.
    - A file that `fs` cannot open for reading and writing at any place is held as a copy, which is put
      back when it is closed.
    - Inode numbers are made from paths; a rename changes them.
    - Times have the resolution of `fs`, at most microseconds.
    - `statvfs` is a guess.
    - Symbolic links that `fs` shows are not followed (ELOOP), but a link that is put in the place of a
      directory between check and use is. A directory of the operating system belongs in `OsBackend`.
    """

    def __init__(self, fs: FS) -> None:
        self._fs = fs
        self._lock = threading.RLock()
        self._names = TemporaryNames()
        self._files: weakref.WeakSet[FsFile] = weakref.WeakSet()
        meta = fs.getmeta()
        self._moves = bool(meta.get("supports_rename")) or type(fs).move is not FS.move
        self._links = fs.getinfo("/", ["link"]).has_namespace("link")
        self._features = Features(writable=not meta.get("read_only"))

    @property
    def features(self) -> Features:
        """See `Backend.features`."""
        return self._features

    # Reading

    def stat(self, path: str) -> Stat:
        """See `Backend.stat`."""
        with self._calls(path):
            return self._stat(path)

    def scan(self, path: str) -> list[DirEntry]:
        """See `Backend.scan`."""
        with self._calls(path):
            self._refuse_link(path)
            found = list(self._fs.scandir(_outer(path), ["link", "details"] if self._links else None))
            below = f"{path}/" if path else ""
            return [
                DirEntry(info.name, _inode(below + info.name), self._type(info))
                for info in found
                if not is_reserved(info.name)
            ]

    def read_bytes(self, path: str) -> bytes:
        """See `Backend.read_bytes`."""
        with self._calls(path):
            if self._links:
                self._require_regular(path)
            return self._fs.readbytes(_outer(path))

    def read_link(self, path: str) -> str:
        """See `Backend.read_link`."""
        with self._calls(path):
            info = self._info(path)
            target = info.get("link", "target", None) if self._links else None
            if target is None:
                raise os_error(errno.EINVAL, path)
            return str(target)

    def fingerprint(self, path: str) -> str:
        """Return size and time of the last change, as fine as `fs` has it."""
        with self._calls(path):
            info = self._info(path)
            return f"{info.get('details', 'size', 0)}:{info.get('details', 'modified', 0)!r}"

    def statvfs(self) -> StatVfs:
        """Return a guess: PyFilesystem2 does not say."""
        return _UNKNOWN_SPACE

    # Files

    def open(self, path: str, flags: int, mode: int = 0o666) -> FsFile:  # noqa: ARG002 (no modes are kept)
        """See `Backend.open`."""
        with self._calls(path):
            try:
                self._require_regular(path, exists=bool(flags & os.O_CREAT and flags & os.O_EXCL))
            except errors.ResourceNotFound:
                if not flags & os.O_CREAT:
                    raise
                self._create(path, b"")
            stream, spool = self._open(path, flags)
            if flags & os.O_TRUNC:
                stream.truncate(0)
                if spool is not None:
                    spool.touch()
            file = FsFile(stream, path, flags, self._lock, self.stat, self.set_times, spool)
            self._files.add(file)
            return file

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """See `Backend.write_bytes`."""
        with self._calls(path):
            try:
                self._require_regular(path, exists=exclusive)
            except errors.ResourceNotFound:
                self._require_parent(path)
                if exclusive:
                    self._create(path, data)
                    return
            if not self._moves:
                self._fs.writebytes(_outer(path), data)
                return
            parent = path.rpartition("/")[0]
            aside = _outer(f"{parent}/{self._names.draw()}".lstrip("/"))
            try:
                self._fs.writebytes(aside, data)
                self._fs.move(aside, _outer(path), overwrite=True)
            except BaseException:
                with suppress(errors.FSError):
                    self._fs.remove(aside)
                raise
            self._renamed(path, None)

    def make_node(self, path: str, mode: int) -> None:
        """Make an empty regular file; anything else is ENOTSUP."""
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise os_error(errno.ENOTSUP, path)
        self.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL).close()

    # Names

    def make_dir(self, path: str, mode: int = 0o777) -> None:  # noqa: ARG002 (no modes are kept)
        """See `Backend.make_dir`."""
        with self._calls(path):
            self._require_parent(path)
            self._require_vacant(path)
            self._fs.makedir(_outer(path))

    def remove(self, path: str) -> None:
        """See `Backend.remove`."""
        with self._calls(path):
            self._refuse_links_above(path)
            if not path:
                raise os_error(errno.EISDIR, path)
            self._fs.remove(_outer(path))
            self._renamed(path, None)

    def remove_dir(self, path: str) -> None:
        """See `Backend.remove_dir`."""
        with self._calls(path):
            self._refuse_link(path)
            if not path:
                raise os_error(errno.EBUSY, path)
            self._fs.removedir(_outer(path))

    def rename(self, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
        """See `Backend.rename`; links and EXCHANGE are ENOTSUP, a directory may be seen half moved."""
        with self._calls(source):
            if not source or not target:
                raise os_error(errno.EBUSY, target)
            found = self._stat(source)
        with self._calls(target):
            self._require_parent(target)
            if flag == RenameFlag.EXCHANGE or stat.S_ISLNK(found.mode):
                raise os_error(errno.ENOTSUP, target)
            is_dir = stat.S_ISDIR(found.mode)
            self._make_way(source, target, is_dir=is_dir, flag=flag)
            if source == target:
                return
            if is_dir:
                self._fs.movedir(_outer(source), _outer(target), create=True)
            else:
                self._fs.move(_outer(source), _outer(target), overwrite=True)
            self._renamed(target, None)
            self._renamed(source, target)

    def link(self, source: str, target: str) -> None:  # noqa: ARG002 (the protocol has them)
        """Refuse with ENOTSUP."""
        _refuse(target)

    def symlink(self, target: str, path: str) -> None:  # noqa: ARG002 (the protocol has them)
        """Refuse with ENOTSUP."""
        _refuse(path)

    # Metadata

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `Backend.set_times`; ENOTSUP where `fs` cannot set times."""
        with self._calls(path):
            self._refuse_link(path)
            info = self._info(path)
            if not path or not info.is_writeable("details", "modified"):
                _refuse(path)
            # Some set both times to the one that is given, so both are given.
            now = self._to_stat(path, info)
            atime = now.atime_ns if atime_ns is None else atime_ns
            mtime = now.mtime_ns if mtime_ns is None else mtime_ns
            self._fs.setinfo(_outer(path), {"details": {"accessed": atime / 1e9, "modified": mtime / 1e9}})

    def set_mode(self, path: str, mode: int) -> None:  # noqa: ARG002 (the protocol has it)
        """Refuse with ENOTSUP."""
        _refuse(path)

    def set_owner(self, path: str, uid: int, gid: int) -> None:  # noqa: ARG002 (the protocol has them)
        """Refuse with ENOTSUP."""
        _refuse(path)

    def get_xattr(self, path: str, name: str) -> bytes:  # noqa: ARG002 (the protocol has it)
        """Refuse with ENOTSUP."""
        _refuse(path)

    def set_xattr(self, path: str, name: str, value: bytes, flags: int = 0) -> None:  # noqa: ARG002 (the protocol has them)
        """Refuse with ENOTSUP."""
        _refuse(path)

    def list_xattrs(self, path: str) -> list[str]:
        """Refuse with ENOTSUP."""
        _refuse(path)

    def remove_xattr(self, path: str, name: str) -> None:  # noqa: ARG002 (the protocol has it)
        """Refuse with ENOTSUP."""
        _refuse(path)

    # The whole

    def flush(self) -> None:
        """Put back what open files hold; what the storage does then is its own affair."""
        for file in list(self._files):
            with suppress(OSError):  # closed meanwhile
                file.sync(data_only=True)

    def close(self) -> None:
        """Close the file system."""
        with self._calls(""):
            self._fs.close()

    # Inside; the caller is in `_calls`

    @contextmanager
    def _calls(self, path: str) -> Iterator[None]:
        """Hold the lock and make errors OSError about `path`."""
        refuse_odd_names(path)
        with self._lock:
            try:
                yield
            except errors.ResourceNotFound as error:
                raise os_error(self._why_missing(path), path) from error
            except (errors.FSError, errors.IllegalBackReference) as error:
                raise as_os_error(error, path) from error

    def _why_missing(self, path: str) -> int:
        """Return ENOTDIR if something above `path` is a file: most file systems say "not found" to that."""
        parent = path
        while parent := parent.rpartition("/")[0]:
            with suppress(errors.FSError):
                return errno.ENOENT if self._fs.getinfo(_outer(parent)).is_dir else errno.ENOTDIR
        return errno.ENOENT

    def _info(self, path: str) -> Info:
        self._refuse_links_above(path)
        return self._fs.getinfo(_outer(path), ["details", "link"] if self._links else ["details"])

    def _stat(self, path: str) -> Stat:
        return self._to_stat(path, self._info(path))

    def _to_stat(self, path: str, info: Info) -> Stat:
        kind = self._type(info)
        mode = kind | (0o755 if kind == stat.S_IFDIR else 0o644)
        size = int(info.get("details", "size", 0) or 0)
        mtime = _nanoseconds(info.get("details", "modified", None)) or 0
        atime = _nanoseconds(info.get("details", "accessed", None))
        ctime = _nanoseconds(info.get("details", "metadata_changed", None))
        created = _nanoseconds(info.get("details", "created", None))
        times = (mtime if atime is None else atime, mtime, mtime if ctime is None else ctime)
        return Stat(
            mode,
            0 if kind == stat.S_IFDIR else size,
            _inode(path),
            2 if kind == stat.S_IFDIR else 1,
            os.geteuid(),
            os.getegid(),
            *times,
            min(times) if created is None else created,
            (size + 511) // 512,
        )

    def _type(self, info: Info) -> int:
        if self._links and info.is_link:
            return stat.S_IFLNK
        if info.is_dir:
            return stat.S_IFDIR
        if info.has_namespace("details"):
            return _TYPES.get(info.type, stat.S_IFREG)
        return stat.S_IFREG

    def _refuse_link(self, path: str) -> None:
        """Refuse a link at `path` or above it."""
        self._refuse_links_above(path)
        if self._links and path and self._fs.getinfo(_outer(path), ["link"]).is_link:
            raise os_error(errno.ELOOP, path)

    def _refuse_links_above(self, path: str) -> None:
        if self._links and (parent := path.rpartition("/")[0]):
            self._refuse_link(parent)

    def _require_regular(self, path: str, *, exists: bool = False) -> None:
        """Refuse what is no regular file; EEXIST, whatever it is, if it may not even be there (`exists`)."""
        mode = self._stat(path).mode
        if exists:
            raise os_error(errno.EEXIST, path)
        if stat.S_ISREG(mode):
            return
        raise os_error(
            errno.EISDIR if stat.S_ISDIR(mode) else errno.ELOOP if stat.S_ISLNK(mode) else errno.ENXIO, path
        )

    def _require_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if not stat.S_ISDIR(self._stat(parent).mode):
            raise os_error(errno.ENOTDIR, path)

    def _require_vacant(self, path: str) -> None:
        with suppress(errors.ResourceNotFound):
            self._info(path)
            raise os_error(errno.EEXIST, path)

    def _create(self, path: str, data: bytes) -> None:
        self._require_parent(path)
        try:
            stream = self._fs.openbin(_outer(path), "x")
        except errors.FileExists:
            raise os_error(errno.EEXIST, path) from None
        try:
            with stream:
                if data:
                    stream.write(data)
        except BaseException:
            with suppress(errors.FSError):
                self._fs.remove(_outer(path))
            raise

    def _open(self, path: str, flags: int) -> tuple[BinaryIO, Spool | None]:
        """Return a stream that can seek and do what `flags` say, if need be of a copy."""
        outer = _outer(path)
        writes = flags & os.O_ACCMODE != os.O_RDONLY or bool(flags & os.O_TRUNC)
        with suppress(errors.Unsupported, ValueError):
            stream = self._fs.openbin(outer, "r+" if writes else "r", buffering=0)
            if stream.seekable() and (not writes or (stream.readable() and stream.writable())):
                return stream, None
            stream.close()
        spool = Spool(
            lambda copy: self._fs.download(outer, copy),
            lambda copy, now: self._fs.upload(_outer(now), copy),
        )
        return spool.stream, spool

    def _make_way(self, source: str, target: str, *, is_dir: bool, flag: RenameFlag) -> None:
        """Refuse a rename that POSIX refuses; remove an empty directory in its way."""
        try:
            mode = self._stat(target).mode
        except errors.ResourceNotFound:
            mode = 0
        if mode and flag == RenameFlag.NOREPLACE:
            raise os_error(errno.EEXIST, target)
        if target.startswith(f"{source}/"):
            raise os_error(errno.EINVAL, target)
        if not mode:
            return
        if stat.S_ISDIR(mode) and not is_dir:
            raise os_error(errno.ENOTEMPTY if source.startswith(f"{target}/") else errno.EISDIR, target)
        if is_dir and not stat.S_ISDIR(mode):
            raise os_error(errno.ENOTDIR, target)
        if is_dir and source != target:
            self._fs.removedir(_outer(target))

    def _renamed(self, source: str, target: str | None) -> None:
        """Tell the open files that their name is another now, or that they have none."""
        for file in list(self._files):
            path = file.path
            if path == source:
                file.path = target
            elif target is not None and path is not None and path.startswith(f"{source}/"):
                file.path = target + path[len(source) :]
            if file.path not in (None, path):
                self._reopen(file)

    def _reopen(self, file: FsFile) -> None:
        """Open the file anew under its new name: `fs` may have moved it by copying."""
        if file.path is not None and not file.is_spooled:
            file.replace_stream(self._open(file.path, file.flags & ~os.O_TRUNC)[0])


def _outer(path: str) -> str:
    return f"/{path}"


def _inode(path: str) -> int:
    return int.from_bytes(hashlib.blake2b(os.fsencode(path), digest_size=6).digest())


def _nanoseconds(seconds: object) -> int | None:
    return round(seconds * _MICROSECONDS) * 1000 if isinstance(seconds, int | float) else None


def _refuse(path: str) -> NoReturn:
    raise os_error(errno.ENOTSUP, path)
