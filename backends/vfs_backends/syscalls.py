"""The few system calls that Python's `os` does not have, by ctypes.

Each raises `OSError` with the errno of the call.
"""

import ctypes
import errno
import os
import sys

from vfs.kernel.ports import RenameFlag

_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_SYMLINK_NOFOLLOW = 0x20 if sys.platform == "darwin" else 0x100
_UTIME_OMIT = -2 if sys.platform == "darwin" else (1 << 30) - 2
_TimeSpecs = ctypes.c_long * 4
_NANOSECONDS = 1_000_000_000


def rename(source_fd: int, source: str, target_fd: int, target: str, flag: RenameFlag) -> None:
    """Rename with the meaning of `renameat2(2)`; ENOSYS where the C library does not have it."""
    call = getattr(_LIBC, "renameat2", None)
    if call is None:
        raise _error(errno.ENOSYS, target)
    if call(source_fd, os.fsencode(source), target_fd, os.fsencode(target), int(flag)) != 0:
        raise _error(ctypes.get_errno(), target)


def set_times(directory: int, name: str, atime_ns: int | None, mtime_ns: int | None) -> None:
    """Set the times given of `name` in `directory`, of a link itself; None leaves a time as it is."""
    times = _TimeSpecs(*_timespec(atime_ns), *_timespec(mtime_ns))
    if _LIBC.utimensat(directory, os.fsencode(name), times, _AT_SYMLINK_NOFOLLOW) != 0:
        raise _error(ctypes.get_errno(), name)


def set_file_times(file: int, atime_ns: int | None, mtime_ns: int | None) -> None:
    """Set the times given of the open `file`; None leaves a time as it is."""
    times = _TimeSpecs(*_timespec(atime_ns), *_timespec(mtime_ns))
    if _LIBC.futimens(file, times) != 0:
        raise _error(ctypes.get_errno(), None)


def sync_storage(directory: int) -> None:
    """Return when the whole file system that holds `directory` has reached stable storage."""
    call = getattr(_LIBC, "syncfs", None)
    if call is None:
        os.sync()
    elif call(directory) != 0:
        raise _error(ctypes.get_errno(), None)


def _timespec(nanoseconds: int | None) -> tuple[int, int]:
    if nanoseconds is None:
        return 0, _UTIME_OMIT
    return divmod(nanoseconds, _NANOSECONDS)


def _error(number: int, name: str | None) -> OSError:
    return OSError(number, os.strerror(number), name)
