"""What the kernel asks of the storage under a zone.

A backend knows nothing of zones, sessions or trust: it is a tree of files with POSIX meaning. The kernel is
its only caller and the only guard; a backend's own duty is containment: no path it is given may reach
outside its root, whatever links and races the tree holds.

**Paths** are relative to the root: names joined by single slashes, no leading or trailing slash, no empty
name, `.` or `..`; the root itself is `""`. The kernel guarantees this form. Names are bytes-faithful: what
is not UTF-8 is carried as lone surrogates (`os.fsencode`).

**Links are never followed**, neither in the middle of a path nor at its end. A symbolic link met in the
middle of a path, or opened, raises `OSError(ELOOP)`; the kernel resolves links itself, so that the path it
decides on is the path that is touched.

**Errors** are `OSError` with the errno that POSIX names for the call, most usefully ENOENT, EEXIST, ENOTDIR,
EISDIR, ENOTEMPTY, ELOOP, EXDEV, ENOSPC, EDQUOT, EROFS, ENOTSUP (what the storage cannot do, see `Features`)
and ESTALE or ENOTCONN (the root has vanished, the storage does not answer).

**Threads**: every method may be called from any thread at any time.
"""

import enum
from typing import NamedTuple, Protocol, runtime_checkable


class Stat(NamedTuple):
    """Metadata of one file, directory or link, never of a link's target.

    `mode` holds type and permission bits as `st_mode` does; times are nanoseconds since the epoch; `size`
    is bytes; `blocks` counts 512-byte units; `ino` is unique and stable within the backend, so that hard
    links can be told. `created_ns` is the birth time, or the earliest time known where the storage has none.
    """

    mode: int
    size: int
    ino: int
    nlink: int
    uid: int
    gid: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    created_ns: int
    blocks: int


class DirEntry(NamedTuple):
    """One name in a directory: its `st_ino` and the type bits of its mode (`stat.S_IFMT`)."""

    name: str
    ino: int
    type: int


class StatVfs(NamedTuple):
    """Space of the storage, in blocks of `bsize` bytes, and inodes; as `os.statvfs` names them."""

    bsize: int
    blocks: int
    bfree: int
    bavail: int
    files: int
    ffree: int
    namemax: int


class Features(NamedTuple):
    """What a backend can do beyond plain files and directories; a lack raises `OSError(ENOTSUP)`."""

    symlinks: bool = False
    hard_links: bool = False
    modes: bool = False
    """Permission bits are kept; otherwise every file is 0o644 and every directory 0o755."""
    owners: bool = False
    xattrs: bool = False
    special_nodes: bool = False
    """FIFOs and sockets can be made."""
    atomic_rename: bool = False
    """`rename` of a directory is one step; otherwise it may be seen half done."""
    writable: bool = True


class RenameFlag(enum.IntFlag):
    """How `rename` treats an existing target; the values are those of `renameat2`."""

    REPLACE = 0
    NOREPLACE = 1
    EXCHANGE = 2


@runtime_checkable
class BackendFile(Protocol):
    """An open file. It outlives a rename or removal of its name. Positional: it keeps no offset."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end of the file.

        Holes read as zeros; the result, not the file, bounds the memory used.
        """
        ...

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write all of `data` at `offset`, or at the end if opened with O_APPEND; return its length.

        On ENOSPC part of the data may have been written.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend (with a hole) to `size` bytes."""
        ...

    def stat(self) -> Stat:
        """Return the metadata now; `nlink` is 0 once the last name is gone."""
        ...

    def set_times(self, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times given; None leaves a time as it is."""
        ...

    def set_mode(self, mode: int) -> None:
        """Set the permission bits."""
        ...

    def sync(self, *, data_only: bool) -> None:
        """Return when what was written has reached stable storage."""
        ...

    def fileno(self) -> int | None:
        """Return the operating system's descriptor of this very file, or None where there is none."""
        ...

    def close(self) -> None:
        """Release the file; a second call does nothing. Raises what writing back what was held raises."""
        ...


