"""Every error the sandbox raises, in one tree.

    Exception
    └── SandboxError                     SANDBOX_ERROR
        ├── PermissionError              PERMISSION_DENIED      also builtins.PermissionError
        │   ├── SecurityViolationError   SECURITY_VIOLATION     a boundary was attacked, not merely met
        │   └── ApprovalRequiredError    APPROVAL_REQUIRED      an approver would have to say yes
        ├── NotFoundError                NOT_FOUND              also builtins.FileNotFoundError
        ├── InvalidPathError             INVALID_PATH           also builtins.ValueError
        ├── FileExistsError              FILE_EXISTS            also builtins.FileExistsError
        ├── QuotaExceededError           QUOTA_EXCEEDED
        ├── ConflictError                CONFLICT               somebody else changed it meanwhile
        ├── AuditUnavailableError        AUDIT_UNAVAILABLE      what cannot be recorded does not happen
        ├── BackendUnavailableError      BACKEND_UNAVAILABLE    the storage under a zone does not answer
        ├── FileSystemError              the errno's name       everything else POSIX has a number for
        ├── SessionError                 INVALID_SESSION        unknown, ended or expired session
        ├── TokenError                   INVALID_TOKEN          a promotion token that does not hold
        ├── LeaseError                   LEASE_ERROR
        ├── ConfigError                  INVALID_CONFIG
        └── UnavailableError             UNAVAILABLE            this machine lacks what a face needs

The first six codes are seed 001's. Each class knows what every face has to report: `code` (seed), `errno`
(mount), `exit_code` (command, documented in docs/COMMANDS.md) and `http_status`.
"""

import builtins
import errno as _errno

__all__ = [
    "ApprovalRequiredError",
    "AuditUnavailableError",
    "BackendUnavailableError",
    "ConfigError",
    "ConflictError",
    "FileExistsError",
    "FileSystemError",
    "InvalidPathError",
    "LeaseError",
    "NotFoundError",
    "PermissionError",
    "QuotaExceededError",
    "SandboxError",
    "SecurityViolationError",
    "SessionError",
    "TokenError",
    "UnavailableError",
    "from_os_error",
]


class SandboxError(Exception):
    """Base class of all sandbox errors (seed 001, Error Types).

    `code` is stable and meant for programs; `message` is meant for people; `path` is the virtual path it
    is about, if it is about one; `hint` says what to do next, where we know.
    """

    code = "SANDBOX_ERROR"
    errno = _errno.EIO
    exit_code = 1
    http_status = 500

    def __init__(self, message: str, path: str | None = None, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.hint = hint

    def __str__(self) -> str:
        """Return the message; the faces add path and hint in their own form."""
        return self.message


class PermissionError(SandboxError, builtins.PermissionError):  # noqa: A001 (the seed's name)
    """The session's trust level, or a path rule, does not grant the operation."""

    code = "PERMISSION_DENIED"
    errno = _errno.EACCES
    exit_code = 13
    http_status = 403


class SecurityViolationError(PermissionError):
    """A boundary was attacked: another session's path, a link that leaves its zone."""

    code = "SECURITY_VIOLATION"
    exit_code = 14


class ApprovalRequiredError(PermissionError):
    """A rule says `ask`, and nobody there to be asked said yes."""

    code = "APPROVAL_REQUIRED"
    exit_code = 15


class NotFoundError(SandboxError, builtins.FileNotFoundError):
    """No file or directory at that path, or none that this session may know of."""

    code = "NOT_FOUND"
    errno = _errno.ENOENT
    exit_code = 4
    http_status = 404


class InvalidPathError(SandboxError, ValueError):
    """The path is not one: climbs above the root, holds NUL, is over-long, names no zone."""

    code = "INVALID_PATH"
    errno = _errno.EINVAL
    exit_code = 5
    http_status = 400


class FileExistsError(SandboxError, builtins.FileExistsError):  # noqa: A001 (the seed's name)
    """Something is already there and may not be replaced."""

    code = "FILE_EXISTS"
    errno = _errno.EEXIST
    exit_code = 6
    http_status = 409


class QuotaExceededError(SandboxError):
    """The zone's size quota would be exceeded."""

    code = "QUOTA_EXCEEDED"
    errno = _errno.EDQUOT
    exit_code = 7
    http_status = 507


class ConflictError(SandboxError):
    """Somebody else changed the same thing meanwhile; nothing was overwritten."""

    code = "CONFLICT"
    errno = _errno.EBUSY
    exit_code = 8
    http_status = 409


class AuditUnavailableError(SandboxError):
    """The access could not be recorded, so it did not happen."""

    code = "AUDIT_UNAVAILABLE"
    errno = _errno.EIO
    exit_code = 9
    http_status = 503


class BackendUnavailableError(SandboxError):
    """The storage under a zone is gone or does not answer."""

    code = "BACKEND_UNAVAILABLE"
    errno = _errno.EIO
    exit_code = 10
    http_status = 503


class SessionError(SandboxError):
    """The session is unknown, has ended or has expired, or its id is not one."""

    code = "INVALID_SESSION"
    errno = _errno.EACCES
    exit_code = 11
    http_status = 404


class TokenError(SandboxError):
    """A promotion token is expired, forged, for another session or level, or was used before."""

    code = "INVALID_TOKEN"
    errno = _errno.EACCES
    exit_code = 12
    http_status = 403


class LeaseError(SandboxError):
    """A lease has ended or cannot be had."""

    code = "LEASE_ERROR"
    exit_code = 16
    http_status = 409


class ConfigError(SandboxError):
    """`vfs.toml`, an option or an environment variable says something that cannot be."""

    code = "INVALID_CONFIG"
    errno = _errno.EINVAL
    exit_code = 17
    http_status = 500


class UnavailableError(SandboxError):
    """This machine lacks what the face needs; the hint is the command that mends it."""

    code = "UNAVAILABLE"
    errno = _errno.ENOSYS
    exit_code = 18
    http_status = 501


class FileSystemError(SandboxError, OSError):  # type: ignore[misc]  # errno is always set here
    """What POSIX has a number for and the tree above no class: ENOTDIR, ENOTEMPTY, EXDEV, ENOSPC.

    `code` and `errno` are those of the instance, e.g. `ENOTEMPTY`.
    """

    exit_code = 3
    http_status = 409

    def __init__(
        self, number: int, message: str, path: str | None = None, *, hint: str | None = None
    ) -> None:
        super().__init__(message, path, hint=hint)
        self.errno = number
        self.code = _errno.errorcode.get(number, "EIO")


_GONE = frozenset({_errno.ESTALE, _errno.ENOTCONN, _errno.EHOSTDOWN, _errno.ETIMEDOUT})


def from_os_error(error: OSError, path: str) -> SandboxError:
    """Translate a backend's OSError about virtual `path` into the tree."""
    number = error.errno or _errno.EIO
    if number == _errno.ENOENT:
        return NotFoundError(f"file or directory not found: `{path}`", path)
    if number == _errno.EEXIST:
        return FileExistsError(f"file already exists: `{path}`", path)
    if number == _errno.EDQUOT:
        return QuotaExceededError(f"the disk quota of the storage is used up: `{path}`", path)
    if number in (_errno.EACCES, _errno.EPERM):
        refused = PermissionError(f"the storage refuses access to `{path}`", path)
        refused.errno = number
        return refused
    if number in _GONE:
        return BackendUnavailableError(f"the storage under `{path}` does not answer", path)
    text = (error.strerror or "input/output error").lower()
    return FileSystemError(number, f"{text}: `{path}`", path)
