"""Copying and moving whole trees within one backend, links as links."""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from vfs.kernel.ports import Backend, RenameFlag
from vfs_backends.errors import os_error

__all__ = ["copy_file", "copy_tree", "move_file", "move_tree"]

_CHUNK = 1 << 20


def copy_file(backend: Backend, source: str, target: str) -> None:
    """Copy a file, by content and permission bits, or a link, over what is at `target`.

    A file there is overwritten in place, so that whoever reads it meanwhile may see a part.
    """
    found = backend.stat(source)
    if stat.S_ISLNK(found.mode):
        _remove_if_there(backend, target)
        backend.symlink(backend.read_link(source), target)
        return
    reader = backend.open(source, os.O_RDONLY)
    try:
        writer = backend.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IMODE(found.mode))
        try:
            offset = 0
            while data := reader.pread(_CHUNK, offset):
                offset += writer.pwrite(data, offset)
        finally:
            writer.close()
    finally:
        reader.close()


def move_file(backend: Backend, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
    """Rename a file or link; copy and remove it where a rename cannot reach (EXDEV)."""
    try:
        backend.rename(source, target, flag)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if flag == RenameFlag.NOREPLACE and _exists(backend, target):
            raise os_error(errno.EEXIST, target) from error
        copy_file(backend, source, target)
        backend.remove(source)


def copy_tree(backend: Backend, source: str, target: str, *, times: bool = False) -> None:
    """Copy what is in the directory `source` into the directory `target`, which is made if missing.

    With `times` the files' times are copied too.
    """

    def copy(old: str, new: str) -> None:
        copy_file(backend, old, new)
        if times:
            found = backend.stat(old)
            backend.set_times(new, found.atime_ns, found.mtime_ns)

    _transfer(backend, source, target, copy)


def move_tree(backend: Backend, source: str, target: str) -> None:
    """Move what is in the directory `source` into the directory `target`, and remove `source`."""
    emptied = _transfer(backend, source, target, lambda old, new: move_file(backend, old, new))
    for directory in reversed(emptied):
        backend.remove_dir(directory)


def _transfer(backend: Backend, source: str, target: str, act: Callable[[str, str], None]) -> list[str]:
    """Do `act` with each file's old and new path; return the directories gone through, from the top."""
    if not source or f"{target}/".startswith(f"{source}/"):
        raise os_error(errno.EINVAL, target)
    pending = [(source, target)]
    done: list[str] = []
    while pending:
        here, there = pending.pop()
        entries = backend.scan(here)
        _require_directory(backend, there, stat.S_IMODE(backend.stat(here).mode))
        for entry in entries:
            old, new = f"{here}/{entry.name}", f"{there}/{entry.name}".lstrip("/")
            if entry.type == stat.S_IFDIR:
                pending.append((old, new))
            else:
                act(old, new)
        done.append(here)
    return done


def _require_directory(backend: Backend, path: str, mode: int) -> None:
    try:
        backend.make_dir(path, mode)
    except FileExistsError:
        if not stat.S_ISDIR(backend.stat(path).mode):
            raise os_error(errno.ENOTDIR, path) from None


def _exists(backend: Backend, path: str) -> bool:
    try:
        backend.stat(path)
    except FileNotFoundError:
        return False
    return True


def _remove_if_there(backend: Backend, path: str) -> None:
    with suppress(FileNotFoundError):
        backend.remove(path)
