"""A sandbox as a PyFilesystem2 file system, for whatever consumes one."""

from typing import TYPE_CHECKING

from vfs.kernel.sandbox import Sandbox

if TYPE_CHECKING:
    from vfs_backends.fs_compat import FS

__all__ = ["as_fs"]


def as_fs(sandbox: Sandbox, root: str = "/") -> "FS":
    """Return the sandbox from the directory `root` down as an `fs.base.FS`.

    Every call goes through the sandbox's door, under its face, and is decided and recorded there; what it
    refuses comes out as PyFilesystem2's own errors (`fs.errors.PermissionDenied`, `ResourceNotFound` …). There
    is no system path, so that no helper of PyFilesystem2 gets past the door. Links are shown and not
    followed. Closing it leaves the sandbox open. Raises InvalidPathError and SecurityViolationError for a root
    that is none.
    """
    from vfs_backends.view import BackendFS

    return BackendFS(sandbox.files, sandbox.files.resolve(sandbox.resolve(root)))
