"""The audit log of one project (seed 001, Audit Log Types; DESIGN, Audit log).

Rows are appended to the journal, looked up in the store, and vouched for by heads; this is what holds the
three together. There is no way to have a log that does not record.
"""

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TextIO

from vfs.kernel.audit import failure
from vfs.kernel.audit.entry import AuditEntry, AuditFilter
from vfs.kernel.audit.export import Format, Progress, write_entries
from vfs.kernel.audit.fork import renew_after_fork
from vfs.kernel.audit.heads import Heads
from vfs.kernel.audit.journal import Durability, Journal
from vfs.kernel.audit.prune import prune
from vfs.kernel.audit.query import Joined, find, followers
from vfs.kernel.audit.record import decode_entry
from vfs.kernel.audit.recorder import Recorder, outcome_body
from vfs.kernel.audit.stats import AuditStats, collect
from vfs.kernel.audit.store import KEEP, Store
from vfs.kernel.audit.verify import VerifyReport, verify
from vfs.kernel.audit.writers import dead_writers, living_writers
from vfs.kernel.errors import AuditUnavailableError
from vfs.kernel.keys import SigningKey

__all__ = ["AuditLog"]

_ALL: Final = AuditFilter()
_CROWDED: Final = 32 << 20
"""Bytes in the journal from which on who appends waits for rows to be moved to the store."""


