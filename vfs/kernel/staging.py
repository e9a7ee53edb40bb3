"""Staged commits: files that wait for a person's decision (seed 001, Staging Operations).

A staged commit is a directory `/staged/{id}` whose files are what a commit would add or replace, and a row
that says whose it is, its message, its status and the paths it would delete. It does not matter how the
files came there: `stage()`, a tool, or a program that writes in the mount. Reviewing and committing is not done here.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from vfs.kernel.errors import InvalidPathError, NotFoundError, SandboxError
from vfs.kernel.paths import VirtualPath, printable
from vfs.kernel.policy import Decision
from vfs.kernel.ports import Backend, BackendFile
from vfs.kernel.sessions import Session
from vfs.kernel.state import Generation, StateDatabase
from vfs.kernel.trees import remove_tree, walk
from vfs.kernel.trust import Operation, TrustLevel

__all__ = ["StageRequest", "StagedCommit", "StagedFile", "Staging", "Status"]

Status = Literal["pending", "approved", "committed", "rejected"]
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CHUNK = 1 << 20
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


@dataclass(frozen=True, slots=True)
class StageRequest:
    """One file to stage: its path relative to the repository, and its content; None deletes it."""

    repo_path: str
    content: str | bytes | None
    message: str | None = None

    @property
    def data(self) -> bytes | None:
        """Return the content as bytes."""
        return self.content.encode() if isinstance(self.content, str) else self.content


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file of a staged commit; `hash` is the SHA-256 of its content, empty for a deletion."""

    repo_path: str
    operation: Literal["create", "update", "delete"]
    size: int
    hash: str


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """A staged commit as it stands (seed 001, StagedCommit).

    `problems` says of each thing lying there that is not among the files why: it is no file and no link, or it
    cannot be read. The texts are safe to show.
    """

    id: str
    session_id: str
    created_at: datetime
    message: str
    files: tuple[StagedFile, ...]
    status: Status
    problems: tuple[str, ...] = ()


def new_commit_id() -> str:
    """Return a fresh id for a staged commit."""
    return f"commit-{secrets.token_hex(6)}"


def check_commit_id(commit_id: str) -> None:
    """Raise InvalidPathError for what cannot name a staged commit."""
    if not _ID.fullmatch(commit_id):
        raise InvalidPathError(
            f"`{printable(commit_id)}` is not the id of a staged commit",
            f"/staged/{commit_id}",
            hint="ids are letters, digits, `.`, `_`, `-`, at most 64",
        )


