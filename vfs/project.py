"""Factories: a project directory, or nothing but memory, becomes a kernel and its sandboxes.

A project's state lies in `P/.sandbox`, which no zone shows; what must be out of every agent's reach, the
signing key and the signed heads of the audit log, in the user's own state directory (`VFS_HOME`).
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from vfs.config import FILE_NAME, Settings, load_settings
from vfs.kernel.audit import AuditLog
from vfs.kernel.door import Approver
from vfs.kernel.errors import ConfigError, SandboxError
from vfs.kernel.kernel import Kernel
from vfs.kernel.keys import SigningKey
from vfs.kernel.ports import Backend
from vfs.kernel.promotion import Promotions
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.sessions import DEFAULT_WORKSPACE, SESSION_DIRS, SourceContext
from vfs.kernel.state import Generation, StateDatabase
from vfs.kernel.trees import make_dirs, remove_tree
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs_backends.memory import MemoryBackend
from vfs_backends.osfs import OsBackend
from vfs_backends.prefix import PrefixBackend
from vfs_backends.subset import SubsetBackend
from vfs_backends.union import UnionBackend

__all__ = [
    "Layout",
    "ProjectStorage",
    "find_project",
    "memory_sandbox",
    "open_project",
    "open_sandbox",
    "vfs_home",
]

WORKSPACE_DIRS = ("cache/web", "cache/pdfs", "cache/attachments", "data")
_MARKS = (".sandbox", FILE_NAME, ".git")


def vfs_home() -> Path:
    """Return where keys and signed heads are kept: `VFS_HOME`, or `vfs` in the user's state directory."""
    if home := os.environ.get("VFS_HOME"):
        return Path(home)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "vfs"


def find_project(start: Path | None = None) -> Path:
    """Return the project `start` (else `VFS_PROJECT`, else the current directory) lies in.

    That is the nearest directory upwards with a `.sandbox`, a `vfs.toml` or a `.git`; `start` itself if there
    is none. Raises ConfigError if `start` is no directory.
    """
    start = Path(start or os.environ.get("VFS_PROJECT") or Path.cwd()).absolute()
    if not start.is_dir():
        raise ConfigError(f"there is no directory `{start}`", hint="name the project's directory")
    for directory in (start, *start.parents):
        if any((directory / mark).exists() for mark in _MARKS):
            return directory
    return start


