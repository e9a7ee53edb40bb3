"""A project's id, read without opening the project."""

import contextlib
import sqlite3
from pathlib import Path

__all__ = ["read_project_id"]


def read_project_id(state: Path) -> str | None:
    """Return the id in the state database; None if there is none, or the database is damaged or missing."""
    try:
        with contextlib.closing(sqlite3.connect(f"{state.as_uri()}?mode=ro", uri=True)) as database:
            row = database.execute("SELECT value FROM meta WHERE key = 'project_id'").fetchone()
    except sqlite3.Error:
        return None
    return str(row[0]) if row else None
