"""The tables of `audit.db`.

    chain   one row: the version of this schema. Says that set-up was finished.
    audit   one row per row of the chain, its text and hash as they stood in the journal. Every other column
            is computed from the text (virtual), so what a query sees cannot disagree with what is hashed.
    rows    a view of it with one column per key of the text, for people.
    prunes  one row per prune, append-only: the newest row cut off, its hash, and a signature over both.

Triggers refuse to change or delete a row of `audit`, except to delete what a prune has cut off. They stop
mistakes and careless hands; what is done about a hand that removes the triggers is in `verify.py`.
"""

import sqlite3
from typing import Final

__all__ = ["VERSION", "create"]

VERSION: Final = 1

_VIRTUAL: Final = {
    # What entries are filtered by, in one value: there are few combinations, so one index serves every filter.
    "class": ("op", "json_extract(record, '$.op', '$.zone', '$.trust', '$.allowed', '$.face')"),
    "session": ("session", "json_extract(record, '$.session')"),
    "ref": ("ref", "json_extract(record, '$.ref')"),
    "pending": ("pending", "json_extract(record, '$.pending')"),
    "skew": ("skew", "json_extract(record, '$.skew')"),
}
"""The columns that are indexed. Each is computed for each row that comes in, so only if its key is there at
all: that a canonical text holds `"key":` somewhere is a necessary condition, and ten times cheaper to check."""

_VIEW: Final = (
    "time kind session workspace trust face op action zone allowed path pid uid command outcome"
    " read written reason rule meta ref"
)
"""The keys that the view `rows` shows as columns, for people and other tools."""

_INDEXES: Final = """
    CREATE INDEX audit_class ON audit (class) WHERE class IS NOT NULL;
    CREATE INDEX audit_session ON audit (session, class) WHERE class IS NOT NULL;
    CREATE INDEX audit_ref ON audit (ref) WHERE ref IS NOT NULL;
    CREATE INDEX audit_pending ON audit (pending) WHERE pending IS NOT NULL;
    CREATE INDEX audit_skew ON audit (skew) WHERE skew IS NOT NULL;
"""

_TRIGGERS: Final = """
    CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
    BEGIN SELECT raise(ABORT, 'audit rows cannot be changed'); END;

    CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
    WHEN old.seq > (SELECT coalesce(max(seq), 0) FROM prunes)
    BEGIN SELECT raise(ABORT, 'audit rows cannot be deleted; use vfs audit prune'); END;

    CREATE TRIGGER prunes_no_update BEFORE UPDATE ON prunes
    BEGIN SELECT raise(ABORT, 'prunes cannot be changed'); END;

    CREATE TRIGGER prunes_no_delete BEFORE DELETE ON prunes
    BEGIN SELECT raise(ABORT, 'prunes cannot be deleted'); END;
"""


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, within the transaction that is open, unless they are there."""
    from sqlite_utils import Database  # slow to import, and needed once in the life of a log

    database = Database(connection)
    if database["chain"].exists():
        return
    database.table("audit").create(
        {"seq": int, "record": str, "hash": str}, pk="seq", not_null={"record", "hash"}
    )
    for name, (key, value) in _VIRTUAL.items():
        connection.execute(
            f"ALTER TABLE audit ADD COLUMN {name}"
            f""" GENERATED ALWAYS AS (iif(instr(record, '"{key}":'), {value}, NULL)) VIRTUAL"""
        )
    columns = ", ".join(f"json_extract(record, '$.{key}') AS {key}" for key in _VIEW.split())
    database.create_view("rows", f"SELECT seq, {columns}, record, hash FROM audit")  # noqa: S608 (constants)
    database.table("prunes").create(
        {"seq": int, "document": str, "signature": str}, pk="seq", not_null={"document", "signature"}
    )
    for statement in _statements(_INDEXES + _TRIGGERS):
        connection.execute(statement)
    database.table("chain").create({"version": int}, pk="version")
    connection.execute("INSERT INTO chain (version) VALUES (?)", (VERSION,))


def _statements(script: str) -> list[str]:
    # Not `executescript`, which would commit what is open.
    statements: list[str] = []
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            statements.append(text)
            text = ""
    return statements
