"""The store: `audit.db`, where rows are looked up.

Rows come from the journal in batches (`ingest`) and never from anywhere else. Moving them is idempotent: a
crash at any point leaves them in the journal, in the store, or in both.

One connection per process writes, behind a lock; each query has a connection of its own, so that a long
export stops nobody. Nothing of SQLite's is shared with a forked child.
"""

import contextlib
import functools
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, TypeVar

from vfs.kernel.audit import failure, schema
from vfs.kernel.audit.fork import renew_after_fork
from vfs.kernel.audit.journal import Extent, Journal
from vfs.kernel.audit.record import parse_line
from vfs.kernel.errors import AuditUnavailableError

__all__ = ["NAME", "Store"]

NAME: Final = "audit.db"
BATCH: Final = 4 << 20
"""Bytes of journal per transaction, each of which costs a flush of the disk."""
ROWS_AT_ONCE: Final = 200
"""Rows per statement. While SQLite works on one, other Python threads run; one row at a time they would not."""
KEEP: Final = 128 << 10
"""Bytes of stored rows that the journal may still hold; replacing the file costs a flush of the disk."""
BUSY_SECONDS: Final = 5.0

_LINES: Final = re.compile(r'([0-9a-f]{64}) (\{"seq":([1-9]\d*),[^\n]*\})\n')

_T = TypeVar("_T")


class Store:
    """The database of one audit directory. Safe to use from any thread."""

    def __init__(self, directory: str, journal: Journal) -> None:
        self.path: Final = os.path.join(directory, NAME)
        self._journal = journal
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection] = []
        renew_after_fork(self)

    def ingest(self, *, rotate_beyond: int = KEEP) -> None:
        """Move what the journal has beyond the store; afterwards a query sees every row appended before.

        AuditUnavailableError if the database cannot take the rows; they stay in the journal.
        """
        with self._lock:
            extent = self._journal.unstored()
            if extent is not None:
                try:
                    self._copy(extent)
                finally:
                    os.close(extent.descriptor)
            self._journal.rotate(rotate_beyond)

    def _copy(self, extent: Extent) -> None:
        at = extent.start
        while at < extent.end:
            data = os.pread(extent.descriptor, min(BATCH, extent.end - at), at)
            data = data[: data.rfind(b"\n") + 1]
            last = parse_line(data[data.rfind(b"\n", 0, -1) + 1 : -1])
            if last is None:
                raise failure.damaged(self._journal.path, f"holds no row at byte {at}")
            self.write(functools.partial(self._insert, data))
            at += len(data)
            self._journal.mark_stored(extent, at, last.sequence, last.time, last.hash)

    def _insert(self, lines: bytes, connection: sqlite3.Connection) -> None:
        (newest,) = connection.execute("SELECT coalesce(max(seq), 0) FROM audit").fetchone()
        text = lines.decode("ascii", "replace")
        end, place = 0, 0
        while end < len(text):
            values: list[object] = []
            for found in islice(_LINES.finditer(text, end), ROWS_AT_ONCE):
                if found.start() != end:
                    break
                end = found.end()
                row_hash, record, sequence = found.groups()
                if int(sequence) > newest:
                    values += (int(sequence), record, row_hash)
            if end == place:
                raise failure.damaged(
                    self._journal.path, f"holds no row where `{text[end : end + 40]}` stands"
                )
            place = end
            if values:
                marks = ",".join(["(?,?,?)"] * (len(values) // 3))
                connection.execute(f"INSERT INTO audit (seq, record, hash) VALUES {marks}", values)  # noqa: S608 (marks)

    def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do `work` in one transaction, on the disk when this returns, or not at all."""
        with self._lock:
            try:
                connection = self._writable()
                with _transaction(connection):
                    return work(connection)
            except sqlite3.Error as error:
                raise failure.from_sqlite(error, self.path) from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that sees one state of the database until the block ends."""
        try:
            self._create()
            connection = sqlite3.connect(
                f"file:{_uri(self.path)}?mode=rw",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                connection.execute("PRAGMA query_only = ON")
                connection.execute("BEGIN")
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise failure.from_sqlite(error, self.path) from error

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                try:
                    connection.close()
                except sqlite3.Error as error:
                    raise failure.from_sqlite(error, self.path) from error

    def renew(self) -> None:
        """In a forked child: never touch the parent's connection, not even to close it."""
        self._lock = threading.RLock()
        if self._connection is not None:
            self._inherited.append(self._connection)
            self._connection = None

    def _create(self) -> None:
        with self._lock:
            self._writable()

    def _writable(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                if not _has_schema(connection):
                    with _transaction(connection):
                        schema.create(connection)
                    os.chmod(self.path, 0o600)
                self._check_version(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _check_version(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("SELECT max(version) FROM chain").fetchone()
        if version != schema.VERSION:
            raise AuditUnavailableError(
                f"the audit database `{self.path}` has version {version}, not {schema.VERSION}",
                hint="use the version of vfs that wrote it",
            )


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _has_schema(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'chain'").fetchone()
    return found is not None


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(os.fsencode(os.path.abspath(path)))
