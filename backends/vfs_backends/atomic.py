"""Writing a whole file in one step: a reader, or a crash, sees the old content or the new."""

import errno
import os
import stat
from contextlib import suppress

from vfs_backends.osfile import write_all
from vfs_backends.reserved import TemporaryNames

_NEW_FILE = 0o644
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_O_TMPFILE: int = getattr(os, "O_TMPFILE", 0)
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EPERM})


def create(directory: int, name: str, data: bytes, names: TemporaryNames, *, unnamed: bool = True) -> None:
    """Make the file `name` in `directory` with all of `data`; EEXIST if there is anything of that name.

    With `unnamed` the file has no name before it is whole, where the storage can do that, so that a crash
    leaves nothing at all. Otherwise, and without, it is made under a reserved name first.
    """
    if unnamed and _O_TMPFILE and _create_unnamed(directory, name, data):
        return
    aside = _write_aside(directory, data, names, None)
    try:
        os.link(aside, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    finally:
        os.unlink(aside, dir_fd=directory)


def replace(directory: int, name: str, data: bytes, names: TemporaryNames, old: os.stat_result) -> None:
    """Put a file with `data` in the place of `name`, which had the metadata `old`; keep mode and owner."""
    aside = _write_aside(directory, data, names, old)
    try:
        os.rename(aside, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside, dir_fd=directory)
        raise


def _create_unnamed(directory: int, name: str, data: bytes) -> bool:
    """Return False where the storage has no unnamed files."""
    try:
        descriptor = os.open(".", os.O_WRONLY | _O_TMPFILE | os.O_CLOEXEC, _NEW_FILE, dir_fd=directory)
    except OSError as error:
        if error.errno in _NO_UNNAMED:
            return False
        raise
    try:
        write_all(descriptor, data)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != _NEW_FILE:
            os.fchmod(descriptor, _NEW_FILE)
        # The link in /proc leads to the file itself, so following it goes nowhere else.
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=directory, follow_symlinks=True)
    except FileNotFoundError:
        return False
    finally:
        os.close(descriptor)
    return True


def _write_aside(directory: int, data: bytes, names: TemporaryNames, old: os.stat_result | None) -> str:
    """Write `data` under a fresh reserved name and return it; nothing is left if that fails."""
    descriptor, aside = _open_aside(directory, names)
    try:
        try:
            write_all(descriptor, data)
            _carry_over(descriptor, old)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside, dir_fd=directory)
        raise
    return aside


def _open_aside(directory: int, names: TemporaryNames) -> tuple[int, str]:
    while True:
        aside = names.draw()
        with suppress(FileExistsError):
            return os.open(aside, _NEW, 0o600, dir_fd=directory), aside


def _carry_over(descriptor: int, old: os.stat_result | None) -> None:
    if old is None:
        os.fchmod(descriptor, _NEW_FILE)
        return
    now = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (now.st_uid, now.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
