"""A backend, or anything of its shape, as a PyFilesystem2 file system."""
# ruff: noqa: FBT001, FBT002 -- the signatures are those of `fs.base.FS`

import itertools
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from typing import Any, BinaryIO, cast

from vfs.kernel.ports import Backend, RenameFlag, Stat
from vfs_backends import trees
from vfs_backends.fs_compat import FS, Info, Mode, Permissions, ResourceType, SubFS, errors
from vfs_backends.fs_errors import fs_errors
from vfs_backends.raw_io import open_stream

__all__ = ["BackendFS"]

_NANOSECONDS = 1_000_000_000
_TYPES = {
    stat.S_IFREG: ResourceType.file,
    stat.S_IFDIR: ResourceType.directory,
    stat.S_IFLNK: ResourceType.symlink,
    stat.S_IFIFO: ResourceType.fifo,
    stat.S_IFSOCK: ResourceType.socket,
    stat.S_IFCHR: ResourceType.character,
    stat.S_IFBLK: ResourceType.block_special_file,
}


class BackendFS(FS):
    """`backend` from the directory `base_path` down; the base class says what the methods do.

    Nothing here decides anything: each method is one or more calls on `backend`, whose errors (OSError or
    SandboxError) come out as those of PyFilesystem2. There is no system path and no URL, so that no helper
    of PyFilesystem2 gets past the backend. Links are shown as links and never followed.

    `close` closes the backend too if `owner` is true. Safe for threads as far as the backend is.
    """

    def __init__(self, backend: Backend, base_path: str = "", *, owner: bool = False) -> None:
        super().__init__()
        self._backend = backend
        self._base = base_path.strip("/")
        self._owner = owner

    def __repr__(self) -> str:
        return f"BackendFS({self._backend!r}, {self._base!r})"

    def __str__(self) -> str:
        return f"<backendfs {type(self._backend).__name__} /{self._base}>"

    # What every FS has

    def getinfo(self, path: str, namespaces: Collection[str] | None = None) -> Info:
        """Return what is asked of `basic`, `details`, `access`, `stat`, `lstat` and `link`."""
        inner = self._inner(path)
        with fs_errors(path):
            name = inner.rpartition("/")[2] if inner != self._base else ""
            return self._info(name, inner, self._backend.stat(inner), namespaces or ())

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory."""
        inner = self._inner(path)
        with fs_errors(path, directory=True):
            return [entry.name for entry in self._backend.scan(inner)]

    def scandir(
        self,
        path: str,
        namespaces: Collection[str] | None = None,
        page: tuple[int, int] | None = None,
    ) -> Iterator[Info]:
        """Return the entries of a directory; what vanishes meanwhile is left out."""
        inner = self._inner(path)
        with fs_errors(path, directory=True):
            entries = self._backend.scan(inner)
        return self._entries(
            inner,
            path,
            [(entry.name, entry.type == stat.S_IFDIR) for entry in entries],
            namespaces or (),
            page,
        )

    def makedir(self, path: str, permissions: Permissions | None = None, recreate: bool = False) -> SubFS[FS]:
        """Make a directory and return it; with `recreate` it may be there already."""
        inner = self._inner(path)
        with fs_errors(path, directory=True):
            try:
                self._backend.make_dir(inner, Permissions.get_mode(permissions))
            except FileExistsError:
                if not recreate:
                    raise
        return self.opendir(path)

    def openbin(self, path: str, mode: str = "r", buffering: int = -1, **options: Any) -> BinaryIO:  # noqa: ARG002 (the base class has them)
        """Open a binary file."""
        parsed = Mode(mode)
        parsed.validate_bin()
        inner = self._inner(path)
        with fs_errors(path):
            file = self._backend.open(inner, _flags(parsed))
        return open_stream(file, path, parsed.to_platform_bin(), buffering)

    def remove(self, path: str) -> None:
        """Remove a file or link."""
        inner = self._inner(path)
        with fs_errors(path):
            self._backend.remove(inner)

    def removedir(self, path: str) -> None:
        """Remove an empty directory."""
        inner = self._inner(path)
        if inner == self._base:
            raise errors.RemoveRootError(path)
        with fs_errors(path, directory=True):
            self._backend.remove_dir(inner)

    def setinfo(self, path: str, info: Mapping[str, Mapping[str, object]]) -> None:
        """Set `accessed` and `modified` of `details`, and permissions, `uid` and `gid` of `access`."""
        inner = self._inner(path)
        details = info.get("details", {})
        access = info.get("access", {})
        with fs_errors(path):
            self._backend.stat(inner)
            if "accessed" in details or "modified" in details:
                self._backend.set_times(
                    inner, _nanoseconds(details.get("accessed")), _nanoseconds(details.get("modified"))
                )
            if "permissions" in access:
                self._backend.set_mode(inner, Permissions.get_mode(cast("list[str]", access["permissions"])))
            if "uid" in access or "gid" in access:
                self._backend.set_owner(inner, _number(access.get("uid")), _number(access.get("gid")))

    # What backends can do better than the base class

    def islink(self, path: str) -> bool:
        """Return whether a symbolic link is at `path`."""
        inner = self._inner(path)
        with fs_errors(path):
            return stat.S_ISLNK(self._backend.stat(inner).mode)

    def readbytes(self, path: str) -> bytes:
        """Return a whole file."""
        inner = self._inner(path)
        with fs_errors(path):
            return self._backend.read_bytes(inner)

    def writebytes(self, path: str, contents: bytes) -> None:
        """Make `contents` the content of a file, in one step."""
        if not isinstance(contents, bytes):
            raise TypeError("contents must be bytes")
        inner = self._inner(path)
        with fs_errors(path):
            self._backend.write_bytes(inner, contents)

    def move(
        self,
        src_path: str,
        dst_path: str,
        overwrite: bool = False,
        preserve_time: bool = False,  # noqa: ARG002 (a rename always does)
    ) -> None:
        """Move a file or link, by renaming where that reaches."""
        source, target = self._inner(src_path), self._inner(dst_path)
        with fs_errors(src_path):
            if stat.S_ISDIR(self._backend.stat(source).mode):
                raise errors.FileExpected(src_path)
        try:
            with fs_errors(dst_path):
                trees.move_file(
                    self._backend, source, target, RenameFlag.REPLACE if overwrite else RenameFlag.NOREPLACE
                )
        except errors.FileExists as error:
            raise errors.DestinationExists(dst_path) from error

    def movedir(
        self,
        src_path: str,
        dst_path: str,
        create: bool = False,
        preserve_time: bool = False,  # noqa: ARG002 (a rename always does)
    ) -> None:
        """Move what is in a directory into another, links as links; remove the first."""
        source, target = self._trees(src_path, dst_path, create=create)
        with fs_errors(src_path, directory=True):
            trees.move_tree(self._backend, source, target)

    def copydir(
        self, src_path: str, dst_path: str, create: bool = False, preserve_time: bool = False
    ) -> None:
        """Copy what is in a directory into another, links as links."""
        source, target = self._trees(src_path, dst_path, create=create)
        with fs_errors(src_path, directory=True):
            trees.copy_tree(self._backend, source, target, times=preserve_time)

    def close(self) -> None:
        """Close; the backend too, if this is its owner."""
        if not self.isclosed():
            super().close()
            if self._owner:
                self._backend.close()

    def getmeta(self, namespace: str = "standard") -> Mapping[str, object]:
        """Return what is true of every backend; other namespaces are empty."""
        if namespace != "standard":
            return {}
        return {
            "case_insensitive": False,
            "invalid_path_chars": "\0",
            "network": False,
            "read_only": not self._backend.features.writable,
            "supports_rename": False,  # it means by system path, and there is none
            "thread_safe": True,
            "unicode_paths": True,
            "virtual": False,
        }

    # Inside

    def _inner(self, path: str) -> str:
        """Return the backend's path."""
        return f"{self._base}{self.validatepath(path)}".strip("/")

    def _trees(self, src_path: str, dst_path: str, *, create: bool) -> tuple[str, str]:
        source, target = self._inner(src_path), self._inner(dst_path)
        if not create and not self.exists(dst_path):
            raise errors.ResourceNotFound(dst_path)
        with fs_errors(src_path, directory=True):
            if not stat.S_ISDIR(self._backend.stat(source).mode):
                raise errors.DirectoryExpected(src_path)
        return source, target

    def _entries(
        self,
        inner: str,
        path: str,
        found: list[tuple[str, bool]],
        namespaces: Collection[str],
        page: tuple[int, int] | None,
    ) -> Iterator[Info]:
        for name, is_dir in itertools.islice(found, *(page or (None,))):
            if not set(namespaces) - {"basic"}:
                yield Info({"basic": {"name": name, "is_dir": is_dir}})
                continue
            below = f"{inner}/{name}".lstrip("/")
            try:
                with fs_errors(path):
                    yield self._info(name, below, self._backend.stat(below), namespaces)
            except errors.ResourceNotFound:
                continue

    def _info(self, name: str, inner: str, found: Stat, namespaces: Collection[str]) -> Info:
        raw: dict[str, dict[str, object]] = {"basic": {"name": name, "is_dir": stat.S_ISDIR(found.mode)}}
        if "details" in namespaces:
            raw["details"] = _details(found)
        if "access" in namespaces:
            permissions = Permissions(mode=stat.S_IMODE(found.mode)).dump()
            raw["access"] = {"permissions": permissions, "uid": found.uid, "gid": found.gid}
        if "stat" in namespaces:
            raw["stat"] = _stat_names(found)
        if "lstat" in namespaces:
            raw["lstat"] = _stat_names(found)
        if "link" in namespaces:
            is_link = stat.S_ISLNK(found.mode)
            raw["link"] = {"target": self._backend.read_link(inner) if is_link else None}
        return Info(raw)


