"""Opening paths that cannot leave a directory, whatever links and races lie beneath it.

Two strategies with the same result: `OpenAt2` lets the kernel resolve the whole path in one call
(Linux 5.6); `Walk` opens one directory after the other, for older kernels, for seccomp profiles that
refuse `openat2`, and for other systems. Neither follows a symbolic link anywhere.
"""

import ctypes
import errno
import os
import stat
from typing import Protocol

from vfs_backends.errors import os_error

__all__ = ["OpenAt2", "Resolver", "Walk", "best_resolver"]

O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY)
"""A descriptor of a place rather than of its content; systems without it need read permission instead."""

_SYS_OPENAT2 = 437  # the same on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_ATTEMPTS = 64


class Resolver(Protocol):
    """A strategy; it keeps nothing of a path or a descriptor, so that threads may share it."""

    def open(self, root: int, path: str, flags: int, mode: int = 0) -> int:
        """Return a new descriptor of `path` beneath the directory `root`; the root itself is `""`.

        A link on the way, or at the end, is ELOOP, except that `O_PATH|O_NOFOLLOW` opens a link itself.
        A path that would climb out is EXDEV or EINVAL. The descriptor is close-on-exec.
        """
        ...


class OpenAt2:
    """Resolve by `openat2(RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS)`."""

    def __init__(self) -> None:
        # Without declared argument types, and with constants converted once, a call costs half.
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._number = ctypes.c_long(_SYS_OPENAT2)
        self._size = ctypes.c_size_t(ctypes.sizeof(_OpenHow))
        self._hows: dict[int, ctypes.c_void_p] = {}
        self._keep: list[_OpenHow] = []

    def open(self, root: int, path: str, flags: int, mode: int = 0) -> int:
        """See `Resolver.open`."""
        if "/" not in path and path != "..":
            return _open_name(path or ".", flags, mode, root)
        name = path.encode("utf-8", "surrogateescape")
        if b"\0" in name:
            raise OSError(errno.EINVAL, "a path holds no NUL", path)
        how = self._hows.get(flags | mode << 32) or self._how(flags, mode)
        descriptor: int = self._call(self._number, root, name, how, self._size)
        if descriptor >= 0:
            return descriptor
        return self._insist(root, name, how)

    def _insist(self, root: int, name: bytes, how: ctypes.c_void_p) -> int:
        """Raise what the call said, unless it said to try again."""
        for _ in range(_ATTEMPTS):
            number = ctypes.get_errno()
            # EAGAIN: something on the way was renamed meanwhile.
            if number not in (errno.EAGAIN, errno.EINTR):
                break
            descriptor: int = self._call(self._number, root, name, how, self._size)
            if descriptor >= 0:
                return descriptor
        raise os_error(number, os.fsdecode(name))

    def _how(self, flags: int, mode: int) -> ctypes.c_void_p:
        resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
        how = _OpenHow(flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, resolve)
        self._keep.append(how)  # the pointer below does not keep what it points to
        return self._hows.setdefault(flags | mode << 32, ctypes.c_void_p(ctypes.addressof(how)))


class Walk:
    """Resolve by opening each directory on the way with O_NOFOLLOW, from the descriptor of the last."""

    def open(self, root: int, path: str, flags: int, mode: int = 0) -> int:
        """See `Resolver.open`."""
        *directories, last = path.split("/") if path else ["."]
        here = root
        try:
            for name in directories:
                below = _open_name(_plain(name, path), O_PATH | os.O_DIRECTORY, 0, here)
                if here != root:
                    os.close(here)
                here = below
            return _open_name(_plain(last, path) if path else last, flags, mode, here)
        finally:
            if here != root:
                os.close(here)


def best_resolver() -> Resolver:
    """Return `OpenAt2` where this kernel and its seccomp profile allow it, `Walk` elsewhere."""
    try:
        os.close(_probe())
    except OSError:
        return Walk()
    return OpenAt2()


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _probe() -> int:
    root = os.open("/", O_PATH | os.O_DIRECTORY)
    try:
        return OpenAt2().open(root, "./.", O_PATH | os.O_DIRECTORY)
    finally:
        os.close(root)


def _plain(name: str, path: str) -> str:
    if name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "not a plain relative path", path)
    return name


def _open_name(name: str, flags: int, mode: int, directory: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)
    except NotADirectoryError:
        # O_DIRECTORY on a link says ENOTDIR before O_NOFOLLOW can say ELOOP.
        if flags & os.O_DIRECTORY and _is_link(name, directory):
            raise os_error(errno.ELOOP, name) from None
        raise


def _is_link(name: str, directory: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False
