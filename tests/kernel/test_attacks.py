"""Ways around the guard that were found by trying; each is closed, and stays so."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.worlds import DiskWorld, World
from vfs.config import Settings
from vfs.kernel.audit import AuditFilter
from vfs.kernel.errors import (
    FileSystemError,
    InvalidPathError,
    PermissionError,
    QuotaExceededError,
    SandboxError,
    SecurityViolationError,
    SessionError,
    TokenError,
)
from vfs.kernel.quota import measure
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs.project import memory_sandbox, open_sandbox


@pytest.mark.parametrize(
    "path", ["/repo/.git/commondir", "/repo/.git/gitdir", "/repo/.git/worktrees/w/commondir",
             "/repo/.git/modules/m/commondir", "/repo/.git/modules/a/b/config.worktree", "/repo/sub/.git"],
)  # fmt: skip
def test_git_cannot_be_led_to_another_config(world: World, path: str) -> None:
    world.put_repo({".git/HEAD": "ref: x", "sub/a": "", "evil/config": "[core]\nfsmonitor = evil\n"})
    sandbox = world.sandbox("full")
    with pytest.raises(PermissionError):
        sandbox.write(path, "../evil\n")
    with pytest.raises((PermissionError, FileSystemError)):
        sandbox.symlink("../evil", "/repo/sub/.git")
    with pytest.raises(PermissionError):
        sandbox.move("/repo/evil", "/repo/sub/.git")
    assert not sandbox.exists("/repo/sub/.git")


def test_a_submodules_git_directory_cannot_be_moved_out_and_edited(world: World) -> None:
    world.put_repo({".git/modules/sub/config": "[core]", ".git/modules/sub/hooks/x": ""})
    sandbox = world.sandbox("full")
    with pytest.raises(PermissionError, match="out from under"):
        sandbox.files.rename("/repo/.git/modules/sub", "/repo/tmp")


def test_a_rule_with_stars_in_the_middle_holds_for_moves(disk: DiskWorld) -> None:
    settings = Settings.parse(
        {"rules": {"own": [{"name": "p", "effect": "hide", "paths": ["/workspace/data/**/private.txt"]}]}}
    )
    (disk.project / ".sandbox/data/x").mkdir(parents=True)
    (disk.project / ".sandbox/data/x/private.txt").write_text("secret")
    with open_sandbox(disk.project, settings=settings) as sandbox:
        with pytest.raises(PermissionError, match="out from under"):
            sandbox.files.rename("/workspace/data/x", "/workspace/cache/x")
        assert not sandbox.exists("/workspace/cache/x")


def test_a_decided_staged_commit_cannot_change_through_a_hard_link(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("/staged/c1/f.py", "good")
    sandbox.write("/staged/c2/g.py", "other")
    with pytest.raises(FileSystemError) as caught:
        sandbox.link("/staged/c1/f.py", "/staged/c2/alias")
    assert caught.value.code == "EXDEV"


@pytest.mark.parametrize("act", ["symlink", "link", "rename"])
def test_nothing_but_a_directory_can_stand_for_a_staged_commit(world: World, act: str) -> None:
    sandbox = world.sandbox()
    sandbox.write("/staged/c1/f", "x")
    files = sandbox.files
    with pytest.raises(SandboxError):
        {
            "symlink": lambda: files.symlink("c1", "/staged/name"),
            "link": lambda: files.link("/staged/c1/f", "/staged/name"),
            "rename": lambda: files.rename("/staged/c1/f", "/staged/name"),
        }[act]()
    assert [commit.id for commit in sandbox.staged_commits()] == ["c1"]


class TestQuota:
    LIMIT = 10_000

    @pytest.fixture
    def sandbox(self, tmp_path: Path) -> Iterator[Sandbox]:
        settings = Settings.parse({"quota": {"session": self.LIMIT}})
        with open_sandbox(tmp_path, settings=settings) as sandbox:
            yield sandbox

    def used(self, sandbox: Sandbox) -> int:
        return measure(sandbox.kernel.storage.backend(Zone.SESSION, "cli", sandbox.session.id))

    def fill(self, sandbox: Sandbox, name: str, size: int) -> bool:
        try:
            sandbox.write_bytes(name, b"x" * size)
        except QuotaExceededError:
            return False
        return True

    def test_moving_a_file_onto_itself_gives_nothing_back(self, sandbox: Sandbox) -> None:
        sandbox.write_bytes("a", b"x" * 6000)
        for _ in range(3):
            sandbox.move("a", "a")
        assert not self.fill(sandbox, "b", 6000)

    def test_replacing_one_name_of_two_gives_nothing_back(self, sandbox: Sandbox) -> None:
        sandbox.write_bytes("a", b"x" * 6000)
        sandbox.link("a", "b")
        assert not self.fill(sandbox, "a", 6000)
        assert self.used(sandbox) <= self.LIMIT

    def test_an_open_that_fails_gives_nothing_back(self, sandbox: Sandbox) -> None:
        sandbox.write_bytes("a", b"x" * 6000)
        for _ in range(3):
            with pytest.raises(FileExistsError):
                sandbox.files.open("/session/working/a", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_TRUNC)
        assert not self.fill(sandbox, "b", 6000)

    def test_a_removed_file_counts_while_it_is_open(self, sandbox: Sandbox) -> None:
        with sandbox.open("a", "wb", buffering=0) as file:
            file.write(b"x" * 6000)
            sandbox.delete("a")
            assert not self.fill(sandbox, "b", 6000)
        assert self.fill(sandbox, "b", 6000)

    def test_link_targets_count(self, sandbox: Sandbox) -> None:
        made = 0
        for number in range(100):
            with contextlib.suppress(QuotaExceededError):
                sandbox.symlink("x" * 200, f"link{number}")
                made += 1
        assert made == self.LIMIT // 200


def test_make_dir_does_not_tell_what_may_not_be_known(world: World) -> None:
    world.put_repo({"src/a": "", ".aws/credentials": ""})
    sandbox = world.sandbox("untrusted")
    for path in ("/repo/src", "/repo/missing", "/workspace/data"):
        with pytest.raises(PermissionError):
            sandbox.make_dir(path, parents=True)
    assert len(sandbox.kernel.log.get_violations(10)) == 3


def test_a_handle_ends_with_its_session(tmp_path: Path) -> None:
    settings = Settings.parse({"session": {"ttl": 3600}})
    with open_sandbox(tmp_path, settings=settings) as sandbox:
        sandbox.write("x", "1")
        file = sandbox.open("x", "rb+", buffering=0)
        sandbox.kernel.sessions.extend(sandbox.session.id, -1)
        acts: list[Callable[[], object]] = [lambda: file.read(1), lambda: file.write(b"2")]
        for act in acts:
            with pytest.raises(SessionError, match="expired"):
                act()


def test_an_old_handle_cannot_overwrite_a_staged_file_after_demotion(world: World) -> None:
    sandbox = world.sandbox("session")
    sandbox.write("/staged/c1/f", "good")
    file = sandbox.open("/staged/c1/f", "rb+", buffering=0)
    sandbox.demote("untrusted", who="ada", reason="odd")
    acts: list[Callable[[], object]] = [lambda: file.write(b"evil"), lambda: file.truncate(0)]
    for act in acts:
        with pytest.raises(PermissionError):
            act()


@pytest.mark.parametrize("target", ["d/../../x", "x/../..", "d/.."])
def test_a_link_that_climbs_after_going_down_is_never_made(world: World, target: str) -> None:
    sandbox = world.sandbox()
    with pytest.raises(SecurityViolationError):
        sandbox.symlink(target, "a/b/link" if sandbox.exists("a") else "link")


def test_a_link_is_judged_again_where_it_is_moved_to(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.make_dir("a/b/c", parents=True)
    sandbox.symlink("../../../../x", "a/b/c/link")
    with pytest.raises(SecurityViolationError):
        sandbox.move("a/b/c/link", "/session/link")


def test_a_token_made_before_a_demotion_does_not_count(world: World) -> None:
    sandbox = world.sandbox("session")
    token = sandbox.kernel.promotions.issue(sandbox.session.id, TrustLevel.FULL, who="ada", reason="r")
    sandbox.demote("untrusted", who="ada", reason="changed my mind")
    with pytest.raises(TokenError, match="decided on after"):
        sandbox.promote(token)


def test_names_that_are_no_text_are_no_session_ids(world: World) -> None:
    sandbox = world.sandbox()
    assert not sandbox.exists("/session/\udcff\udcfe")
    with pytest.raises(InvalidPathError):
        sandbox.read("/session/\ud800")


def test_a_demotion_that_nobody_told_of_is_noticed(disk: DiskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    from vfs.kernel import door

    monkeypatch.setattr(door, "_LOOK_EVERY", 0.0)
    sandbox = disk.sandbox("full")
    sandbox.write("/repo/x", "1")
    other = disk.sandbox("session")
    other.kernel.state.query("UPDATE sessions SET trust_level = 'untrusted' WHERE id = ?", sandbox.session.id)
    with pytest.raises(PermissionError):
        sandbox.write("/repo/x", "2")


def test_files_do_not_run_as_somebody_else_on_the_host(disk: DiskWorld) -> None:
    sandbox = disk.sandbox("full")
    sandbox.write("/repo/su", "#!/bin/sh\n")
    sandbox.set_mode("/repo/su", 0o6755)
    sandbox.files.open("/repo/su2", os.O_CREAT | os.O_WRONLY, 0o4755).close()
    for name in ("su", "su2"):
        assert (disk.project / name).stat().st_mode & 0o7777 == 0o755


def test_staging_does_not_tell_what_is_in_the_repository(world: World) -> None:
    world.put_repo({".env": "S", "known.py": ""})
    sandbox = world.sandbox("session")
    commit_id = sandbox.stage([{"repo_path": "known.py", "content": ""}])
    assert [file.operation for file in sandbox.staged_commit(commit_id).files] == ["create"]
    reader = world.sandbox("workspace")
    assert [file.operation for file in reader.staged_commit(commit_id).files] == ["update"]


def test_two_workspaces_may_use_one_commit_id(world: World) -> None:
    one, two = world.sandbox(workspace_id="w1"), world.sandbox(workspace_id="w2")
    one.write("/staged/x/a", "1")
    two.write("/staged/x/b", "2")
    assert [f.repo_path for c in one.staged_commits() for f in c.files] == ["a"]
    assert [f.repo_path for c in two.staged_commits() for f in c.files] == ["b"]


@pytest.mark.parametrize("path", ["vfs.toml", ".git/hooks/pre-commit", ".sandbox/x", "sub/.git/config"])
def test_what_nobody_may_write_cannot_be_written_to_staged_either(world: World, path: str) -> None:
    with pytest.raises(PermissionError):
        world.sandbox().write(f"/staged/c1/{path}", "x")


def test_untrusted_sessions_add_to_their_own_staged_commits_only(world: World) -> None:
    world.sandbox().write("/staged/mine/a", "1")
    stranger = world.sandbox("untrusted")
    with pytest.raises(PermissionError, match="another session's"):
        stranger.write("/staged/mine/b", "2")
    stranger.write("/staged/own/b", "2")


def test_the_own_id_twice_is_the_session_still(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("/session/e", "1")
    own = sandbox.session.id
    assert sandbox.read(f"/session/{own}/{own}/e") == "1"
    entries = sandbox.kernel.log.get_entries(AuditFilter(session_id=own, operation="read"))
    assert [entry.path for entry in entries] == ["/session/e"]


def test_links_in_zones_that_may_not_be_seen_are_not_followed(disk: DiskWorld) -> None:
    (disk.project / "hidden-target").mkdir()
    (disk.project / "lnk").symlink_to("hidden-target")
    sandbox = disk.sandbox("untrusted")
    with pytest.raises(PermissionError) as caught:
        sandbox.delete("/repo/lnk/x")
    assert "hidden-target" not in str(caught.value) + str(caught.value.path)
    assert not any("hidden-target" in (e.path or "") for e in sandbox.kernel.log.get_entries())


def test_nested_sandboxes_do_not_exist_either(world: World) -> None:
    world.put_repo({"sub/.sandbox/state.db": "x"})
    assert not world.sandbox("full").exists("/repo/sub/.sandbox/state.db")


def test_a_memory_sandbox_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with memory_sandbox() as sandbox:
        sandbox.write("x", "1")
        assert os.listdir(tmp_path)
    assert os.listdir(tmp_path) == []
