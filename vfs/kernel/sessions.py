"""Sessions: one agent's or person's stay, with an id and a trust level (seed 001, Session).

They are kept in the state database, so that a session opened by id after a crash finds its files.
"""

import json
import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from vfs.kernel.errors import SessionError
from vfs.kernel.paths import printable
from vfs.kernel.state import Generation, StateDatabase
from vfs.kernel.trust import TrustLevel

__all__ = ["DEFAULT_WORKSPACE", "Session", "SessionStore", "SourceContext", "is_session_id", "new_session_id"]

DEFAULT_WORKSPACE = "cli"
"""The workspace of a project directory used by itself (seed 001, createCLISandbox)."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GENERATED = re.compile(r"ses_[a-z2-7]{16}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
SESSION_DIRS = ("inputs", "working", "outputs")


@dataclass(frozen=True, slots=True)
class SourceContext:
    """Where a session came from (seed 001, SourceContext)."""

    type: Literal["cli", "browser_action", "web_content", "api"] = "cli"
    origin: str | None = None
    user_initiated: bool = True

    @property
    def default_trust(self) -> TrustLevel:
        """Return the level a session starts with if none is named: web content is not trusted."""
        return TrustLevel.UNTRUSTED if self.type == "web_content" else TrustLevel.SESSION


@dataclass(frozen=True, slots=True)
class Session:
    """One stay, as it was when it was read; the trust level in force is the door's to say."""

    id: str
    workspace_id: str
    created_at: datetime
    trust_level: TrustLevel
    source_context: SourceContext
    trust_since: datetime
    trust_by: str | None = None
    expires_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def status(self) -> Literal["active", "expired", "ended"]:
        """Return whether it may still act."""
        if self.ended_at is not None:
            return "ended"
        if self.expires_at is not None and self.expires_at.timestamp() <= time.time():
            return "expired"
        return "active"


def new_session_id() -> str:
    """Return a fresh id: 80 random bits in a form that no ordinary file name has."""
    return "ses_" + "".join(secrets.choice(_ALPHABET) for _ in range(16))


def is_session_id(text: str) -> bool:
    """Tell whether `text` can be a session's id: letters, digits, `.`, `_` and `-`, at most 64."""
    return bool(_ID.fullmatch(text)) and text not in SESSION_DIRS


def looks_generated(text: str) -> bool:
    """Tell whether `text` has the form of the ids that `new_session_id` makes."""
    return bool(_GENERATED.fullmatch(text))


class SessionStore:
    """The sessions of a project. Thread-safe; several processes may share the database."""

    def __init__(self, state: StateDatabase, generation: Generation) -> None:
        self._state = state
        self._generation = generation

    def create(
        self,
        *,
        session_id: str | None = None,
        workspace_id: str = DEFAULT_WORKSPACE,
        trust_level: TrustLevel | None = None,
        source: SourceContext | None = None,
        ttl: float | None = None,
    ) -> Session:
        """Make a session; `ttl` is seconds until it expires. Raises SessionError for an id that is taken."""
        source = source or SourceContext()
        session_id = session_id or new_session_id()
        for kind, text in (("session", session_id), ("workspace", workspace_id)):
            if not is_session_id(text):
                raise SessionError(
                    f"`{printable(text)}` is not a {kind} id",
                    hint="ids are letters, digits, `.`, `_`, `-`, at most 64; not `inputs`, `working`, `outputs`",
                )
        now = time.time()
        level = trust_level or source.default_trust
        with self._state.transaction() as database:
            if database.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone():
                raise SessionError(f"there is a session `{session_id}` already", hint="resume it by its id")
            database.execute(
                "INSERT INTO sessions (id, workspace_id, created_at, trust_level, trust_since,"
                " source_context, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (session_id, workspace_id, now, level, now, json.dumps(_to_json(source)),
                 now + ttl if ttl is not None else None),
            )  # fmt: skip
        self._generation.bump()
        return self.get(session_id)

    def get(self, session_id: str) -> Session:
        """Return a session by id. Raises SessionError if there is none, or the id is not one."""
        session = self.find(session_id)
        if session is None:
            raise SessionError(
                f"no session `{printable(session_id)}`", hint="`vfs session list` shows those there are"
            )
        return session

    def find(self, session_id: str) -> Session | None:
        """Return a session by id, or None."""
        rows = self._state.query("SELECT * FROM sessions WHERE id = ?", session_id)
        return _from_row(dict(rows[0])) if rows else None

    def version(self) -> int:
        """Return a number that differs once another process has changed the database."""
        return self._state.version()

    def exists(self, session_id: str) -> bool:
        """Tell whether there is a session of that id."""
        return bool(self._state.query("SELECT 1 FROM sessions WHERE id = ?", session_id))

    def list(self, workspace_id: str | None = None) -> list[Session]:
        """Return the sessions, newest first; those of one workspace if it is named."""
        rows = self._state.query("SELECT * FROM sessions ORDER BY created_at DESC, id")
        sessions = [_from_row(dict(row)) for row in rows]
        return [s for s in sessions if workspace_id is None or s.workspace_id == workspace_id]

    def set_trust(self, session_id: str, level: TrustLevel, by: str) -> Session:
        """Set the trust level in force from now on; `by` is who decided. The caller has checked the right."""
        self._update(session_id, trust_level=str(level), trust_since=time.time(), trust_by=by)
        return self.get(session_id)

    def end(self, session_id: str) -> Session:
        """Mark a session as ended: it may do nothing more, and `gc` may remove its files."""
        self._update(session_id, ended_at=time.time())
        return self.get(session_id)

    def extend(self, session_id: str, ttl: float | None) -> Session:
        """Let a session that has not ended expire `ttl` seconds from now, or never."""
        self._update(session_id, expires_at=None if ttl is None else time.time() + ttl)
        return self.get(session_id)

    def forget(self, session_id: str) -> None:
        """Remove the row of a session whose files are gone; the audit log keeps what it did."""
        with self._state.transaction() as database:
            database.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
        self._generation.bump()

    def _update(self, session_id: str, **columns: object) -> None:
        assignments = ", ".join(f"{column} = ?" for column in columns)
        with self._state.transaction() as database:
            done = database.execute(
                f"UPDATE sessions SET {assignments} WHERE id = ?",  # noqa: S608 (column names are our own)
                (*columns.values(), session_id),
            )
            if done.rowcount == 0:
                raise SessionError(f"no session `{printable(session_id)}`")
        self._generation.bump()


def _to_json(source: SourceContext) -> dict[str, object]:
    return {"type": source.type, "origin": source.origin, "user_initiated": source.user_initiated}


def _from_row(row: dict[str, object]) -> Session:
    def time_of(column: str) -> datetime | None:
        value = row[column]
        return None if value is None else datetime.fromtimestamp(float(str(value)), UTC)

    created = time_of("created_at")
    since = time_of("trust_since")
    if created is None or since is None:
        raise SessionError(f"the row of session `{row['id']}` is damaged")
    return Session(
        id=str(row["id"]),
        workspace_id=str(row["workspace_id"]),
        created_at=created,
        trust_level=TrustLevel(str(row["trust_level"])),
        source_context=SourceContext(**json.loads(str(row["source_context"]))),
        trust_since=since,
        trust_by=None if row["trust_by"] is None else str(row["trust_by"]),
        expires_at=time_of("expires_at"),
        ended_at=time_of("ended_at"),
    )
