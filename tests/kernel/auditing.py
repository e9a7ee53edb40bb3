"""An audit log in a directory of its own, and the hands of one who tampers with it."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vfs.kernel.audit import AuditLog, Recorder, VerifyReport, verify
from vfs.kernel.audit.record import chain_hash
from vfs.kernel.keys import SigningKey, VerifyKey
from vfs.kernel.zones import Zone


class AuditWorld:
    """Directory, key and heads; `open` opens the log there as a new process would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "audit"
        self.heads = root / "outside" / "heads"
        self.heads.parent.mkdir(parents=True)
        self.journal = self.directory / "journal"
        self.database = self.directory / "audit.db"
        self.signer = SigningKey.create(root / "outside" / "key")

    def open(self, **options: Any) -> AuditLog:
        return AuditLog.open(self.directory, signer=self.signer, heads=self.heads, **options)

    def fill(self, rows: int = 20, *, stored: bool = True, **options: Any) -> None:
        """Write that many rows after the genesis row, and move them to the database or not."""
        with self.open(**options) as log:
            recorder = bind(log)
            for number in range(rows):
                read(recorder, f"/repo/file{number}")
            if stored:
                log.stats()
                log._store.ingest(rotate_beyond=0)

    def verify(self, *, heads: bool = True) -> VerifyReport:
        key = VerifyKey.load(self.root / "outside" / "key.pub")
        return verify(self.directory, key, self.heads if heads else None)

    @contextlib.contextmanager
    def tampering(self) -> Iterator[sqlite3.Connection]:
        """The database without its triggers."""
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            yield connection

    def rewrite(self, change: Callable[[int, str], str], first: int = 1, last: int | None = None) -> None:
        """Change records and hash everything from there on anew, as one would who knows how."""
        with self.tampering() as connection:
            rows = connection.execute("SELECT seq, record, hash FROM audit ORDER BY seq").fetchall()
            previous = "0" * 64
            for sequence, record, row_hash in rows:
                if sequence < first or (last is not None and sequence > last):
                    previous = row_hash
                    continue
                text = change(sequence, record)
                previous = chain_hash(previous, text)
                connection.execute(
                    "UPDATE audit SET record = ?, hash = ? WHERE seq = ?", (text, previous, sequence)
                )


def bind(log: AuditLog, session_id: str = "s1", **options: Any) -> Recorder:
    return log.bind(**{"session_id": session_id, "trust_level": "session", "face": "api", **options})


def read(recorder: Recorder, path: str = "/repo/a", **options: Any) -> int:
    return recorder.entry("read", "read", path, Zone.REPO, True, **{"outcome": "ok", **options})


def write(recorder: Recorder, path: str = "/session/working/a", **options: Any) -> int:
    return recorder.entry("write", "write", path, Zone.SESSION, True, pending=True, **options)
