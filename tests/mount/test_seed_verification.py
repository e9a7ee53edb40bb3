"""Seed 001's verification tests through a real mount, over the project's directories and over memory.

The same tests through the Python API are in tests/kernel/test_seed_verification.py.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.mount.conftest import clear, eventually
from vfs.kernel.audit import AuditFilter
from vfs.kernel.kernel import Kernel
from vfs.kernel.sessions import Session
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs.mount import MountServer

Mounting = Callable[..., tuple[Path, Session]]

MEMORY: Mapping[Zone, str] = dict.fromkeys(Zone, "mem://")


@pytest.fixture(params=["os", "memory"])
def mounting(
    request: pytest.FixtureRequest, project: Path, kernel: Kernel, tmp_path: Path
) -> Iterator[Mounting]:
    """Return a function that starts or resumes a session and mounts it."""
    servers: list[MountServer] = []

    def start(
        trust_level: str = "session", *, session_id: str | None = None, workspace_id: str = "cli"
    ) -> tuple[Path, Session]:
        if session_id is not None and kernel.sessions.exists(session_id):
            session = kernel.resume(session_id)
        else:
            session = kernel.start(
                trust_level=TrustLevel(trust_level), session_id=session_id, workspace_id=workspace_id
            )
        point = tmp_path / f"mnt-{len(servers)}"
        point.mkdir()
        zones = MEMORY if request.param == "memory" else None
        servers.append(MountServer.start(project, session.id, point, zones=zones))
        return point, session

    yield start
    for server in servers:
        server.close()
        clear(Path(server.mount_point))


def demote(kernel: Kernel, session: Session, level: str, point: Path) -> None:
    kernel.demote(session.id, TrustLevel(level), who="ada", reason="a test")


def test_blocks_untrusted_session_from_reading_repo_content(mounting: Mounting, kernel: Kernel) -> None:
    root, session = mounting("untrusted")
    with pytest.raises(PermissionError):
        (root / "repo/README.md").read_text()
    rows = kernel.log.get_entries(AuditFilter(session_id=session.id))
    assert [(row.path, row.allowed, row.trust_level) for row in rows] == [
        ("/repo/README.md", False, "untrusted")
    ]


def test_blocks_untrusted_session_from_reading_workspace_data(mounting: Mounting) -> None:
    root, _ = mounting("untrusted")
    with pytest.raises(PermissionError):
        (root / "workspace/data/previous-analysis.md").read_text()


def test_allows_untrusted_to_stage_new_files_but_not_overwrite(mounting: Mounting, kernel: Kernel) -> None:
    root, session = mounting("untrusted")
    (root / "staged/commit-1").mkdir()
    new = root / "staged/commit-1/new-file.md"
    new.write_text("content")
    for act in (
        lambda: new.write_text("malicious"),
        lambda: new.open("a").close(),
        lambda: new.read_text(),
        lambda: new.unlink(),
        lambda: new.chmod(0o777),
    ):
        with pytest.raises(PermissionError):
            act()
    (row,) = kernel.state.query("SELECT session_id, status FROM staged_commits WHERE id = 'commit-1'")
    assert tuple(row) == (session.id, "pending")


def test_isolates_sessions_from_each_other(mounting: Mounting, kernel: Kernel) -> None:
    first, one = mounting()
    second, two = mounting()
    (first / "session/working/secret.md").write_text("session1 data")
    with pytest.raises(PermissionError):
        (second / f"session/{one.id}/working/secret.md").read_text()
    assert (first / f"session/{one.id}/working/secret.md").read_text() == "session1 data"
    violations = kernel.log.get_entries(AuditFilter(session_id=two.id, operation="security_violation"))
    assert violations


def test_logs_all_file_operations(mounting: Mounting, kernel: Kernel) -> None:
    root, session = mounting()
    (root / "session/working/file.md").write_text("content")
    assert (root / "session/working/file.md").read_text() == "content"
    assert [p.name for p in (root / "session/working").iterdir()] == ["file.md"]

    def closed() -> bool:
        entries = kernel.log.get_entries(AuditFilter(session_id=session.id))
        return all(entry.outcome == "ok" for entry in entries)

    assert eventually(closed)
    entries = kernel.log.get_entries(AuditFilter(session_id=session.id))
    assert [entry.operation for entry in entries] == ["write", "read", "list"]
    assert (entries[0].bytes_written, entries[1].bytes_read) == (7, 7)


def test_supports_caching_downloaded_pdfs(mounting: Mounting) -> None:
    root, _ = mounting()
    (root / "workspace/cache/pdfs/report.pdf").write_bytes(b"%PDF")
    assert (root / "workspace/cache/pdfs/report.pdf").exists()


def test_stages_files_for_git_sync(mounting: Mounting, kernel: Kernel) -> None:
    root, session = mounting()
    (root / "staged/c1/docs").mkdir(parents=True)
    (root / "staged/c1/docs/analysis.md").write_text("# Analysis")
    (root / "staged/c1/docs/summary.md").write_text("# Summary")
    assert sorted(p.name for p in (root / "staged/c1/docs").iterdir()) == ["analysis.md", "summary.md"]
    (row,) = kernel.state.query("SELECT session_id, status FROM staged_commits WHERE id = 'c1'")
    assert tuple(row) == (session.id, "pending")


def test_workspaces_are_isolated_and_persist(mounting: Mounting, request: pytest.FixtureRequest) -> None:
    one, _ = mounting(workspace_id="project-a")
    (one / "workspace/data/secret.md").write_text("project-a secret")
    two, _ = mounting(workspace_id="project-b")
    with pytest.raises(FileNotFoundError):
        (two / "workspace/data/secret.md").read_text()
    if "memory" not in request.node.name:  # what is in memory goes with its server
        again, _ = mounting(workspace_id="project-a")
        assert (again / "workspace/data/secret.md").read_text() == "project-a secret"


def test_full_trust_enables_repo_writing_and_workspace_trust_reading(
    mounting: Mounting, kernel: Kernel
) -> None:
    root, session = mounting("full")
    (root / "repo/new-file.md").write_text("content")
    assert (root / "repo/new-file.md").exists()
    demote(kernel, session, "workspace", root)
    assert (root / "repo/new-file.md").read_text() == "content"
    with pytest.raises(PermissionError):
        (root / "repo/new-file.md").write_text("changed")
    demote(kernel, session, "untrusted", root)
    with pytest.raises(PermissionError):
        (root / "repo/new-file.md").read_text()


def test_promotion_takes_effect_on_the_live_mount(mounting: Mounting, kernel: Kernel) -> None:
    root, session = mounting("untrusted")
    with pytest.raises(PermissionError):
        (root / "repo").iterdir().__next__()
    token = kernel.promotions.issue(session.id, TrustLevel.WORKSPACE, who="ada", reason="a test")
    kernel.promote(session.id, token)

    def readable() -> bool:
        try:
            list((root / "repo").iterdir())
        except PermissionError:
            return False
        return True

    assert eventually(readable)


def test_persists_session_data_for_crash_recovery(mounting: Mounting, request: pytest.FixtureRequest) -> None:
    if "memory" in request.node.name:
        pytest.skip("by design: what is in memory goes with its server")
    root, _ = mounting(session_id="recovery-test-session")
    (root / "session/working/draft.md").write_text("work in progress")
    again, _ = mounting(session_id="recovery-test-session")
    assert (again / "session/working/draft.md").read_text() == "work in progress"
