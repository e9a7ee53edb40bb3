"""Errors of PyFilesystem2 and errnos, in both directions."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vfs.kernel.errors import SandboxError
from vfs_backends.errors import os_error
from vfs_backends.fs_compat import errors

__all__ = ["as_fs_error", "as_os_error", "fs_errors", "os_errors"]

# The first class that an error is an instance of decides, so a subclass stands before its base.
_NUMBERS: tuple[tuple[type[Exception], int], ...] = (
    (errors.FileExpected, errno.EISDIR),
    (errors.DirectoryExpected, errno.ENOTDIR),
    (errors.ResourceInvalid, errno.EINVAL),
    (errors.ResourceNotFound, errno.ENOENT),
    (errors.FileExists, errno.EEXIST),
    (errors.DirectoryExists, errno.EEXIST),
    (errors.DestinationExists, errno.EEXIST),
    (errors.DirectoryNotEmpty, errno.ENOTEMPTY),
    (errors.ResourceLocked, errno.EBUSY),
    (errors.ResourceReadOnly, errno.EROFS),
    (errors.RemoveRootError, errno.EBUSY),
    (errors.PermissionDenied, errno.EACCES),
    (errors.InsufficientStorage, errno.ENOSPC),
    (errors.OperationTimeout, errno.ETIMEDOUT),
    (errors.RemoteConnectionError, errno.ENOTCONN),
    (errors.Unsupported, errno.ENOTSUP),
    (errors.FilesystemClosed, errno.ENOTCONN),
    (errors.PathError, errno.EINVAL),
    (errors.IllegalBackReference, errno.EINVAL),
)

_FILE_ERRORS: dict[int, Callable[..., errors.FSError]] = {
    errno.ENOENT: errors.ResourceNotFound,
    errno.ENOTDIR: errors.ResourceNotFound,
    errno.EISDIR: errors.FileExpected,
    errno.ENXIO: errors.FileExpected,
    errno.ELOOP: errors.ResourceInvalid,
    errno.EEXIST: errors.FileExists,
    errno.ENOTEMPTY: errors.DirectoryNotEmpty,
    errno.EBUSY: errors.ResourceLocked,
    errno.EROFS: errors.ResourceReadOnly,
    errno.EACCES: errors.PermissionDenied,
    errno.EPERM: errors.PermissionDenied,
    errno.ENOSPC: errors.InsufficientStorage,
    errno.EDQUOT: errors.InsufficientStorage,
    errno.ETIMEDOUT: errors.OperationTimeout,
    errno.ENOTCONN: errors.RemoteConnectionError,
    errno.ESTALE: errors.RemoteConnectionError,
    errno.ENOTSUP: errors.Unsupported,
    errno.ENOSYS: errors.Unsupported,
}
_DIRECTORY_ERRORS = _FILE_ERRORS | {
    errno.ENOTDIR: errors.DirectoryExpected,
    errno.EEXIST: errors.DirectoryExists,
}
_PATH_ERRORS = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})


def as_os_error(error: Exception, path: str) -> OSError:
    """Return the OSError for an error of PyFilesystem2 about `path`; the errno below it wins if known."""
    cause = getattr(error, "exc", None)
    number = getattr(cause, "errno", None)
    if number is None:
        number = next((number for kind, number in _NUMBERS if isinstance(error, kind)), errno.EIO)
    return os_error(number, path)


def as_fs_error(error: OSError | SandboxError, path: str, *, directory: bool = False) -> errors.FSError:
    """Return the error of PyFilesystem2 for what a backend or the kernel raised about `path`.

    `directory` says that a directory was expected there.
    """
    number = error.errno
    if number in _PATH_ERRORS:
        return errors.InvalidPath(path, exc=error)
    known = _DIRECTORY_ERRORS if directory else _FILE_ERRORS
    return known.get(number or errno.EIO, errors.OperationFailed)(path, exc=error)


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Raise what PyFilesystem2 raises in the block as OSError about `path`."""
    try:
        yield
    except OSError:
        raise
    except (errors.FSError, errors.IllegalBackReference) as error:
        raise as_os_error(error, path) from error


@contextmanager
def fs_errors(path: str, *, directory: bool = False) -> Iterator[None]:
    """Raise what a backend or the kernel raises in the block as an error of PyFilesystem2 about `path`."""
    try:
        yield
    except (OSError, SandboxError) as error:
        raise as_fs_error(error, path, directory=directory) from error
