"""How the log says that it cannot record: one place for the wording."""

import errno
import sqlite3
from typing import Final

from vfs.kernel.errors import AuditUnavailableError

__all__ = ["damaged", "from_os", "from_sqlite"]

_HINTS: Final = {
    errno.ENOSPC: "free space on the disk that holds it",
    errno.EDQUOT: "free space, or raise the disk quota of its owner",
    errno.EFBIG: "raise the file size limit (`ulimit -f`)",
    errno.EROFS: "its file system is read-only; mount it writable, or put the audit log elsewhere",
    errno.EACCES: "give this user write access to it",
    errno.EPERM: "give this user write access to it",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
}


def from_os(error: OSError, path: str) -> AuditUnavailableError:
    """Say that the operating system refused an access to the log's file `path`."""
    reason = (error.strerror or str(error)).lower()
    return AuditUnavailableError(
        f"cannot record: `{path}`: {reason}",
        hint=_HINTS.get(error.errno or 0, f"see to `{path}`, then try again"),
    )


def from_sqlite(error: sqlite3.Error, path: str) -> AuditUnavailableError:
    """Say that SQLite refused an access to the database `path`."""
    text = str(error).lower()
    if "locked" in text or "busy" in text:
        hint = "another program holds it; close that, then try again"
    elif "malformed" in text or "not a database" in text or "no such table" in text:
        hint = "it is damaged; keep a copy, see `vfs audit verify`, and restore it from a backup"
    elif "readonly" in text or "unable to open" in text:
        hint = "give this user write access to it and its directory"
    elif "full" in text or "disk i/o" in text:
        hint = "free space on the disk that holds it"
    else:
        hint = "see `vfs audit verify`"
    return AuditUnavailableError(f"the audit database `{path}` fails: {text}", hint=hint)


def damaged(path: str, what: str) -> AuditUnavailableError:
    """Say that a file of the log is not as the log left it."""
    return AuditUnavailableError(
        f"the audit log is damaged: `{path}` {what}",
        hint="keep a copy of its directory and run `vfs audit verify`, which names the first bad row",
    )
