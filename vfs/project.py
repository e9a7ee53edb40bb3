"""Factories: a project directory, or nothing but memory, becomes a kernel and its sandboxes."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from vfs.config import FILE_NAME, Settings, load_settings
from vfs.kernel.audit import AuditLog
from vfs.kernel.door import Approver
from vfs.kernel.errors import ConfigError, SandboxError
from vfs.kernel.kernel import Kernel
from vfs.kernel.ports import Backend
from vfs.kernel.promotion import Promotions
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.sessions import DEFAULT_WORKSPACE, SESSION_DIRS, SourceContext
from vfs.kernel.state import Generation, StateDatabase
from vfs.kernel.trees import make_dirs, remove_tree
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs.layout import Layout
from vfs_backends.memory import MemoryBackend
from vfs_backends.osfs import OsBackend
from vfs_backends.prefix import PrefixBackend
from vfs_backends.subset import SubsetBackend
from vfs_backends.union import UnionBackend

__all__ = ["ProjectStorage", "memory_sandbox", "open_project", "open_sandbox"]

WORKSPACE_DIRS = ("cache/web", "cache/pdfs", "cache/attachments", "data")


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

    def sweep(self) -> None:
        """Remove what unfinished writes left in the project's own directories."""
        for place in (self._layout.project, self._layout.root):
            backend = OsBackend(place)
            try:
                backend.sweep()
            finally:
                backend.close()

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
    layout = Layout(directory, home)
    layout.make()
    storage = ProjectStorage(layout, {**settings.zones, **(zones or {})})
    return _assemble(layout, storage, settings, approver)


def _assemble(
    layout: Layout, storage: ProjectStorage, settings: Settings, approver: Approver | None
) -> Kernel:
    policy = settings.policy()
    state = StateDatabase(layout.state)
    generation = Generation(layout.generation)
    try:
        key = layout.signing_key()
        log = AuditLog.open(
            layout.audit,
            signer=key,
            heads=layout.heads,
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
        promotions=Promotions(state, key, layout.project_id),
        limits=settings.limits,
        approver=approver,
        record_looks=settings.audit.level == "all",
    )


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
    layout = Layout(directory, directory / "home")
    layout.make()
    storage = MemoryStorage(layout, {})
    for zone, files in ((Zone.REPO, repo), (Zone.WORKERS, workers)):
        backend = storage.backend(zone, DEFAULT_WORKSPACE, "")
        for path, content in (files or {}).items():
            if "/" in path:
                make_dirs(backend, path.rpartition("/")[0])
            backend.write_bytes(path, content.encode() if isinstance(content, str) else content)
    try:
        kernel = _assemble(layout, storage, settings or Settings(), approver)
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
