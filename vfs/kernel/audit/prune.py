"""Cutting off the old end of the chain in one signed step.

First a chained `prune` entry says what will be done, by whom and why. Then one transaction inserts a row into
`prunes`, which names the newest row cut off and its hash under the log's signature, and deletes the rows up
to it. A crash before the commit leaves the entry, as interrupted, and every row. Verification starts from the
hash that the last prune names.
"""

import sqlite3
import time
from datetime import datetime
from typing import NamedTuple

from vfs.kernel.audit.entry import to_microseconds
from vfs.kernel.audit.heads import sign_document
from vfs.kernel.audit.query import first_at, segments
from vfs.kernel.audit.record import dump
from vfs.kernel.audit.recorder import Recorder
from vfs.kernel.audit.store import Store
from vfs.kernel.errors import AuditUnavailableError
from vfs.kernel.keys import SigningKey

__all__ = ["prune"]


class Cut(NamedTuple):
    """The newest row to be cut off, and how many rows that makes."""

    sequence: int
    hash: str
    rows: int


def prune(
    store: Store,
    recorder: Recorder,
    signer: SigningKey,
    chain: str,
    older_than: datetime,
    who: str,
    reason: str,
) -> int:
    """Delete the rows before the first that is not older than `older_than`; return how many.

    The newest row always stays. ValueError for a time without zone.
    """
    moment = to_microseconds(older_than) * 1000
    store.ingest(rotate_beyond=0)
    with store.reading() as connection:
        cut = _find_cut(connection, moment)
    if cut is None:
        return 0
    told = {"cut": cut.sequence, "hash": cut.hash, "rows": cut.rows, "who": who}
    entry = recorder.entry(
        "prune", "prune", None, None, allowed=True, reason=reason, pending=True, metadata=told
    )
    document = dump(
        {
            "chain": chain,
            "key": signer.public.id,
            "seq": cut.sequence,
            "hash": cut.hash,
            "rows": cut.rows,
            "time": time.time_ns(),
            "who": who,
            "reason": reason,
        }
    )
    try:
        signature = sign_document(signer, document)
        rows = store.write(lambda connection: _cut(connection, cut, document, signature))
    except AuditUnavailableError as error:
        recorder.outcome(entry, error.code)
        raise
    recorder.outcome(entry, "ok", metadata={"deleted": rows})
    return rows


def _find_cut(connection: sqlite3.Connection, moment: int) -> Cut | None:
    ranges = segments(connection)
    if not ranges:
        return None
    oldest, newest = ranges[0][0], ranges[-1][1] - 1
    keep = newest
    for low, end in ranges:
        found = first_at(connection, moment, low, end)
        if found < end:
            keep = min(found, newest)
            break
    row = connection.execute(
        "SELECT seq, hash FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT 1", (keep,)
    ).fetchone()
    return None if row is None else Cut(row[0], row[1], row[0] - oldest + 1)


def _cut(connection: sqlite3.Connection, cut: Cut, document: str, signature: str) -> int:
    connection.execute(
        "INSERT INTO prunes (seq, document, signature) VALUES (?, ?, ?)", (cut.sequence, document, signature)
    )
    return connection.execute("DELETE FROM audit WHERE seq <= ?", (cut.sequence,)).rowcount
