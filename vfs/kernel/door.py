"""The one door: every access of a session, from every face, is decided and recorded here.

Three ways lead through it, by what has to be on the log when:

- `mutation`: the row reaches the operating system before the effect, its outcome after it;
- `reading`: one row after the act and before the caller gets what was read;
- `look`: metadata; a refusal is always recorded, an allowed look-up only where the owner asked for it.

What was plainly allowed is remembered under the path as the caller wrote it, until the shared counter says that
a verdict may have changed; programs ask for the same paths over and over.

A refusal is recorded before it is raised. What cannot be recorded raises AuditUnavailableError and does not
happen. Nothing here acts on a backend: `files` does, inside what these methods return.

Thread-safe: the session's state is replaced as a whole, never changed in place.
"""

import errno
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from vfs.kernel.audit import Actor, AuditLog, Recorder
from vfs.kernel.errors import (
    ApprovalRequiredError,
    InvalidPathError,
    NotFoundError,
    PermissionError,
    SandboxError,
    SecurityViolationError,
    SessionError,
    from_os_error,
)
from vfs.kernel.paths import VirtualPath, parse, printable
from vfs.kernel.policy import Decision, Policy
from vfs.kernel.sessions import SESSION_DIRS, Session, SessionStore, is_session_id, looks_generated
from vfs.kernel.state import Generation
from vfs.kernel.trust import Operation, TrustLevel
from vfs.kernel.zones import Zone

__all__ = ["ApprovalRequest", "Approver", "Claim", "Door"]


K = TypeVar("K")
V = TypeVar("V")

_KEPT = 8192
"""Entries in each memory of a standing; then it begins anew."""

_LOOK_EVERY = 1.0
"""Seconds after which the state database itself is asked whether it changed."""


class Claim(NamedTuple):
    """One right that an access needs."""

    operation: Operation
    path: VirtualPath


class Memory(dict[tuple[Operation, str], Claim]):
    """What was plainly allowed, by right and path as it was written; bounded."""

    def keep(self, path: str, claim: Claim) -> None:
        """Remember a claim under the path as it was written."""
        _remember(self, (claim.operation, path), claim)


class Look(NamedTuple):
    """A look that was granted; `only_directories`: of anything else the session may not know."""

    path: VirtualPath
    only_directories: bool


class ApprovalRequest(NamedTuple):
    """What an approver is asked."""

    session: Session
    action: str
    claim: Claim
    rule: str
    reason: str


class Approver(Protocol):
    """Decides what a rule says to ask; anything but True, an exception too, is a no."""

    def __call__(self, request: ApprovalRequest) -> bool:
        """Return True to allow this one operation."""
        ...


class Guard(Protocol):
    """A further judge of what the matrix and the rules allow; None has nothing against it."""

    def judge(self, session: Session, operation: Operation, path: VirtualPath) -> Decision | None:
        """Return a refusal, or None."""
        ...


class _Standing(NamedTuple):
    """The session as the door last saw it, and what follows from it."""

    epoch: bytes
    session: Session
    recorder: Recorder
    closes_at: float
    """When it expires, in seconds since the epoch; infinity never, 0 already over."""
    foreign: dict[str, bool]
    """Names under /session that were looked up: are they another session's id?"""
    admitted: "Memory"
    """What was plainly allowed, by the path as it was written."""
    version: int
    """The state database's, when the session was read."""
    looked: dict[str, VirtualPath]
    """What may plainly be looked at, by the path as it was written."""