def _details(found: Stat) -> dict[str, object]:
    return {
        "_write": ["accessed", "modified"],
        "accessed": found.atime_ns / _NANOSECONDS,
        "created": found.created_ns / _NANOSECONDS,
        "metadata_changed": found.ctime_ns / _NANOSECONDS,
        "modified": found.mtime_ns / _NANOSECONDS,
        "size": found.size,
        "type": int(_TYPES.get(stat.S_IFMT(found.mode), ResourceType.unknown)),
    }


def _stat_names(found: Stat) -> dict[str, object]:
    return {
        "st_mode": found.mode,
        "st_size": found.size,
        "st_ino": found.ino,
        "st_nlink": found.nlink,
        "st_uid": found.uid,
        "st_gid": found.gid,
        "st_blocks": found.blocks,
        "st_atime_ns": found.atime_ns,
        "st_mtime_ns": found.mtime_ns,
        "st_ctime_ns": found.ctime_ns,
        "st_atime": found.atime_ns / _NANOSECONDS,
        "st_mtime": found.mtime_ns / _NANOSECONDS,
        "st_ctime": found.ctime_ns / _NANOSECONDS,
    }


def _flags(mode: Mode) -> int:
    access = os.O_RDONLY
    if mode.writing:
        access = os.O_RDWR if mode.reading else os.O_WRONLY
    return (
        access
        | (os.O_CREAT if mode.create else 0)
        | (os.O_EXCL if mode.exclusive else 0)
        | (os.O_TRUNC if mode.truncate and not mode.exclusive else 0)
        | (os.O_APPEND if mode.appending else 0)
    )


def _nanoseconds(seconds: object) -> int | None:
    return round(seconds * _NANOSECONDS) if isinstance(seconds, int | float) else None


def _number(value: object) -> int:
    """Return an id; -1, which leaves it as it is, for none."""
    return value if isinstance(value, int) else -1