class Layout:
    """Where a project's own files lie."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.root = project / ".sandbox"
        self.state = self.root / "state.db"
        self.generation = self.root / "generation"
        self.audit = self.root / "audit"

    def make(self) -> None:
        """Make the directories; `.sandbox` is the owner's alone and ignored by git."""
        try:
            self.root.mkdir(mode=0o700, exist_ok=True)
            self.audit.mkdir(mode=0o700, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise ConfigError(
                f"`{self.root}` cannot be made: {error.strerror}", hint="the project must be writable for you"
            ) from error

    def workspace(self, workspace_id: str) -> Path:
        """Return where a workspace's zones lie; the default one is right under `.sandbox`."""
        return self.root if workspace_id == DEFAULT_WORKSPACE else self.root / "workspaces" / workspace_id


class ProjectStorage:
    """Where the zones of a project live: under `P`, or at the URLs that the settings name."""

    def __init__(self, layout: Layout, urls: Mapping[Zone, str]) -> None:
        self._layout = layout
        self._urls = urls
        self._open: dict[tuple[Zone, str, str], Backend] = {}
        self._shared: dict[Zone, Backend] = {}

    def backend(self, zone: Zone, workspace_id: str, session_id: str) -> Backend:
        """Return the storage under a zone as that session has it."""
        key = (
            zone,
            "" if zone in (Zone.REPO, Zone.WORKERS) else workspace_id,
            session_id if zone is Zone.SESSION else "",
        )
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = self._make(*key)
        return found

    def prepare(self, workspace_id: str, session_id: str) -> None:
        """Make the directories that a session starts with."""
        for zone, names in ((Zone.SESSION, SESSION_DIRS), (Zone.WORKSPACE, WORKSPACE_DIRS)):
            backend = self.backend(zone, workspace_id, session_id)
            for name in names:
                make_dirs(backend, name)

    def discard(self, workspace_id: str, session_id: str) -> None:
        """Remove a session's own files."""
        backend = self.backend(Zone.SESSION, workspace_id, session_id)
        remove_tree(backend, "")
        backend.close()
        self._open.pop((Zone.SESSION, workspace_id, session_id), None)
        if Zone.SESSION not in self._urls:
            shutil.rmtree(self._layout.workspace(workspace_id) / "sessions" / session_id, ignore_errors=True)

    def close(self) -> None:
        """Close every backend."""
        while self._open:
            self._open.popitem()[1].close()
        while self._shared:
            self._shared.popitem()[1].close()

    def _make(self, zone: Zone, workspace_id: str, session_id: str) -> Backend:
        if zone in self._urls:
            return self._make_at_url(zone, workspace_id, session_id)
        home = self._layout.workspace(workspace_id)
        match zone:
            case Zone.SESSION:
                return _os_backend(home / "sessions" / session_id)
            case Zone.WORKSPACE:
                for name in ("cache", "data"):
                    (home / name).mkdir(parents=True, exist_ok=True)
                return SubsetBackend(OsBackend(home), ("cache", "data"))
            case Zone.STAGED:
                return _os_backend(home / "staged")
            case Zone.REPO:
                return OsBackend(self._layout.project)
            case Zone.WORKERS:
                places = [self._layout.project / ".workers"]
                places += [Path(p) for p in os.environ.get("VFS_WORKERS_PATH", "").split(os.pathsep) if p]
                return UnionBackend([OsBackend(place) for place in places if place.is_dir()])

    def _make_at_url(self, zone: Zone, workspace_id: str, session_id: str) -> Backend:
        """Return a place of its own in the storage at the zone's URL, which all share that have that zone."""
        shared = self._shared.get(zone)
        if shared is None:
            from vfs_backends.urls import open_backend

            shared = self._shared[zone] = open_backend(self._urls[zone])
        prefix = f"workspaces/{workspace_id}" if workspace_id not in ("", DEFAULT_WORKSPACE) else ""
        if session_id:
            prefix = "/".join(filter(None, [prefix, "sessions", session_id]))
        if not prefix:
            return shared
        make_dirs(shared, prefix)
        return PrefixBackend(shared, prefix)


def _os_backend(root: Path) -> OsBackend:
    root.mkdir(parents=True, exist_ok=True)
    return OsBackend(root)


def open_project(
    project: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    zones: Mapping[Zone, str] | None = None,
    home: Path | None = None,
    approver: Approver | None = None,
) -> Kernel:
    """Open the kernel of a project directory, making its `.sandbox` at the first time.

    `settings` stand for `vfs.toml`; `zones` put single zones at other URLs. Raises ConfigError,
    BackendUnavailableError and AuditUnavailableError, each with what to do.
    """
    directory = Path(project).absolute()
    if not directory.is_dir():
        raise ConfigError(f"there is no directory `{directory}`", hint="name the project's directory")
    settings = settings or load_settings(directory / FILE_NAME)
    layout = Layout(directory)
    layout.make()
    storage = ProjectStorage(layout, {**settings.zones, **(zones or {})})
    return _assemble(layout, storage, settings, home or vfs_home(), approver)


def _assemble(
    layout: Layout, storage: ProjectStorage, settings: Settings, home: Path, approver: Approver | None
) -> Kernel:
    policy = settings.policy()
    state = StateDatabase(layout.state)
    generation = Generation(layout.generation)
    try:
        project_id = _project_id(state)
        private = home / "projects" / project_id
        key = _signing_key(private, layout)
        log = AuditLog.open(
            layout.audit,
            signer=key,
            heads=private / "heads.jsonl",
            durability=settings.audit.durability,
            heads_every=settings.audit.heads_every,
        )
    except BaseException:
        state.close()
        generation.close()
        raise
    return Kernel(
        state=state,
        generation=generation,
        log=log,
        policy=policy,
        storage=storage,
        promotions=Promotions(state, key, project_id),
        limits=settings.limits,
        approver=approver,
        record_looks=settings.audit.level == "all",
    )


def _project_id(state: StateDatabase) -> str:
    with state.transaction() as database:
        database.execute(
            "INSERT OR IGNORE INTO meta (key, value) VALUES ('project_id', ?)", (str(uuid.uuid4()),)
        )
    return str(state.query("SELECT value FROM meta WHERE key = 'project_id'")[0][0])


def _signing_key(private: Path, layout: Layout) -> SigningKey:
    """Return the project's key; made with the project, never silently again."""
    path, public = private / "signing.pem", layout.root / "public.pem"
    if path.exists():
        return SigningKey.load(path)
    if public.exists():
        raise ConfigError(
            f"the project's signing key `{path}` is missing",
            hint="restore it, or set VFS_HOME to where it is; `vfs init --new-key` starts a new chain with a new key",
        )
    private.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = SigningKey.create(path)
    public.write_text(key.public_pem)
    return key


def open_sandbox(
    project: str | os.PathLike[str],
    *,
    trust_level: TrustLevel | str | None = None,
    session_id: str | None = None,
    workspace_id: str = DEFAULT_WORKSPACE,
    source: SourceContext | None = None,
    **options: object,
) -> Sandbox:
    """Open a sandbox on a project directory (seed 001, createCLISandbox).

    A `session_id` that exists is resumed at the trust level it has: then `trust_level` must be None or that
    very level, because only a token raises trust. Other `options` are those of `open_project`.
    """
    level = TrustLevel(trust_level) if trust_level is not None else None
    kernel = open_project(project, **options)  # type: ignore[arg-type]  # passed on as they came
    try:
        session = kernel.sessions.find(session_id) if session_id is not None else None
        if session is None:
            session = kernel.start(
                trust_level=level, session_id=session_id, workspace_id=workspace_id, source=source
            )
        else:
            session = kernel.resume(session.id)
            if level is not None and level is not session.trust_level:
                raise ConfigError(
                    f"session `{session.id}` has trust level `{session.trust_level}`, not `{level}`",
                    hint="`vfs session promote` and `vfs session demote` change it",
                )
        return Sandbox(kernel, session, owns_kernel=True)
    except BaseException:
        kernel.close()
        raise


def memory_sandbox(
    *,
    trust_level: TrustLevel | str | None = None,
    repo: Mapping[str, str | bytes] | None = None,
    workers: Mapping[str, str | bytes] | None = None,
    settings: Settings | None = None,
    approver: Approver | None = None,
) -> Sandbox:
    """Return a sandbox for a test: every zone in memory (seed 001, createTestSandbox).

    `repo` and `workers` say what those zones hold at first. State, log and key are real files in a temporary
    directory that goes when the sandbox is closed.
    """
    directory = Path(tempfile.mkdtemp(prefix="vfs-memory-"))
    layout = Layout(directory)
    layout.make()
    storage = MemoryStorage(layout, {})
    for zone, files in ((Zone.REPO, repo), (Zone.WORKERS, workers)):
        backend = storage.backend(zone, DEFAULT_WORKSPACE, "")
        for path, content in (files or {}).items():
            if "/" in path:
                make_dirs(backend, path.rpartition("/")[0])
            backend.write_bytes(path, content.encode() if isinstance(content, str) else content)
    try:
        kernel = _assemble(layout, storage, settings or Settings(), directory / "home", approver)
        session = kernel.start(trust_level=TrustLevel(trust_level) if trust_level is not None else None)
    except SandboxError:
        storage.close()
        raise
    return Sandbox(kernel, session, owns_kernel=True)


class MemoryStorage(ProjectStorage):
    """Every zone in memory, and the temporary directory of the state."""

    def _make(self, zone: Zone, workspace_id: str, session_id: str) -> Backend:  # noqa: ARG002
        """Return an empty tree; each place is made once and kept."""
        if zone is Zone.WORKSPACE:
            backend = MemoryBackend()
            for name in ("cache", "data"):
                backend.make_dir(name)
            return SubsetBackend(backend, ("cache", "data"))
        return MemoryBackend()

    def close(self) -> None:
        """Forget the trees and remove the directory."""
        super().close()
        shutil.rmtree(self._layout.project, ignore_errors=True)