class Staging:
    """The staged commits of one workspace. Thread-safe; several processes may share the database."""

    def __init__(
        self, state: StateDatabase, generation: Generation, workspace_id: str, staged: Backend, repo: Backend
    ) -> None:
        self._state = state
        self._generation = generation
        self._workspace = workspace_id
        self._staged = staged
        self._repo = repo
        self._decided: tuple[bytes, frozenset[str]] = (b"", frozenset())

    # What the door asks

    def judge(self, session: Session, operation: Operation, path: VirtualPath) -> Decision | None:
        """Refuse changes to a staged commit that a person has decided on, and untrusted ones to another's."""
        if operation not in (Operation.WRITE, Operation.DELETE) or not path.rest:
            return None
        commit_id = path.rest.partition("/")[0]
        if not _ID.fullmatch(commit_id):
            return Decision(False, "staged", f"`{printable(commit_id)}` cannot name a staged commit")
        if commit_id in self._decided_now():
            return Decision(
                False, "staged", f"the staged commit `{commit_id}` was decided on and no longer changes"
            )
        if session.trust_level is TrustLevel.UNTRUSTED and self._owner(commit_id) not in (None, session.id):
            return Decision(False, "staged", f"the staged commit `{commit_id}` is another session's")
        return None

    def _owner(self, commit_id: str) -> str | None:
        rows = self._state.query(
            "SELECT session_id FROM staged_commits WHERE id = ? AND workspace_id = ?",
            commit_id,
            self._workspace,
        )
        return str(rows[0][0]) if rows else None

    def _decided_now(self) -> frozenset[str]:
        epoch = self._generation.read()
        if epoch != self._decided[0]:
            rows = self._state.query(
                "SELECT id FROM staged_commits WHERE status != 'pending' AND workspace_id = ?",
                self._workspace,
            )
            self._decided = (epoch, frozenset(row["id"] for row in rows))
        return self._decided[1]

    # What sessions do

    def adopt(self, commit_id: str, session_id: str, message: str = "") -> None:
        """Make sure that there is a row for the staged commit that files are being written to."""
        check_commit_id(commit_id)
        if self._owner(commit_id) is not None:
            return
        with self._state.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO staged_commits"
                " (id, workspace_id, session_id, created_at, message, status, deletions)"
                " VALUES (?, ?, ?, ?, ?, 'pending', '[]')",
                (commit_id, self._workspace, session_id, time.time(), message),
            )

    def describe(self, commit_id: str, message: str, deletions: Sequence[str]) -> None:
        """Set the message and the deletions of a pending staged commit."""
        with self._state.transaction() as database:
            database.execute(
                "UPDATE staged_commits SET message = ?, deletions = ?"
                " WHERE id = ? AND workspace_id = ? AND status = 'pending'",
                (message, json.dumps(sorted(deletions)), commit_id, self._workspace),
            )

    def commits(self) -> list[StagedCommit]:
        """Return the staged commits of the workspace, oldest first."""
        rows = self._state.query(
            "SELECT * FROM staged_commits WHERE workspace_id = ? ORDER BY created_at, id", self._workspace
        )
        return [self._load(dict(row)) for row in rows]

    def commit(self, commit_id: str) -> StagedCommit:
        """Return one staged commit. Raises NotFoundError."""
        rows = self._state.query(
            "SELECT * FROM staged_commits WHERE id = ? AND workspace_id = ?", commit_id, self._workspace
        )
        if not rows:
            raise NotFoundError(
                f"no staged commit `{printable(commit_id)}`",
                f"/staged/{commit_id}",
                hint="`vfs staged list` shows those there are",
            )
        return self._load(dict(rows[0]))

    def remove_files(self, commit_id: str) -> None:
        """Remove the files of a staged commit; the caller has the right to, and records it."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(self._staged.stat(commit_id).mode):
                remove_tree(self._staged, commit_id)
            else:
                self._staged.remove(commit_id)

    def forget(self, commit_id: str) -> None:
        """Remove the row of a staged commit whose files are gone."""
        with self._state.transaction() as database:
            database.execute(
                "DELETE FROM staged_commits WHERE id = ? AND workspace_id = ?", (commit_id, self._workspace)
            )
        self._generation.bump()

    # What is in one

    def _load(self, row: dict[str, object]) -> StagedCommit:
        commit_id = str(row["id"])
        found, problems = self._files(commit_id)
        staged = {file.repo_path for file in found}
        found += [
            StagedFile(path, "delete", 0, "")
            for path in json.loads(str(row["deletions"]))
            if path not in staged
        ]
        status: Status = str(row["status"])  # type: ignore[assignment]  # written by us alone
        return StagedCommit(
            id=commit_id,
            session_id=str(row["session_id"]),
            created_at=datetime.fromtimestamp(float(str(row["created_at"])), UTC),
            message=str(row["message"]),
            files=tuple(sorted(found, key=lambda file: file.repo_path)),
            status=status,
            problems=tuple(sorted(problems)),
        )

    def _files(self, commit_id: str) -> tuple[list[StagedFile], list[str]]:
        """Return the files and what is wrong with the rest; one session's files never stop others' work."""
        files: list[StagedFile] = []
        problems: list[str] = []

        def failed(path: str, error: OSError | SandboxError | UnicodeError) -> None:
            problems.append(f"`/staged/{printable(path)}` is left out: {_reason(error)}")

        for path, entry in walk(self._staged, commit_id, failed=failed):
            if entry.type in (stat.S_IFREG, stat.S_IFLNK):
                try:
                    files.append(self._file(path))
                except FileNotFoundError:
                    continue  # removed while we looked
                except (OSError, SandboxError, UnicodeError) as error:
                    failed(path, error)
            elif not stat.S_ISDIR(entry.type):
                kind = _KINDS.get(entry.type, "a device")
                problems.append(f"`/staged/{printable(path)}` is left out: {kind} cannot be committed")
        return files, problems

    def _file(self, path: str) -> StagedFile:
        repo_path = path.partition("/")[2]
        found = self._staged.stat(path)
        if stat.S_ISLNK(found.mode):
            text = self._staged.read_link(path).encode("utf-8", "surrogateescape")
            size, digest = len(text), hashlib.sha256(text).hexdigest()
        else:
            file = self._staged.open(path, os.O_RDONLY)  # refuses all but regular files
            try:
                size, digest = _digest(file)
            finally:
                file.close()
        return StagedFile(repo_path, "update" if self._in_repo(repo_path) else "create", size, digest)

    def _in_repo(self, path: str) -> bool:
        try:
            self._repo.stat(path)
        except OSError:
            return False
        return True


def _reason(error: OSError | SandboxError | UnicodeError) -> str:
    if isinstance(error, SandboxError):
        return printable(error.message)
    text = error.strerror if isinstance(error, OSError) else str(error)
    return printable(text or "input/output error").lower()


def _digest(file: BackendFile) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while chunk := file.pread(_CHUNK, size):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()