class Door:
    """One session's way to the zones through one face.

    `actor` tells who is at work when a row is written (the mount: the calling process). With `record_looks`
    allowed metadata look-ups are recorded too.
    """

    def __init__(
        self,
        session: Session,
        *,
        sessions: SessionStore,
        generation: Generation,
        policy: Policy,
        log: AuditLog,
        face: str,
        actor: Callable[[], Actor],
        guard: Guard | None = None,
        approver: Approver | None = None,
        record_looks: bool = False,
        lease: str | None = None,
    ) -> None:
        self._sessions = sessions
        self._generation = generation
        self._policy = policy
        self._log = log
        self._face = face
        self._actor = actor
        self._guard = guard
        self._approver = approver
        self._record_looks = record_looks
        self._lease = lease
        self._id = session.id
        self._look_again = 0.0
        self._standing = self._stand(generation.read(), session, -1)

    @property
    def session(self) -> Session:
        """Return the session as it stands now."""
        return self._now().session

    @property
    def level(self) -> TrustLevel:
        """Return the trust level in force now. Raises SessionError once the session is over."""
        return self._now().session.trust_level

    def epoch(self) -> bytes:
        """Return a token that changes whenever a verdict given before may no longer hold.

        Raises SessionError once the session is over.
        """
        return self._now().epoch

    # Where

    def locate(self, path: str, operation: Operation, action: str) -> VirtualPath:
        """Return the one name of what `path` means for this session.

        `/session/{own id}/x` is `/session/x`. Raises InvalidPathError, or SecurityViolationError for another
        session's path; both are recorded.
        """
        try:
            found = parse(path)
        except InvalidPathError as error:
            self._now().recorder.entry(
                operation, action, path, None, False, reason=error.message, rule="path", actor=self._actor()
            )
            raise
        if found.zone is Zone.SESSION and found.rest:
            return self._own(found, operation, action)
        return found

    def _own(self, path: VirtualPath, operation: Operation, action: str) -> VirtualPath:
        first, _, rest = path.rest.partition("/")
        while first == self._id:
            path = VirtualPath(Zone.SESSION, rest)
            first, _, rest = rest.partition("/")
        if first not in SESSION_DIRS and self._is_foreign(first):
            reason = "the path belongs to another session"
            self.violation(operation, action, path, reason)
            raise SecurityViolationError(f"{reason}: `{printable(str(path))}`", str(path))
        return path

    def _is_foreign(self, name: str) -> bool:
        foreign = self._now().foreign
        found = foreign.get(name)
        if found is None:
            found = looks_generated(name) or (is_session_id(name) and self._sessions.exists(name))
            _remember(foreign, name, found)
        return found

    # Verdicts

    def decide(self, operation: Operation, path: VirtualPath) -> Decision:
        """Return the verdict without recording or asking anyone."""
        session = self._now().session
        decision = self._policy.decide(session.trust_level, operation, path)
        if decision.allowed and path.zone is Zone.STAGED:
            return self._judge_staged(session, operation, path) or decision
        return decision

    def _judge_staged(self, session: Session, operation: Operation, path: VirtualPath) -> Decision | None:
        """Refuse to stage what nobody may write to the repository, and what the guard refuses."""
        inside = path.rest.partition("/")[2]
        if operation is Operation.WRITE and inside:
            ever = self._policy.decide(TrustLevel.FULL, operation, VirtualPath(Zone.REPO, inside))
            if not ever.allowed:
                return ever._replace(hidden=False)
        return None if self._guard is None else self._guard.judge(session, operation, path)

    def hides(self, path: VirtualPath) -> bool:
        """Tell whether a listing must leave `path` out."""
        return self._policy.hides(self.level, path)

    def demand(self, action: str, claim: Claim, *, creates: bool = False) -> Decision:
        """Return the verdict if it allows; record and raise the refusal if not.

        `creates` says that the action only adds what does not exist yet, which is all that a create-only
        zone allows.
        """
        decision = self.decide(*claim)
        if decision.allowed:
            if decision.create_only and not creates:
                decision = Decision(
                    False, "matrix", "untrusted sessions may only add new files to the staged zone"
                )
            else:
                return decision
        if decision.ask and self._approved(action, claim, decision):
            return decision
        raise self.refuse(action, claim, decision)

    def admit(self, operation: Operation, action: str, path: str) -> Claim:
        """Locate `path` and demand one right on it: the usual beginning, and quick the second time."""
        standing = self._now()
        claim = standing.admitted.get((operation, path))
        if claim is None:
            claim = Claim(operation, self.locate(path, operation, action))
            decision = self.demand(action, claim)
            if decision.allowed and not decision.create_only:
                standing.admitted.keep(path, claim)
        return claim

    def memory(self) -> "Memory":
        """Return what was plainly allowed so far, as the session stands now.

        Take it before deciding and add to it afterwards: what was decided while the session changed is then
        kept with what held before, which nobody asks again.
        """
        return self._now().admitted

    def demand_move(self, action: str, old: VirtualPath, new: VirtualPath) -> None:
        """Refuse to move the directory `old` to `new` where that would dodge a path rule."""
        decision = self._policy.moves(self.level, old, new)
        if not decision.allowed:
            raise self.refuse(action, Claim(Operation.WRITE, new), decision)

    def refuse(self, action: str, claim: Claim, decision: Decision) -> SandboxError:
        """Record a refusal and return the error to raise."""
        operation, path = claim
        text = str(path)
        self._now().recorder.entry(
            operation, action, text, path.zone, False,
            reason=decision.reason, rule=decision.rule, actor=self._actor(),
        )  # fmt: skip
        if decision.hidden:
            if operation is Operation.WRITE:
                return PermissionError(f"nothing can be made at `{printable(text)}`", text)
            return NotFoundError(f"file or directory not found: `{printable(text)}`", text)
        reason = decision.reason or "not permitted"
        if decision.ask:
            return ApprovalRequiredError(reason, text, hint="ask the person who runs this session")
        return PermissionError(reason, text, hint=decision.hint)

    def violation(self, operation: Operation, action: str, path: VirtualPath, reason: str) -> None:
        """Record an attack on a boundary."""
        self._now().recorder.entry(
            "security_violation", action, str(path), path.zone, False,
            reason=reason, rule="boundary", actor=self._actor(), metadata={"attempted": str(operation)},
        )  # fmt: skip

    def _approved(self, action: str, claim: Claim, decision: Decision) -> bool:
        """Ask the approver; the question and the answer are rows of their own."""
        if self._approver is None:
            return False
        standing = self._now()
        request = ApprovalRequest(standing.session, action, claim, decision.rule, decision.reason or "")
        record = standing.recorder.entry
        text, zone, actor = str(claim.path), claim.path.zone, self._actor()
        record(
            "permission_check", "ask", text, zone, True,
            reason=decision.reason, rule=decision.rule, actor=actor,
        )  # fmt: skip
        try:
            answer, words = self._approver(request) is True, None
        except Exception as error:  # noqa: BLE001 (an approver that fails has not said yes)
            answer, words = False, f"the approver failed: {error}"
        record(
            "permission_check", "answer", text, zone, answer, reason=words, rule=decision.rule, actor=actor
        )
        return answer

    # Ways through

    def mutation(self, action: str, *claims: Claim, **metadata: object) -> "Mutation":
        """Return the passage in which to make a change; the claims have been demanded or admitted."""
        return Mutation(self._now().recorder, action, claims, self._actor(), metadata or None)

    def reading(self, action: str, claim: Claim) -> "Reading":
        """Return the passage in which to read; the claim has been demanded or admitted."""
        return Reading(self._standing.recorder, action, claim, self._actor)

    def look(self, action: str, path: str) -> Look:
        """Demand the right to know of `path`: to list its zone, or to read it.

        Where the session may only add, it may learn of directories and of absence (to reach where it adds):
        then the look says `only_directories`. The root and the zones are there for everyone.
        """
        standing = self._now()
        where = standing.looked.get(path)
        only_directories = False
        if where is None:
            where = self.locate(path, Operation.LIST, action)
            if where.rest:
                only_directories = self._demand_look(action, where).create_only
            if not only_directories:
                _remember(standing.looked, path, where)
        if self._record_looks:
            standing.recorder.entry(
                Operation.LIST, action, str(where), where.zone, True, actor=self._actor(), outcome="ok"
            )
        return Look(where, only_directories)

    def _demand_look(self, action: str, path: VirtualPath) -> Decision:
        decision = self.decide(Operation.LIST, path)
        if not decision.allowed and not decision.hidden:
            read = self.decide(Operation.READ, path)
            decision = read if read.allowed or read.hidden else decision
            if not decision.allowed and not decision.hidden:
                write = self.decide(Operation.WRITE, path)
                decision = write if write.allowed and write.create_only else decision
        if not decision.allowed:
            raise self.refuse(action, Claim(Operation.LIST, path), decision)
        return decision

    def recorder(self) -> Recorder:
        """Return the recorder bound to the session as it stands, for what is recorded piecemeal."""
        return self._now().recorder

    def actor(self) -> Actor:
        """Return who is at work."""
        return self._actor()

    # The session as it stands

    def _now(self) -> _Standing:
        standing = self._standing
        epoch = self._generation.read()
        now = time.monotonic()
        if epoch != standing.epoch or (now >= self._look_again and self._is_stale(now)):
            version = self._sessions.version()
            session = self._sessions.find(self._id)
            if session is None:
                raise SessionError(f"session `{self._id}` is gone", hint="start another one")
            standing = self._standing = self._stand(epoch, session, version)
        if time.time() >= standing.closes_at:
            raise self._over(standing)
        return standing

    def _is_stale(self, now: float) -> bool:
        """Tell, once a second, whether the database changed without a word: a process died before it spoke."""
        self._look_again = now + _LOOK_EVERY
        return self._sessions.version() != self._standing.version

    def _stand(self, epoch: bytes, session: Session, version: int) -> _Standing:
        recorder = self._log.bind(
            session_id=session.id,
            workspace_id=session.workspace_id,
            trust_level=session.trust_level,
            face=self._face,
            lease=self._lease,
        )
        closes_at = float("inf") if session.expires_at is None else session.expires_at.timestamp()
        return _Standing(
            epoch, session, recorder, 0.0 if session.ended_at else closes_at, {}, Memory(), version, {}
        )

    def _over(self, standing: _Standing) -> SessionError:
        """Record that a session that is over tried something, and return the error."""
        status = standing.session.status
        standing.recorder.entry(
            "permission_check", "session", None, None, False, reason=f"the session has {status}",
            rule="session", actor=self._actor(),
        )  # fmt: skip
        return SessionError(f"session `{self._id}` has {status}", hint="start another one with `vfs exec`")


