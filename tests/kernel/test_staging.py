"""Staged commits, however their files came there."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.worlds import World
from vfs.kernel.audit import AuditFilter
from vfs.kernel.errors import InvalidPathError, NotFoundError, PermissionError, QuotaExceededError
from vfs.kernel.staging import StageRequest

Act = Callable[[], object]


def test_stage_lists_what_a_commit_would_do(world: World) -> None:
    world.put_repo({"old.md": "old", "gone.md": "gone"})
    sandbox = world.sandbox("workspace")
    commit_id = sandbox.stage(
        [
            StageRequest("docs/new.md", "nëw"),
            StageRequest("old.md", b"changed"),
            {"repo_path": "gone.md", "content": None},
        ],
        "say why",
    )
    commit = sandbox.staged_commit(commit_id)
    assert (commit.message, commit.status, commit.session_id) == ("say why", "pending", sandbox.session.id)
    assert [(f.repo_path, f.operation, f.size, f.hash) for f in commit.files] == [
        ("docs/new.md", "create", 4, hashlib.sha256("nëw".encode()).hexdigest()),
        ("gone.md", "delete", 0, ""),
        ("old.md", "update", 7, hashlib.sha256(b"changed").hexdigest()),
    ]
    (row,) = sandbox.kernel.log.get_entries(AuditFilter(operation="stage"))
    assert (row.allowed, row.outcome, row.path) == (True, "ok", f"/staged/{commit_id}")


def test_files_written_under_staged_become_a_staged_commit(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("/staged/fix-1/src/a.py", "a = 1\n")
    (commit,) = sandbox.staged_commits()
    assert (commit.id, commit.session_id, commit.status) == ("fix-1", sandbox.session.id, "pending")
    assert [f.repo_path for f in commit.files] == ["src/a.py"]


@pytest.mark.parametrize(
    "path", ["/etc/x", "../x", "", ".", ".git/hooks/pre-commit", "a/.GIT/x", "a/../../x"]
)
def test_what_is_no_path_in_the_repository_cannot_be_staged(world: World, path: str) -> None:
    sandbox = world.sandbox()
    with pytest.raises(InvalidPathError):
        sandbox.stage([{"repo_path": path, "content": "x"}])
    assert sandbox.staged_commits() == []


def test_protected_paths_cannot_be_staged(world: World) -> None:
    for path in ("vfs.toml", ".sandbox/state.db"):
        with pytest.raises(PermissionError):
            world.sandbox().stage([{"repo_path": path, "content": "x"}])


def test_nothing_and_twice_the_same_cannot_be_staged(world: World) -> None:
    with pytest.raises(InvalidPathError, match="nothing to stage"):
        world.sandbox().stage([])
    with pytest.raises(InvalidPathError, match="twice"):
        world.sandbox().stage([{"repo_path": "a", "content": "1"}, {"repo_path": "./a", "content": "2"}])


def test_discarding_removes_a_staged_commit_and_its_files(world: World) -> None:
    sandbox = world.sandbox()
    commit_id = sandbox.stage([{"repo_path": "a/b", "content": "1"}])
    sandbox.discard_staged(commit_id)
    assert sandbox.staged_commits() == []
    assert sandbox.list("/staged") == []
    with pytest.raises(NotFoundError):
        sandbox.discard_staged(commit_id)


def test_a_decided_staged_commit_no_longer_changes(world: World) -> None:
    sandbox = world.sandbox()
    commit_id = sandbox.stage([{"repo_path": "a", "content": "1"}])
    kernel = sandbox.kernel
    kernel.state.query("UPDATE staged_commits SET status = 'approved' WHERE id = ?", commit_id)
    kernel.generation.bump()
    acts: list[Act] = [
        lambda: sandbox.write(f"/staged/{commit_id}/a", "2"),
        lambda: sandbox.delete(f"/staged/{commit_id}/a"),
        lambda: sandbox.discard_staged(commit_id),
    ]
    for act in acts:
        with pytest.raises(PermissionError, match="decided on"):
            act()
    assert sandbox.read(f"/staged/{commit_id}/a") == "1"


def test_untrusted_sessions_stage_and_see_nothing_of_it(world: World) -> None:
    sandbox = world.sandbox("untrusted")
    commit_id = sandbox.stage([{"repo_path": "a/b", "content": "1"}])
    acts: list[Act] = [
        lambda: sandbox.read(f"/staged/{commit_id}/a/b"),
        lambda: sandbox.list("/staged"),
        lambda: sandbox.staged_commits(),
        lambda: sandbox.staged_commit(commit_id),
        lambda: sandbox.discard_staged(commit_id),
        lambda: sandbox.delete(f"/staged/{commit_id}/a/b"),
        lambda: sandbox.open(f"/staged/{commit_id}/a/b", "w"),
        lambda: sandbox.open(f"/staged/{commit_id}/a/b", "a"),
        lambda: sandbox.set_mode(f"/staged/{commit_id}/a/b", 0o777),
        lambda: sandbox.symlink("b", f"/staged/{commit_id}/a/link"),
    ]
    for act in acts:
        with pytest.raises(PermissionError):
            act()
    assert world.sandbox().read(f"/staged/{commit_id}/a/b") == "1"


def test_untrusted_may_write_a_new_file_through_its_handle(world: World) -> None:
    sandbox = world.sandbox("untrusted")
    sandbox.make_dir("/staged/c1")
    with sandbox.open("/staged/c1/new", "wb", buffering=0) as file:
        file.write(b"one ")
        file.write(b"two")
    assert world.sandbox().read("/staged/c1/new") == "one two"


def test_files_lie_in_a_commits_directory_not_beside_it(world: World) -> None:
    with pytest.raises(InvalidPathError, match="commit's directory"):
        world.sandbox().write("/staged/loose-file", "x")


def test_a_staged_commit_keeps_its_id(world: World) -> None:
    sandbox = world.sandbox()
    commit_id = sandbox.stage([{"repo_path": "a", "content": "1"}])
    with pytest.raises(PermissionError, match="keeps its id"):
        sandbox.move(f"/staged/{commit_id}", "/staged/other")


def test_a_stage_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    from vfs.config import Settings
    from vfs.project import open_sandbox

    settings = Settings.parse({"quota": {"staged": 1000}})
    with open_sandbox(tmp_path, settings=settings) as sandbox:
        with pytest.raises(QuotaExceededError):
            sandbox.stage(
                [{"repo_path": "a", "content": "x" * 10}, {"repo_path": "b", "content": "x" * 5000}]
            )
        assert sandbox.staged_commits() == []
        assert sandbox.list("/staged") == []
        (row,) = sandbox.kernel.log.get_entries(AuditFilter(operation="stage"))
        assert row.outcome == "QUOTA_EXCEEDED"
