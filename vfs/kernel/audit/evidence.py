"""The files of a log as they lie there, read without changing anything and without trusting anything."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from vfs.kernel.audit import journal, store
from vfs.kernel.audit.record import Carry, parse_carry
from vfs.kernel.errors import ConfigError

__all__ = ["Evidence", "RawRow", "UnreadableError", "collect"]

RawRow = tuple[int | None, bytes, bytes]
"""Sequence number as its place claims it, text, hash. None for a line of the journal that has no number."""

_LINE: Final = re.compile(rb'([^ ]*) (\{"seq":(\d{1,18}),.*)', re.DOTALL)


class UnreadableError(Exception):
    """A file of the log cannot be read as what it should be."""


class Evidence:
    """A database, seen in one state, and a journal read before; `collect` makes it."""

    def __init__(self, lines: list[bytes], connection: sqlite3.Connection | None) -> None:
        carry = parse_carry(lines[0]) if lines else None
        if carry is None:
            raise UnreadableError("the journal has no valid first line")
        self.carry: Final[Carry] = carry
        self._lines = lines if carry.sequence == 0 else lines[1:]
        self._connection = connection
        self._last: int | None = None
        self._hashes: dict[int, str] | None = None

    def prunes(self) -> list[tuple[int, str, str]]:
        """Return sequence number, document and signature of each prune, oldest first."""
        return [
            (sequence, _text(document), _text(signature))
            for sequence, document, signature in self._query(
                "SELECT seq, document, signature FROM prunes ORDER BY seq"
            )
        ]

    def genesis(self) -> dict[str, Any] | None:
        """Return the record of the first row if it is there and is one that begins a chain."""
        texts = [_text(text) for (text,) in self._query("SELECT record FROM audit WHERE seq = 1")]
        if not texts and self.carry.sequence == 0:
            texts = [self._lines[0].partition(b" ")[2].decode("ascii", "replace")]
        with contextlib.suppress(ValueError, IndexError):
            record = json.loads(texts[0])
            if isinstance(record, dict) and {"chain", "key"} <= record.keys():
                return record
        return None

    def rows(self, first: int) -> Iterator[RawRow]:
        """Yield the rows of the database from that number on, in its order."""
        if self._connection is not None:
            yield from self._connection.execute(
                "SELECT seq, record, hash FROM audit WHERE seq >= ? ORDER BY seq", (first,)
            )

    def last_stored(self) -> int:
        """Return the greatest sequence number in the database; 0 if there is none."""
        if self._last is None:
            found = list(self._query("SELECT max(seq) FROM audit"))
            self._last = (found[0][0] or 0) if found else 0
        return self._last

    def journal_rows(self) -> Iterator[RawRow]:
        """Yield the rows of the journal in its order, whether or not the database has them too."""
        for line in self._lines:
            found = _LINE.fullmatch(line)
            yield (None, line, b"") if found is None else (int(found[3]), found[2], found[1])

    def hash_of(self, sequence: int) -> str | None:
        """Return the hash that stands beside that row: the database's, else the journal's."""
        for (row_hash,) in self._query("SELECT hash FROM audit WHERE seq = ?", (sequence,)):
            return _text(row_hash)
        if self._hashes is None:
            self._hashes = {
                row[0]: row[2].decode("ascii", "replace") for row in self.journal_rows() if row[0] is not None
            }
        return self._hashes.get(sequence)

    def _query(self, sql: str, values: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        if self._connection is None:
            return
        try:
            yield from self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise UnreadableError(f"the audit database cannot be read: {error}") from error


@contextlib.contextmanager
def collect(directory: str) -> Iterator[Evidence]:
    """Open the files of the log in `directory`. ConfigError if there is none."""
    path, database = os.path.join(directory, journal.NAME), os.path.join(directory, store.NAME)
    if not os.path.lexists(path) and not os.path.lexists(database):
        raise ConfigError(
            f"there is no audit log in `{directory}`", hint="name the directory that holds `journal`"
        )
    # The journal first: what is moved from there to the database meanwhile is then seen in both.
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError as error:
        raise UnreadableError("the journal is missing") from error
    except OSError as error:
        raise UnreadableError(f"the journal cannot be read: {error.strerror}") from error
    lines = content.split(b"\n")[:-1]  # what follows the last line break is being written, or torn
    if lines and lines[-1] == journal.ROTATED.rstrip():
        lines.pop()
    with contextlib.ExitStack() as stack:
        connection = _connect(database, stack) if os.path.lexists(database) else None
        yield Evidence(lines, connection)


def _connect(path: str, stack: contextlib.ExitStack) -> sqlite3.Connection:
    """Open the database for reading; where SQLite's own files cannot be made beside it, in a copy."""
    try:
        return _try_connect(path, stack, "mode=ro")
    except sqlite3.Error:
        pass
    try:
        log = path + "-wal"
        if not os.path.exists(log) or os.path.getsize(log) == 0:
            return _try_connect(path, stack, "mode=ro&immutable=1")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vfs-audit-"))
        copy = shutil.copyfile(path, os.path.join(folder, store.NAME))
        shutil.copyfile(log, copy + "-wal")
        return _try_connect(copy, stack, "mode=rw")
    except (OSError, sqlite3.Error) as error:
        raise UnreadableError(f"the audit database cannot be read: {error}") from error


def _try_connect(path: str, stack: contextlib.ExitStack, mode: str) -> sqlite3.Connection:
    name = quote(os.fsencode(os.path.abspath(path)))
    connection = sqlite3.connect(f"file:{name}?{mode}", uri=True, isolation_level=None, timeout=5.0)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM audit LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    connection.text_factory = bytes
    stack.callback(connection.close)
    return connection


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
