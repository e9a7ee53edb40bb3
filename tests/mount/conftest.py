"""A real mount of a small git project, served by a process of its own, never left behind."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from vfs.doctor import require
from vfs.kernel.audit import AuditEntry, AuditFilter
from vfs.kernel.errors import SandboxError, UnavailableError
from vfs.kernel.kernel import Kernel
from vfs.kernel.sessions import Session
from vfs.kernel.trust import TrustLevel
from vfs.mount import MountServer, unmount
from vfs.project import open_project

GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def run(*command: str, cwd: Path | None = None, check: bool = True) -> "subprocess.CompletedProcess[str]":
    """Run a program with a git identity of its own; its output is shown when it fails."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **GIT}, capture_output=True, text=True, errors="surrogateescape",
        stdin=subprocess.DEVNULL, check=False, timeout=120,
    )  # fmt: skip
    if check and done.returncode:
        pytest.fail(f"{' '.join(command)} → {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Ask until it holds, at most so long; for what another process does in its own time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@dataclass
class Mount:
    """A mounted session: its directory as programs see it, and the project behind it."""

    root: Path
    project: Path
    kernel: Kernel
    session: Session
    server: MountServer

    @property
    def data(self) -> Path:
        return self.root / "workspace" / "data"

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    def rows(self, path: str | None = None, action: str | None = None) -> list[AuditEntry]:
        found = self.kernel.log.get_entries(AuditFilter(face="fuse", path=path))
        return [entry for entry in found if action in (None, entry.action)]

    def settled(self, path: str, action: str) -> AuditEntry:
        """Return the last such row, once its outcome is there: a close is told after it has returned."""
        assert eventually(lambda: bool(rows := self.rows(path, action)) and rows[-1].outcome != "pending")
        return self.rows(path, action)[-1]


@pytest.fixture(scope="session", autouse=True)
def _machine_can_mount() -> None:
    try:
        require("mount")
    except UnavailableError as error:
        pytest.skip(error.message)


def make_project(project: Path) -> Path:
    """Make a small git project."""
    (project / "src").mkdir(parents=True)
    (project / "README.md").write_text("a small project\n")
    (project / "src" / "main.py").write_text("print('hello')\n")
    (project / ".env").write_text("TOKEN=secret\n")
    (project / ".gitignore").write_text(".env\n.sandbox\n")
    run("git", "init", "-q", "-b", "main", cwd=project)
    run("git", "add", "-A", cwd=project)
    run("git", "commit", "-q", "-m", "first", cwd=project)
    return project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VFS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("VFS_WORKERS_PATH", raising=False)
    return make_project(tmp_path / "project")


@pytest.fixture
def kernel(project: Path) -> Iterator[Kernel]:
    kernel = open_project(project)
    yield kernel
    kernel.close()


@pytest.fixture
def mount_point(tmp_path: Path) -> Iterator[Path]:
    """An empty directory; whatever is mounted there at the end is taken away."""
    point = tmp_path / "mnt"
    point.mkdir()
    yield point
    clear(point)


def clear(point: Path) -> None:
    """Take away all that is mounted at `point`, dead or alive."""
    while os.path.ismount(point) or _is_dead(point):
        try:
            unmount(str(point), force=True)
        except SandboxError:
            break


def _is_dead(point: Path) -> bool:
    try:
        point.stat()
    except OSError:
        return True
    return False


@pytest.fixture
def mounted(project: Path, kernel: Kernel, mount_point: Path) -> Iterator[Callable[..., Mount]]:
    """Mount sessions at a trust level; the server is ended, and its open files counted, at the end."""
    servers: list[MountServer] = []

    def start(level: str = "full", *, point: Path | None = None, session: Session | None = None) -> Mount:
        session = session or kernel.start(trust_level=TrustLevel(level))
        server = MountServer.start(project, session.id, point or mount_point)
        servers.append(server)
        return Mount(point or mount_point, project, kernel, session, server)

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    """One mount at full trust for all tests of a module."""
    base = tmp_path_factory.mktemp("shared")
    point = base / "mnt"
    point.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VFS_HOME", str(base / "home"))
        patch.delenv("VFS_WORKERS_PATH", raising=False)
        project = make_project(base / "project")
        kernel = open_project(project)
        try:
            session = kernel.start(trust_level=TrustLevel.FULL)
            with MountServer.start(project, session.id, point) as server:
                yield Mount(point, project, kernel, session, server)
        finally:
            kernel.close()
            clear(point)


@pytest.fixture
def mount(shared: Mount) -> Iterator[Mount]:
    """The shared mount, whose server must hold no more descriptors after the test than before."""
    descriptors = Path(f"/proc/{shared.server.pid}/fd")

    def count() -> int:
        # Descriptors on the callers' names are kept, a few at most (`vfs.mount.caller`).
        return sum(1 for fd in descriptors.iterdir() if not _target(fd).endswith("/comm"))

    os.listdir(shared.data)
    before = count()
    yield shared
    assert eventually(lambda: count() <= before), [_target(fd) for fd in descriptors.iterdir()]
    assert list(shared.project.rglob(".fuse_hidden*")) == []


@pytest.fixture
def d(mount: Mount, request: pytest.FixtureRequest) -> Path:
    """An empty directory in the shared mount."""
    directory = mount.data / f"{hash(request.node.name) & 0xFFFFFFFF:08x}"
    directory.mkdir()
    return directory


def _target(fd: Path) -> str:
    try:
        return os.readlink(fd)
    except OSError:
        return ""