class AuditLog:
    """Records, finds, exports, prunes and verifies; made by `AuditLog.open`. Safe to use from any thread.

    Any number of processes may have the same directory open. Every method raises AuditUnavailableError if
    the log cannot do its work; what a recording method raises for was not recorded, and must not happen.
    """

    def __init__(self, directory: str, journal: Journal, store: Store, heads: Heads) -> None:
        self.directory: Final = directory
        self._journal = journal
        self._store = store
        self._heads = heads
        self._ingesting: threading.Thread | None = None
        renew_after_fork(self)

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        signer: SigningKey,
        heads: str | os.PathLike[str],
        durability: Durability = "os",
        heads_every: int = 256,
    ) -> Self:
        """Open the log in `directory`, beginning one if there is none.

        `signer` signs a head every `heads_every` rows and at flush and close, to the file `heads`, which
        should lie where nothing in the sandbox can reach. With durability `os` a recorded row survives the
        death of the process, with `disk` a power cut. What writers that died left unfinished is recorded
        as interrupted. The log can be continued only with the key it was begun with.
        """
        path = os.path.abspath(os.fspath(directory))
        signing = Heads(os.fspath(heads), signer, durability)
        opened: list[Self] = []
        journal = Journal(
            path,
            durability=durability,
            head_every=heads_every,
            sign_head=lambda sequence, row_hash: signing.sign(journal.chain, sequence, row_hash),
            on_growth=lambda: opened[0]._ingest_aside(),  # noqa: SLF001 (its own class)
        )
        store = Store(path, journal)
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError as error:
            raise failure.from_os(error, path) from error
        signing.check()
        journal.open(
            lambda: (secrets.token_hex(16), signer.public.id, signer.public_pem),
            may_begin=lambda: not os.path.lexists(store.path),
        )
        log = cls(path, journal, store, signing)
        opened.append(log)
        try:
            if journal.key_id != signer.public.id:
                raise AuditUnavailableError(
                    f"the audit log `{path}` was begun with the key {journal.key_id}, not {signer.public.id}",
                    hint="use the signing key it was begun with, or begin a log in another directory",
                )
            log._report_interrupted()
        except BaseException:
            journal.close()
            store.close()
            raise
        return log

    @property
    def chain(self) -> str:
        """The random id of this chain of rows."""
        return self._journal.chain

    # Recording

    def bind(
        self,
        *,
        session_id: str,
        trust_level: str,
        face: str,
        workspace_id: str | None = None,
        lease: str | None = None,
    ) -> Recorder:
        """Return what records the accesses of one session through one face."""
        return Recorder(
            self._journal,
            session_id=session_id,
            workspace_id=workspace_id,
            trust_level=trust_level,
            face=face,
            lease=lease,
        )

    def log(
        self,
        operation: str,
        *,
        session_id: str,
        trust_level: str,
        allowed: bool,
        path: str | None = None,
        zone: str | None = None,
        reason: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        action: str | None = None,
        face: str = "api",
        workspace_id: str | None = None,
    ) -> int:
        """Record an event and return its sequence number; what recurs is better recorded through `bind`."""
        recorder = self.bind(
            session_id=session_id, trust_level=trust_level, face=face, workspace_id=workspace_id
        )
        return recorder.entry(
            operation, action or operation, path, zone, allowed, reason=reason, metadata=metadata
        )

    # Finding

    def get_entries(self, filter: AuditFilter = _ALL) -> list[AuditEntry]:  # noqa: A002 (the seed's name)
        """Return the entries that the filter takes, in its order."""
        return list(self.iter_entries(filter))

    def iter_entries(self, filter: AuditFilter = _ALL) -> Iterator[AuditEntry]:  # noqa: A002 (as above)
        """Yield the entries that the filter takes, as they were when the first was asked for."""
        with self._found(filter) as (rows, living):
            for row_hash, record, later in rows:
                yield decode_entry(self.chain, row_hash, record, later, living)

    def get_session_entries(self, session_id: str) -> list[AuditEntry]:
        """Return the entries of one session, oldest first."""
        return self.get_entries(AuditFilter(session_id=session_id))

    def get_violations(self, limit: int | None = None) -> list[AuditEntry]:
        """Return the newest entries that were not allowed, newest first: denials and attacked boundaries."""
        return self.get_entries(AuditFilter(allowed=False, newest_first=True, limit=limit))

    def tail(self, after: int = 0) -> list[AuditEntry]:
        """Return the entries beyond sequence number `after`, oldest first: call again with the last one's."""
        return self.get_entries(AuditFilter(after=after))

    def export(
        self,
        filter: AuditFilter = _ALL,  # noqa: A002 (the seed's name)
        format: Format = "json",  # noqa: A002 (the seed's name)
        *,
        out: TextIO,
        progress: Progress | None = None,
    ) -> int:
        """Write the entries that the filter takes to a text stream and return how many (see `export.py`)."""
        with self._found(filter) as (rows, living):
            return write_entries(rows, out, format, chain=self.chain, living=living, progress=progress)

    def stats(self) -> AuditStats:
        """Return what the log holds."""
        self._store.ingest()
        with self._store.reading() as connection:
            return collect(connection, self._journal, self._store.path)

    @contextlib.contextmanager
    def _found(self, wanted: AuditFilter) -> Iterator[tuple[Iterator[Joined], frozenset[str]]]:
        self._store.ingest()
        # Asked for before and after: a writer may end or begin while the database is being opened.
        living = living_writers(self.directory)
        with self._store.reading() as connection:
            living |= living_writers(self.directory)
            yield followers(connection, find(connection, wanted)), living

    # Keeping

    def prune(self, older_than: datetime, who: str, reason: str) -> int:
        """Delete rows older than that, signed and recorded; return how many rows (see `prune.py`)."""
        recorder = self.bind(session_id="", trust_level="full", face="api")
        return prune(self._store, recorder, self._heads.signer, self.chain, older_than, who, reason)

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check the whole chain, as `verify.verify` does, with this log's key and heads."""
        return verify(self.directory, self._heads.signer.public, self._heads.path, progress)

    def flush(self) -> None:
        """Bring every row to the disk, whatever the durability, and sign a head for the newest."""
        self._journal.sync()
        self._journal.sign_newest()

    def close(self) -> None:
        """Sign a head, if anything was recorded, and release everything. A second call does nothing.

        Raises if no head could be signed, after releasing. That the database cannot take rows is no
        failure here: they stay in the journal.
        """
        if not self._journal.is_open:
            return
        worker = self._ingesting
        if worker is not None:
            worker.join()
        try:
            if self._journal.size > KEEP:
                with contextlib.suppress(AuditUnavailableError):
                    self._store.ingest()
            self._journal.sign_newest()
        finally:
            self._journal.close()
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ingest_aside(self) -> None:
        """Move rows to the store in a thread of its own, unless one is at it."""
        worker = self._ingesting
        if worker is not None and worker.is_alive():
            if self._journal.size > _CROWDED:
                worker.join()  # appending waits for the database rather than fail later
            return
        self._ingesting = threading.Thread(target=self._try_ingest, name="vfs-audit-ingest", daemon=True)
        with contextlib.suppress(RuntimeError):  # at the interpreter's end no thread starts; rows are safe
            self._ingesting.start()

    def _try_ingest(self) -> None:
        # The rows stay in the journal; if this goes on, it reaches its limit and appending fails.
        with contextlib.suppress(AuditUnavailableError):
            self._store.ingest()

    def _report_interrupted(self) -> None:
        with dead_writers(self.directory) as dead:
            if not dead:
                return
            self._store.ingest()
            with self._store.reading() as connection:
                for writer in dead:
                    unfinished = connection.execute(
                        "SELECT seq FROM audit WHERE pending = ? AND NOT EXISTS (SELECT 1 FROM audit o"
                        " WHERE o.ref = audit.seq AND json_extract(o.record, '$.kind') = 'outcome')",
                        (writer,),
                    ).fetchall()
                    for (sequence,) in unfinished:
                        self._journal.append(outcome_body(sequence, "interrupted"))

    def renew(self) -> None:
        """In a forked child: the thread that moved rows stayed in the parent."""
        self._ingesting = None
