"""The sandbox: a session's checked view of the zones, in seed 001's words.

This is what people call from Python. Every method goes through `vfs.kernel.files`, and so through the door;
what is added here is convenience: text and bytes, relative paths, links that are followed inside their zone,
missing parents, staging, and the session's own trust.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from vfs.kernel.audit import Actor
from vfs.kernel.door import Claim
from vfs.kernel.errors import (
    ConflictError,
    FileSystemError,
    InvalidPathError,
    NotFoundError,
    PermissionError,
    SandboxError,
)
from vfs.kernel.paths import parse, printable
from vfs.kernel.policy import PermissionCheck
from vfs.kernel.ports import RenameFlag
from vfs.kernel.sessions import Session
from vfs.kernel.staging import StagedCommit, StagedFile, StageRequest, check_commit_id, new_commit_id
from vfs.kernel.streams import flags_of, open_stream
from vfs.kernel.trees import remove_tree
from vfs.kernel.trust import MATRIX, Operation, SecurityContext, TrustLevel
from vfs.kernel.zones import Zone

if TYPE_CHECKING:
    import builtins

    from vfs.kernel.files import Files
    from vfs.kernel.kernel import Kernel

__all__ = ["FileStat", "Sandbox"]

T = TypeVar("T")

# No umask bears on what the kernel makes, so these are what a usual one leaves.
_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755


class FileStat(NamedTuple):
    """Metadata of a file or directory (seed 001, FileStat); `mode` is `st_mode`."""

    path: str
    zone: Zone | None
    size: int
    created_at: datetime
    modified_at: datetime
    is_directory: bool
    mode: int


class Sandbox:
    """One session at work on one project. Thread-safe.

    Paths are virtual: absolute ones start with a zone, relative ones are taken from `/session/working`. Raises
    the errors of `vfs.kernel.errors`. Use it as a context manager, or `close` it; that ends the view, not the
    session, which can be resumed by its id.
    """

    def __init__(
        self,
        kernel: "Kernel",
        session: Session,
        *,
        face: str = "api",
        actor: Callable[[], Actor] | None = None,
        owns_kernel: bool = False,
    ) -> None:
        self.kernel = kernel
        self._id = session.id
        self._owns_kernel = owns_kernel
        self._face = face
        self.files: Files = kernel.files(session, face=face, actor=actor)
        self._door = self.files.door

    def through(self, face: str, *, actor: Callable[[], Actor] | None = None) -> "Sandbox":
        """Return the same session seen through another face, under whose name accesses are recorded."""
        return Sandbox(self.kernel, self.session, face=face, actor=actor)

    # Files

    def read(self, path: str) -> str:
        """Return a file as text. One that is not UTF-8 is an error (EILSEQ), never a guess."""
        data = self.read_bytes(path)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise FileSystemError(
                errno.EILSEQ, f"`{printable(path)}` is not UTF-8 text: {error.reason} at byte {error.start}", path,
                hint="read it as bytes",
            ) from None  # fmt: skip

    def read_bytes(self, path: str) -> bytes:
        """Return a file as bytes."""
        return self._following(self._absolute(path), self.files.read_bytes)

    def write(self, path: str, content: str) -> None:
        """Make `content` a file's text, all or nothing; missing directories are made."""
        self.write_bytes(path, content.encode("utf-8", "surrogateescape"))

    def write_bytes(self, path: str, content: bytes, *, exclusive: bool = False) -> None:
        """Make `content` a file's bytes, all or nothing; missing directories are made.

        With `exclusive` a file that exists raises FileExistsError.
        """
        self._following(
            self._absolute(path),
            lambda p: self.files.write_bytes(p, content, exclusive=exclusive, make_parents=True),
        )

    def open(
        self,
        path: str,
        mode: str = "r",
        *,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open a file as the builtin `open` does; text is UTF-8 unless `encoding` says otherwise."""
        flags = flags_of(mode)
        handle = self._following(self._absolute(path), lambda p: self.files.open(p, flags, _FILE_MODE))
        return open_stream(
            handle, path, mode, encoding=encoding, errors=errors, newline=newline, buffering=buffering
        )

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive` a directory and all in it."""
        target = self.files.resolve(self._absolute(path), follow_last=False)
        try:
            self.files.remove(target)
        except FileSystemError as error:
            if error.code != "EISDIR":
                raise
            if recursive:
                remove_tree(self.files, target)
            else:
                self.files.remove_dir(target)

    def exists(self, path: str) -> bool:
        """Tell whether something is at `path`; a path that may not be known raises PermissionError."""
        try:
            self.stat(path)
        except NotFoundError:
            return False
        except FileSystemError as error:
            if error.code in ("ENOTDIR", "ELOOP"):
                return False
            raise
        return True

    def list(self, path: str) -> "builtins.list[str]":
        """Return the names in a directory, sorted; those that a rule hides are not among them."""
        entries = self._following(self._absolute(path), self.files.scan)
        return sorted(entry.name for entry in entries)

    def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Return the metadata of what is at `path`; without `follow`, of a link itself."""
        absolute = self._absolute(path)
        found = self._following(absolute, self.files.stat)
        if follow and stat.S_ISLNK(found.mode):
            absolute = self.files.resolve(absolute)
            found = self.files.stat(absolute)
        where = parse(absolute)
        return FileStat(
            path=str(where),
            zone=where.zone,
            size=found.size,
            created_at=datetime.fromtimestamp(found.created_ns / 1e9, UTC),
            modified_at=datetime.fromtimestamp(found.mtime_ns / 1e9, UTC),
            is_directory=stat.S_ISDIR(found.mode),
            mode=found.mode,
        )

    def make_dir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory; with `parents` those above it too, and one that is there is fine."""
        absolute = self.files.resolve(self._absolute(path), follow_last=False)
        if parents:
            self.files.make_dirs(absolute)
        else:
            self.files.make_dir(absolute, _DIRECTORY_MODE)

    def move(self, source: str, target: str, *, overwrite: bool = True) -> None:
        """Move a file or directory; between zones it is copied and then removed."""
        old, new = (self.files.resolve(self._absolute(path), follow_last=False) for path in (source, target))
        try:
            self.files.rename(old, new, RenameFlag.REPLACE if overwrite else RenameFlag.NOREPLACE)
        except FileSystemError as error:
            if error.code != "EXDEV":
                raise
            self._copy(old, new, exclusive=not overwrite)
            self.delete(old, recursive=True)

    def copy(self, source: str, target: str, *, overwrite: bool = True) -> None:
        """Copy a file, or a directory with all in it; links are copied as links."""
        self._copy(
            self.files.resolve(self._absolute(source)), self._absolute(target), exclusive=not overwrite
        )

    def _copy(self, old: str, new: str, *, exclusive: bool) -> None:
        found = self.files.stat(old)
        if stat.S_ISDIR(found.mode):
            if f"{new}/".startswith(f"{old}/"):
                raise InvalidPathError(f"`{printable(old)}` cannot be copied into itself", new)
            entries = self.files.scan(old)
            self.files.make_dirs(new)
            for entry in entries:
                self._copy(f"{old}/{entry.name}", f"{new}/{entry.name}", exclusive=exclusive)
        elif stat.S_ISLNK(found.mode):
            self.files.symlink(self.files.read_link(old), new)
        else:
            self.files.write_bytes(new, self.files.read_bytes(old), exclusive=exclusive, make_parents=True)
            if stat.S_IMODE(found.mode) & 0o111:
                self.files.set_mode(new, stat.S_IMODE(found.mode))

    def symlink(self, target: str, path: str) -> None:
        """Make the link `path` to `target`, a relative path that stays in the link's zone."""
        self.files.symlink(target, self._absolute(path))

    def link(self, source: str, path: str) -> None:
        """Give a file the further name `path` in the same zone."""
        self.files.link(self._absolute(source), self._absolute(path))

    def read_link(self, path: str) -> str:
        """Return what a link says."""
        return self.files.read_link(self._absolute(path))

    def set_times(self, path: str, *, accessed_ns: int | None = None, modified_ns: int | None = None) -> None:
        """Set the times given, in nanoseconds since the epoch."""
        self._following(self._absolute(path), lambda p: self.files.set_times(p, accessed_ns, modified_ns))

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits."""
        self._following(self._absolute(path), lambda p: self.files.set_mode(p, mode))

    # Paths

    def resolve(self, *segments: str) -> str:
        """Return the absolute path of `segments`, joined as a shell would, from the working directory."""
        path = self.session_path
        for segment in segments:
            path = segment if segment.startswith("/") else f"{path}/{segment}"
        return str(parse(path))

    def get_zone(self, path: str) -> Zone:
        """Return the zone of a path. Raises InvalidPathError for one in no zone."""
        zone = parse(path).zone
        if zone is None:
            raise InvalidPathError("the root lies in no zone", path)
        return zone

    def is_valid_path(self, path: str) -> bool:
        """Tell whether `path` lies within the zones, and in no other session."""
        try:
            self.get_zone(path)
            self._door.locate(self._absolute(path), Operation.LIST, "is_valid_path")
        except (InvalidPathError, PermissionError):
            return False
        return True

    # The session

    @property
    def session(self) -> Session:
        """Return the session as it stands now. Raises SessionError once it is over."""
        return self._door.session

    @property
    def session_path(self) -> str:
        """Return the session's working directory."""
        return "/session/working"

    def create_session_dir(self, name: str) -> str:
        """Make a directory in the session's working area and return its path."""
        path = self.resolve(name)
        self.make_dir(path, parents=True)
        return path

    def close(self) -> None:
        """Give up the view; the kernel too, if the sandbox was made with one of its own."""
        if self._owns_kernel:
            self.kernel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Staging

    def stage(self, files: Iterable[StageRequest | Mapping[str, Any]], message: str = "") -> str:
        """Stage files for a commit, all or none, and return the staged commit's id.

        Each is a StageRequest or a mapping with `repo_path` and `content`; content None stages a deletion.
        Nothing reaches the repository before a person approves.
        """
        requests = [f if isinstance(f, StageRequest) else StageRequest(**f) for f in files]
        if not requests:
            raise InvalidPathError("nothing to stage", hint="name at least one file")
        paths = [self._stageable(request.repo_path) for request in requests]
        if len(set(paths)) < len(paths):
            raise InvalidPathError("a path is staged twice in one commit", max(paths, key=paths.count))
        commit_id = new_commit_id()
        staging = self.kernel.staging(self.session.workspace_id)
        claim = Claim(Operation.WRITE, parse(f"/staged/{commit_id}"))
        self._door.demand("stage", claim, creates=True)
        row = self._door.recorder().entry(
            "stage", "stage", str(claim.path), Zone.STAGED, True, actor=self._door.actor(), pending=True,
            metadata={"message": message, "files": len(paths)},
        )  # fmt: skip
        try:
            staging.adopt(commit_id, self._id, message)
            for path, request in zip(paths, requests, strict=True):
                if request.data is not None:
                    self.files.write_bytes(
                        f"/staged/{commit_id}/{path}", request.data, exclusive=True, make_parents=True
                    )
            deletions = [p for p, request in zip(paths, requests, strict=True) if request.data is None]
            staging.describe(commit_id, message, deletions)
        except BaseException as error:
            self._door.recorder().outcome(row, getattr(error, "code", type(error).__name__))
            self._unstage(commit_id)
            raise
        self._door.recorder().outcome(row, "ok")
        return commit_id

    def _stageable(self, repo_path: str) -> str:
        """Return the normal form of a path that may be staged: one that /repo would let be written at all."""
        where = parse(f"/repo/{repo_path}") if not repo_path.startswith("/") else None
        if where is None or where.zone is not Zone.REPO or not where.rest:
            raise InvalidPathError(
                f"`{printable(repo_path)}` is not a path in the repository", repo_path,
                hint="name it relative to the repository's root",
            )  # fmt: skip
        if ".git" in where.rest.lower().split("/"):
            raise InvalidPathError(f"`{printable(repo_path)}` is git's own and cannot be staged", repo_path)
        decision = self.kernel.policy.decide(TrustLevel.FULL, Operation.WRITE, where)
        if not decision.allowed:
            raise self._door.refuse("stage", Claim(Operation.WRITE, where), decision)
        return where.rest

    def _unstage(self, commit_id: str) -> None:
        """Take back what a failed `stage` has written; it was never a commit."""
        staging = self.kernel.staging(self.session.workspace_id)
        try:
            staging.remove_files(commit_id)
        except (OSError, SandboxError):
            return  # what is left stays visible as a pending staged commit
        staging.forget(commit_id)

    def staged_commits(self) -> "builtins.list[StagedCommit]":
        """Return the staged commits of the workspace, oldest first."""
        claim = self._door.admit(Operation.LIST, "staged_commits", "/staged")
        with self._door.reading("staged_commits", claim):
            return [self._seen(commit) for commit in self.kernel.staging(self.session.workspace_id).commits()]

    def staged_commit(self, commit_id: str) -> StagedCommit:
        """Return one staged commit. Raises NotFoundError."""
        check_commit_id(commit_id)
        claim = self._door.admit(Operation.READ, "staged_commit", f"/staged/{commit_id}")
        with self._door.reading("staged_commit", claim):
            return self._seen(self.kernel.staging(self.session.workspace_id).commit(commit_id))

    def _seen(self, commit: StagedCommit) -> StagedCommit:
        """Return a staged commit without telling what is in the repository, to whom may not know that."""

        def seen(file: StagedFile) -> StagedFile:
            where = parse(f"/repo/{file.repo_path}")
            known = file.operation != "update" or self._door.decide(Operation.LIST, where).allowed
            return file if known else replace(file, operation="create")

        return replace(commit, files=tuple(seen(file) for file in commit.files))

    def discard_staged(self, commit_id: str) -> None:
        """Remove a staged commit that nobody has decided on. Raises NotFoundError."""
        check_commit_id(commit_id)
        staging = self.kernel.staging(self.session.workspace_id)
        claim = self._door.admit(Operation.DELETE, "discard", f"/staged/{commit_id}")
        with self._door.mutation("discard", claim):
            found = staging.commit(commit_id)
            if found.status not in ("pending", "rejected"):
                raise ConflictError(f"the staged commit `{commit_id}` is {found.status}", str(claim.path))
            staging.remove_files(commit_id)
            staging.forget(commit_id)

    # Security

    @property
    def security_context(self) -> SecurityContext:
        """Return the trust level in force and what it permits in each zone."""
        session = self.session
        level = session.trust_level
        return SecurityContext(level, session.id, session.source_context.origin, MATRIX[level])

    def check_permission(self, operation: Operation | str, path: str) -> PermissionCheck:
        """Tell whether an operation would be permitted, and why not. Raises InvalidPathError."""
        operation = Operation(operation)
        where = self._door.locate(self._absolute(path), operation, "check_permission")
        decision = self._door.decide(operation, where)
        if where.zone is None:
            raise InvalidPathError("the root lies in no zone", path)
        return PermissionCheck(
            decision.allowed,
            "file or directory not found" if decision.hidden else decision.reason,
            where.zone,
            self._door.level,
            decision.requires_approval or decision.ask,
            decision.hint,
        )

    def assert_permission(self, operation: Operation | str, path: str) -> None:
        """Raise PermissionError, and record it, if an operation is not permitted."""
        operation = Operation(operation)
        where = self._door.locate(self._absolute(path), operation, "assert_permission")
        self._door.demand("assert_permission", Claim(operation, where), creates=True)

    def promote(self, token: str) -> None:
        """Raise this session's trust by a token that a person issued. Raises TokenError."""
        self.kernel.promote(self._id, token, face=self._face)

    def demote(self, level: TrustLevel | str, *, who: str, reason: str) -> None:
        """Lower this session's trust; takes effect at once, on open files and live mounts too."""
        self.kernel.demote(self._id, TrustLevel(level), who=who, reason=reason, face=self._face)

    # Within

    def _absolute(self, path: str | os.PathLike[str]) -> str:
        text = os.fspath(path)
        if not text:
            self._door.locate(text, Operation.LIST, "path")  # refuses it, and records that
        return text if text[:1] == "/" else f"/session/working/{text}"

    def _following(self, path: str, act: Callable[[str], T]) -> T:
        """Act on `path`; where a link is met, act on what it means instead, judged as that."""
        try:
            return act(path)
        except FileSystemError as error:
            if error.code != "ELOOP":
                raise
            resolved = self.files.resolve(path)
            if resolved == path:
                raise
        return act(resolved)
