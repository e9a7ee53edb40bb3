"""The kernel of one project: what all its sessions share, and what is done to sessions from outside.

Lock order, where two are held at once: a ledger's, then the state database's. The audit log's lock is never
held while another is taken.
"""

import contextlib
import getpass
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Protocol, Self

from vfs.kernel.audit import Actor, AuditLog, Recorder
from vfs.kernel.door import Approver, Door, outcome_of
from vfs.kernel.errors import PermissionError, SandboxError, SessionError, TokenError
from vfs.kernel.files import Files
from vfs.kernel.paths import printable
from vfs.kernel.policy import Policy
from vfs.kernel.ports import Backend
from vfs.kernel.promotion import Promotions
from vfs.kernel.quota import Ledger, measure
from vfs.kernel.sessions import DEFAULT_WORKSPACE, Session, SessionStore, SourceContext
from vfs.kernel.staging import Staging
from vfs.kernel.state import Generation, StateDatabase
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone

__all__ = ["Collected", "Kernel", "Limits", "Storage"]


class Storage(Protocol):
    """Where the zones of a session live."""

    def backend(self, zone: Zone, workspace_id: str, session_id: str) -> Backend:
        """Return the storage under a zone as that session has it; the same object for the same place."""
        ...

    def prepare(self, workspace_id: str, session_id: str) -> None:
        """Make the directories that a session starts with; what is there stays."""
        ...

    def discard(self, workspace_id: str, session_id: str) -> None:
        """Remove a session's own files."""
        ...

    def sweep(self) -> None:
        """Remove temporary files that a crash left in the storage."""
        ...

    def close(self) -> None:
        """Close every backend."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What the owner limits: seconds a session lives unused (None: for ever) and bytes per zone."""

    session_ttl: float | None = None
    quotas: Mapping[Zone, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Collected:
    """What `collect` removed: session ids, and ids of staged commits that had been decided on.

    `failed` says of each whose files are still there, wholly or in part, what stands against it, in a text that
    is safe to show. They are tried again at the next time.
    """

    sessions: tuple[str, ...]
    staged: tuple[str, ...]
    failed: tuple[str, ...] = ()


class Kernel:
    """One project's zones under one policy, one log and one state. Thread-safe.

    Made by a factory (`vfs.project`); `close` releases everything, and open sandboxes with it.
    """

    def __init__(
        self,
        *,
        state: StateDatabase,
        generation: Generation,
        log: AuditLog,
        policy: Policy,
        storage: Storage,
        promotions: Promotions,
        limits: Limits | None = None,
        approver: Approver | None = None,
        record_looks: bool = False,
    ) -> None:
        self.state = state
        self.generation = generation
        self.log = log
        self.policy = policy
        self.storage = storage
        self.promotions = promotions
        self.sessions = SessionStore(state, generation)
        self.limits = limits or Limits()
        self._approver = approver
        self._record_looks = record_looks
        self._stagings: dict[str, Staging] = {}
        self._ledgers: dict[str, Ledger] = {}

    # Sessions

    def start(
        self,
        *,
        trust_level: TrustLevel | None = None,
        session_id: str | None = None,
        workspace_id: str = DEFAULT_WORKSPACE,
        source: SourceContext | None = None,
    ) -> Session:
        """Start a session. Raises SessionError for an id that is taken or is not one."""
        session = self.sessions.create(
            session_id=session_id,
            workspace_id=workspace_id,
            trust_level=trust_level,
            source=source,
            ttl=self.limits.session_ttl,
        )
        self._event(
            "session_start", session.workspace_id, session=session.id, trust_level=str(session.trust_level)
        )
        self.storage.prepare(session.workspace_id, session.id)
        return session

    def resume(self, session_id: str) -> Session:
        """Open a session again, after a crash too; it lives on from now. Raises SessionError if it is over."""
        session = self.sessions.get(session_id)
        if session.status == "ended":
            raise SessionError(f"session `{session_id}` has ended", hint="start another one")
        self.storage.prepare(session.workspace_id, session.id)
        if session.expires_at is not None:
            session = self.sessions.extend(session_id, self.limits.session_ttl)
        return session

    def end(self, session_id: str) -> Session:
        """End a session: from now on it may do nothing; `collect` will remove its files."""
        session = self.sessions.get(session_id)
        self._event("session_end", session.workspace_id, session=session.id)
        return self.sessions.end(session_id)

    def promote(self, session_id: str, token: str, *, face: str = "api") -> Session:
        """Raise a session's trust by a signed token. Raises TokenError; both ends are recorded."""
        session = self.sessions.get(session_id)
        record = self._recorder(session, face)
        try:
            promotion = self.promotions.redeem(token, session_id, trust_since=session.trust_since.timestamp())
        except TokenError as error:
            record.entry(
                "promote", "promote", None, None, False, reason=error.message, rule="token", actor=me()
            )
            raise
        metadata = {
            "from": str(session.trust_level), "to": str(promotion.level),
            "who": promotion.who, "reason": promotion.reason, "token": promotion.token_id,
        }  # fmt: skip
        row = record.entry(
            "promote", "promote", None, None, True, actor=me(), pending=True, metadata=metadata
        )
        changed = self.sessions.set_trust(session_id, promotion.level, by=promotion.who)
        record.outcome(row, "ok")
        return changed

    def demote(
        self, session_id: str, level: TrustLevel, *, who: str, reason: str, face: str = "api"
    ) -> Session:
        """Lower a session's trust; needs no token. Raises PermissionError for what would raise it."""
        session = self.sessions.get(session_id)
        if level.rank > session.trust_level.rank:
            raise PermissionError(
                f"`{level}` is above `{session.trust_level}`: that is a promotion, and needs a token",
                hint="a person grants it with `vfs session promote`",
            )
        record = self._recorder(session, face)
        metadata = {"from": str(session.trust_level), "to": str(level), "who": who, "reason": reason}
        row = record.entry("demote", "demote", None, None, True, actor=me(), pending=True, metadata=metadata)
        changed = self.sessions.set_trust(session_id, level, by=who)
        record.outcome(row, "ok")
        return changed

    def collect(
        self, *, dry_run: bool = False, progress: Callable[[str], None] = lambda _: None
    ) -> Collected:
        """Remove the files of sessions that are over, and staged commits that were committed or rejected.

        A staged commit that nobody has decided on stays, whatever became of its session. What cannot be removed is
        reported and does not stop the rest. Raises AuditUnavailableError: what cannot be recorded is not removed.
        """
        over = [session for session in self.sessions.list() if session.status != "active"]
        decided = self.state.query(
            "SELECT id, workspace_id, session_id FROM staged_commits"
            " WHERE status IN ('committed', 'rejected')"
        )
        if dry_run:
            return Collected(tuple(session.id for session in over), tuple(row["id"] for row in decided))
        sessions, staged, failed = [], [], []
        for session in over:
            progress(f"session {session.id}")
            path = f"/session/{session.id}"
            failure = self._removed(path, session.workspace_id, session.id, partial(self._discard, session))
            if failure is None:
                sessions.append(session.id)
            else:
                failed.append(failure)
        for row in decided:
            progress(f"staged commit {row['id']}")
            path, workspace_id = f"/staged/{row['id']}", row["workspace_id"]
            remove = partial(self._remove_staged, row["id"], workspace_id)
            failure = self._removed(path, workspace_id, row["session_id"], remove)
            if failure is None:
                staged.append(row["id"])
            else:
                failed.append(failure)
        progress("what crashes left")
        self.storage.sweep()
        return Collected(tuple(sessions), tuple(staged), tuple(failed))

    def _removed(
        self, path: str, workspace_id: str, session_id: str, remove: Callable[[], None]
    ) -> str | None:
        """Remove something between two rows of the log; return what stood against it, or None."""
        recorder = self.log.bind(
            session_id="", workspace_id=workspace_id, trust_level=TrustLevel.FULL, face="kernel"
        )
        row = recorder.entry(
            "delete", "gc", path, None, True, actor=me(), pending=True, metadata={"session": session_id}
        )
        outcome = "ok"
        try:
            remove()
        except (OSError, SandboxError) as error:
            outcome = outcome_of(error)
            if isinstance(error, SandboxError):
                reason = error.message
            else:
                reason = f"{(error.strerror or 'input/output error').lower()}: `{error.filename or path}`"
            return f"`{path}` stays: {printable(reason)}"
        except BaseException as error:
            outcome = outcome_of(error)
            raise
        finally:
            recorder.outcome(row, outcome)
        return None

    def _discard(self, session: Session) -> None:
        self.storage.discard(session.workspace_id, session.id)
        self._ledgers.pop(f"session:{session.id}", None)
        self.sessions.forget(session.id)

    def _remove_staged(self, commit_id: str, workspace_id: str) -> None:
        staging = self.staging(workspace_id)
        staging.remove_files(commit_id)
        staging.forget(commit_id)

    # What sandboxes are made of

    def files(
        self,
        session: Session,
        *,
        face: str = "api",
        actor: Callable[[], Actor] | None = None,
        lease: str | None = None,
    ) -> Files:
        """Return a session's tree through one face; `actor` tells who is at work, else this process."""
        mine = me()
        staging = self.staging(session.workspace_id)
        door = Door(
            session,
            sessions=self.sessions,
            generation=self.generation,
            policy=self.policy,
            log=self.log,
            face=face,
            actor=actor or (lambda: mine),
            guard=staging,
            approver=self._approver,
            record_looks=self._record_looks,
            lease=lease,
        )
        backends = {zone: self.storage.backend(zone, session.workspace_id, session.id) for zone in Zone}
        accounts = {zone: self._ledger(zone, session) for zone in self.limits.quotas}
        return Files(
            door,
            backends.__getitem__,
            accounts=accounts,
            on_staged=lambda rest: staging.adopt(rest.partition("/")[0], session.id),
        )

    def staging(self, workspace_id: str = DEFAULT_WORKSPACE) -> Staging:
        """Return the staged commits of a workspace."""
        found = self._stagings.get(workspace_id)
        if found is None:
            found = self._stagings[workspace_id] = Staging(
                self.state,
                self.generation,
                workspace_id,
                staged=self.storage.backend(Zone.STAGED, workspace_id, ""),
                repo=self.storage.backend(Zone.REPO, workspace_id, ""),
            )
        return found

    def _ledger(self, zone: Zone, session: Session) -> Ledger:
        scope = f"session:{session.id}" if zone is Zone.SESSION else f"{zone}:{session.workspace_id}"
        found = self._ledgers.get(scope)
        if found is None:
            backend = self.storage.backend(zone, session.workspace_id, session.id)
            found = self._ledgers[scope] = Ledger(
                self.state, scope, self.limits.quotas[zone], lambda: measure(backend)
            )
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        for ledger in self._ledgers.values():
            with contextlib.suppress(SandboxError):  # the next count finds what was not given back
                ledger.settle()
        self._ledgers.clear()
        self.log.close()
        self.storage.close()
        self.state.close()
        self.generation.close()

    def _recorder(self, session: Session, face: str) -> Recorder:
        return self.log.bind(
            session_id=session.id,
            workspace_id=session.workspace_id,
            trust_level=session.trust_level,
            face=face,
        )

    def _event(
        self,
        operation: str,
        workspace_id: str,
        action: str | None = None,
        path: str | None = None,
        **metadata: object,
    ) -> None:
        """Record what happens to a session, under no session's name: it is not the session's own doing."""
        recorder = self.log.bind(
            session_id="", workspace_id=workspace_id, trust_level=TrustLevel.FULL, face="kernel"
        )
        recorder.entry(
            operation, action or operation, path, None, True, actor=me(), outcome="ok", metadata=metadata
        )


def me() -> Actor:
    """Return this process as the one at work."""
    command = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    return Actor(os.getpid(), os.getuid(), command)


def person() -> str:
    """Return the name of the person who runs this process, for records of what people decide."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
