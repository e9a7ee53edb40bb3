"""What the log holds, in numbers."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from vfs.kernel.audit.entry import from_nanoseconds
from vfs.kernel.audit.journal import Journal

__all__ = ["AuditStats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditStats:
    """`rows` counts rows of all kinds, `entries` operations; times are None while there is no row.

    `operations` counts entries by operation. Sizes are in bytes.
    """

    chain: str
    key_id: str
    rows: int
    entries: int
    denied: int
    violations: int
    operations: Mapping[str, int]
    first_sequence: int | None
    last_sequence: int | None
    first_time: datetime | None
    last_time: datetime | None
    journal_bytes: int
    database_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for `json.dumps`."""
        return {
            name: value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
        }


def collect(connection: sqlite3.Connection, journal: Journal, path: str) -> AuditStats:
    """Count; the rows have been moved to the store."""
    operations: Counter[str] = Counter()
    denied = 0
    for name, count in connection.execute(
        "SELECT class, count(*) FROM audit WHERE class IS NOT NULL GROUP BY class"
    ):
        operation, _, _, allowed, _ = json.loads(name)
        operations[operation] += count
        denied += 0 if allowed else count
    rows, first, last = connection.execute(
        "SELECT (SELECT count(*) FROM audit), (SELECT min(seq) FROM audit), (SELECT max(seq) FROM audit)"
    ).fetchone()
    times = dict(
        connection.execute(
            "SELECT seq, json_extract(record, '$.time') FROM audit WHERE seq IN (?, ?)", (first, last)
        )
    )
    return AuditStats(
        chain=journal.chain,
        key_id=journal.key_id,
        rows=rows,
        entries=operations.total(),
        denied=denied,
        violations=operations["security_violation"],
        operations=dict(sorted(operations.items())),
        first_sequence=first,
        last_sequence=last,
        first_time=from_nanoseconds(times[first]) if first in times else None,
        last_time=from_nanoseconds(times[last]) if last in times else None,
        journal_bytes=journal.size,
        database_bytes=os.path.getsize(path),
    )