@runtime_checkable
class Backend(Protocol):
    """The storage under one zone."""

    @property
    def features(self) -> Features:
        """Return what this storage can do; constant for the life of the backend."""
        ...

    def stat(self, path: str) -> Stat:
        """Return the metadata of what is at `path`, a link itself if it is one."""
        ...

    def scan(self, path: str) -> list[DirEntry]:
        """Return the entries of the directory `path`, without `.` and `..`, in no particular order."""
        ...

    def open(self, path: str, flags: int, mode: int = 0o666) -> BackendFile:
        """Open a regular file with the meaning of `os.O_*` flags.

        Honoured: O_RDONLY, O_WRONLY, O_RDWR, O_CREAT (with `mode`, no umask applied), O_EXCL (exclusive in
        truth, even between processes), O_TRUNC, O_APPEND. Others are ignored. A FIFO or device is refused
        with ENXIO, never waited for; a directory with EISDIR.
        """
        ...

    def read_bytes(self, path: str) -> bytes:
        """Return a whole regular file, in as few requests as the storage allows; EFBIG from 2 GiB up."""
        ...

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """Make `data` the content of `path`, all or nothing: a reader or a crash sees the old or the new.

        A crash is the end of the process; for a power cut call `flush`. An existing file keeps its
        permission bits; a new one gets 0o644. It may be a new file under the old name: further hard links
        and whoever has it open may keep the old content. The parent must exist. With `exclusive` anything
        at `path` raises EEXIST and is left alone; otherwise what is no regular file is refused as by `open`.
        """
        ...

    def make_dir(self, path: str, mode: int = 0o777) -> None:
        """Make one directory; the parent must exist."""
        ...

    def make_node(self, path: str, mode: int) -> None:
        """Make an empty regular file, FIFO or socket, by the type bits of `mode`."""
        ...

    def remove(self, path: str) -> None:
        """Remove one name that is not a directory (EISDIR)."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove one empty directory (ENOTEMPTY, ENOTDIR); the root cannot be removed (EBUSY)."""
        ...

    def rename(self, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
        """Move a name, replacing an existing target of the same kind as `rename(2)` does.

        EXCHANGE swaps both atomically or raises ENOTSUP; a directory into itself is EINVAL; the root on
        either side is EBUSY. Which of two errors is raised is not said.
        """
        ...

    def link(self, source: str, target: str) -> None:
        """Give the file `source` (never a directory, EPERM) the further name `target`."""
        ...

    def symlink(self, target: str, path: str) -> None:
        """Make the symbolic link `path` that says `target`; the text is stored, not judged."""
        ...

    def read_link(self, path: str) -> str:
        """Return the text of a symbolic link; EINVAL if `path` is none."""
        ...

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times given of `path` itself; None leaves a time as it is."""
        ...

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits; ENOTSUP on a link."""
        ...

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """Set owner and group of `path` itself; -1 leaves one as it is."""
        ...

    def get_xattr(self, path: str, name: str) -> bytes:
        """Return one extended attribute; ENODATA if it is not set."""
        ...

    def set_xattr(self, path: str, name: str, value: bytes, flags: int = 0) -> None:
        """Set one extended attribute; `flags` is 0, os.XATTR_CREATE or os.XATTR_REPLACE."""
        ...

    def list_xattrs(self, path: str) -> list[str]:
        """Return the names of the extended attributes."""
        ...

    def remove_xattr(self, path: str, name: str) -> None:
        """Remove one extended attribute; ENODATA if it is not set."""
        ...

    def statvfs(self) -> StatVfs:
        """Return the space of the storage."""
        ...

    def fingerprint(self, path: str) -> str:
        """Return a cheap token that differs whenever the content of the file `path` may differ."""
        ...

    def flush(self) -> None:
        """Return when everything acknowledged so far has reached stable storage."""
        ...

    def close(self) -> None:
        """Release descriptors and connections; open files stay usable. A second call does nothing."""
        ...
