"""What a project remembers besides its files and its log: one SQLite database and one counter.

Several processes share both. Whoever changes something that a running session must notice (a trust level, a
session's end, a decision on a staged commit) bumps the counter afterwards; everyone else compares it at
each access, which costs one `pread`.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vfs.kernel.errors import BackendUnavailableError

__all__ = ["Generation", "StateDatabase"]

SCHEMA_VERSION = 1
BUSY_SECONDS = 10


class Generation:
    """A counter in a file, shared by all processes at work on a project. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> bytes:
        """Return the counter as it stands, opaque: equal or not is all it tells.

        Raises OSError once the counter is closed, so that a session that has lost it is refused.
        """
        return os.pread(self._fd, 8, 0)

    def bump(self) -> None:
        """Tell everyone that something they may have kept no longer holds."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            value = int.from_bytes(os.pread(self._fd, 8, 0), "big") + 1
            os.pwrite(self._fd, value.to_bytes(8, "big"), 0)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the descriptor; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class StateDatabase:
    """The project's SQLite database behind one connection and a lock. Thread-safe.

    Every method raises BackendUnavailableError, with what to do, when SQLite reports a database that is
    locked, full, read-only or corrupt; nothing is half written then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        with self._explained():
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute("PRAGMA foreign_keys=ON")
            if self.query("PRAGMA user_version")[0][0] < SCHEMA_VERSION:
                self._create()

    def query(self, sql: str, *parameters: object) -> list[sqlite3.Row]:
        """Run one statement and return its rows."""
        with self._lock, self._explained():
            return self._connection.execute(sql, parameters).fetchall()

    def version(self) -> int:
        """Return a number that differs once another connection has changed the database."""
        return int(self.query("PRAGMA data_version")[0][0])

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the database for writing; everything inside takes effect together or not at all."""
        with self._lock, self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Release the connection; a second call does nothing."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            reason, hint = _explain(error)
            raise BackendUnavailableError(
                f"the state database `{self.path}` {reason} ({error})", hint=hint
            ) from error

    def _create(self) -> None:
        """Make the tables; two processes may arrive at once."""
        import sqlite_utils

        with self.transaction():
            if self.query("PRAGMA user_version")[0][0] >= SCHEMA_VERSION:
                return
            database: Any = sqlite_utils.Database(self._connection, execute_plugins=False)
            for table, columns, key in _TABLES:
                # sqlite-utils would commit a transaction of its own around `create`.
                self._connection.execute(database.create_table_sql(table, columns, pk=key))
            self._connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


_TABLES: tuple[tuple[str, dict[str, type], str | tuple[str, ...]], ...] = (
    # What is known of the project itself, e.g. its id.
    ("meta", {"key": str, "value": str}, "key"),
    # Times are seconds since the epoch; NULL expires_at never expires; NULL ended_at is still there.
    (
        "sessions",
        {
            "id": str,
            "workspace_id": str,
            "created_at": float,
            "trust_level": str,
            "trust_since": float,
            "trust_by": str,
            "source_context": str,
            "expires_at": float,
            "ended_at": float,
        },
        "id",
    ),
    # The files of a staged commit are under /staged/{id}; its deletions have no file and are listed here.
    (
        "staged_commits",
        {
            "id": str,
            "workspace_id": str,
            "session_id": str,
            "created_at": float,
            "message": str,
            "status": str,
            "deletions": str,
        },
        ("workspace_id", "id"),
    ),
    # A promotion token counts once; a row here is its use.
    ("used_tokens", {"id": str, "session_id": str, "used_at": float}, "id"),
    # Bytes in use per quota, counted and reserved; NULL counted_at asks for a count.
    ("usage", {"scope": str, "bytes": int, "counted_at": float}, "scope"),
    # Mounts served now, so that a dead one can be found and cleared.
    (
        "mounts",
        {"mount_point": str, "session_id": str, "pid": int, "started": str, "created_at": float},
        "mount_point",
    ),
)  # fmt: skip


def _explain(error: sqlite3.Error) -> tuple[str, str]:
    text = str(error)
    if "locked" in text or "busy" in text:
        return "is locked by another process", "wait for the other command to end, then try again"
    if "full" in text:
        return "cannot grow, the disk is full", "make room on the disk, then try again"
    if "readonly" in text or "read-only" in text:
        return "is read-only", "make the file and its directory writable for you"
    if "unable to open" in text:
        return "cannot be opened", "check that its directory exists and is yours"
    if "malformed" in text or "not a database" in text:
        return "is damaged", "move it aside: sessions and staged commits are then unknown, their files stay"
    return "failed", "run `vfs doctor`"