class Mutation:
    """A change that was granted: its rows are on the log when the block begins, its outcome when it ends.

    An OSError inside becomes the error that people see; any other exception is recorded as what it is.
    """

    __slots__ = ("_action", "_actor", "_claims", "_metadata", "_recorder", "_sequences", "written")

    def __init__(
        self,
        recorder: Recorder,
        action: str,
        claims: tuple[Claim, ...],
        actor: Actor,
        metadata: dict[str, object] | None,
    ) -> None:
        self._recorder = recorder
        self._action = action
        self._claims = claims
        self._actor = actor
        self._metadata = metadata
        self._sequences: list[int] = []
        self.written = 0
        """Bytes that took effect; set inside the block."""

    def __enter__(self) -> Self:
        for operation, path in self._claims:
            self._sequences.append(
                self._recorder.entry(
                    operation,
                    self._action,
                    str(path),
                    path.zone,
                    True,
                    actor=self._actor,
                    pending=True,
                    metadata=self._metadata,
                )
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = "ok" if error is None else outcome_of(error)
        for sequence in self._sequences:
            self._recorder.outcome(sequence, outcome, bytes_written=self.written)
        translate(error, self._claims[0].path)


class Reading:
    """A read that was granted: one row, with its outcome, before the caller gets what was read."""

    __slots__ = ("_action", "_actor", "_claim", "_recorder", "read")

    def __init__(self, recorder: Recorder, action: str, claim: Claim, actor: Callable[[], Actor]) -> None:
        self._recorder = recorder
        self._action = action
        self._claim = claim
        self._actor = actor
        self.read = 0
        """Bytes that were read; set inside the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        operation, path = self._claim
        if error is None:
            self._recorder.entry(
                operation, self._action, str(path), path.zone, True, actor=self._actor(), outcome="ok",
                bytes_read=self.read,
            )  # fmt: skip
            return
        if not is_link_error(error):
            self._recorder.entry(
                operation, self._action, str(path), path.zone, True, actor=self._actor(),
                outcome=outcome_of(error),
            )  # fmt: skip
        translate(error, path)


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    if len(memory) >= _KEPT:
        memory.clear()
    memory[key] = value


def is_link_error(error: BaseException) -> bool:
    """Tell whether a backend met a symbolic link: the access has not happened, the kernel resolves it."""
    return isinstance(error, OSError) and error.errno == errno.ELOOP


def outcome_of(error: BaseException) -> str:
    """Return the code under which an error is recorded."""
    if isinstance(error, SandboxError):
        return error.code
    if isinstance(error, OSError):
        return from_os_error(error, "").code
    return type(error).__name__


def translate(error: BaseException | None, path: VirtualPath) -> None:
    """Raise a backend's OSError as the error of the tree that it means; leave others to propagate."""
    if isinstance(error, SandboxError):
        return
    if isinstance(error, OSError):
        raise from_os_error(error, printable(str(path))) from error
