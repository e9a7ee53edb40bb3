"""The sandbox's own manners: text and bytes, missing parents, links inside a zone, moving and copying."""

import os
import stat

import pytest

from tests.kernel.worlds import DiskWorld, World
from vfs.kernel.audit import AuditFilter
from vfs.kernel.errors import (
    FileExistsError,
    FileSystemError,
    InvalidPathError,
    NotFoundError,
    PermissionError,
    SecurityViolationError,
)
from vfs.kernel.sandbox import Sandbox


def operations(sandbox: Sandbox) -> list[tuple[str, str | None, bool]]:
    entries = sandbox.kernel.log.get_entries(AuditFilter(session_id=sandbox.session.id))
    return [(entry.operation, entry.path, entry.allowed) for entry in entries]


def test_write_makes_missing_directories_and_records_each(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("a/b/c.txt", "x")
    assert sandbox.read("/session/working/a/b/c.txt") == "x"
    assert ("write", "/session/working/a", True) in operations(sandbox)


def test_text_that_is_no_text_is_refused_and_not_guessed(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write_bytes("x.bin", b"\xff\xfe\x00")
    with pytest.raises(FileSystemError, match="not UTF-8 text"):
        sandbox.read("x.bin")
    assert sandbox.read_bytes("x.bin") == b"\xff\xfe\x00"


def test_names_that_are_no_text_are_kept_byte_for_byte(disk: DiskWorld) -> None:
    sandbox = disk.sandbox()
    name = os.fsdecode(b"caf\xe9\n\x1b[31m")
    sandbox.write(name, "x")
    assert sandbox.list("/session/working") == [name]
    directory = disk.project / ".sandbox" / "sessions" / sandbox.session.id / "working"
    assert os.listdir(os.fsencode(directory)) == [b"caf\xe9\n\x1b[31m"]
    assert ("write", f"/session/working/{name}", True) in operations(sandbox)


def test_writing_exclusively_leaves_what_is_there(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("x", "first")
    with pytest.raises(FileExistsError):
        sandbox.write_bytes("x", b"second", exclusive=True)
    assert sandbox.read("x") == "first"


def test_open_reads_writes_appends_and_seeks(world: World) -> None:
    sandbox = world.sandbox()
    with sandbox.open("f", "w") as file:
        file.write("one\ntwo\n")
    with sandbox.open("f", "a") as file:
        file.write("three\n")
    with sandbox.open("f") as file:
        assert list(file) == ["one\n", "two\n", "three\n"]
    with sandbox.open("f", "rb+") as file:
        file.seek(4)
        file.write(b"TWO")
        file.seek(0)
        assert file.read() == b"one\nTWO\nthree\n"
    with pytest.raises(FileExistsError):
        sandbox.open("f", "x")
    with pytest.raises(InvalidPathError, match="not a mode"):
        sandbox.open("f", "rw")


def test_an_open_file_is_one_entry_with_its_bytes(world: World) -> None:
    sandbox = world.sandbox()
    with sandbox.open("f", "wb") as file:
        file.write(b"12345")
        file.write(b"678")
    (entry,) = sandbox.kernel.log.get_entries(AuditFilter(session_id=sandbox.session.id))
    assert (entry.operation, entry.outcome, entry.bytes_written) == ("write", "ok", 8)


def test_delete_takes_files_empty_directories_and_trees_if_asked(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("d/e/f", "x")
    with pytest.raises(FileSystemError, match="not empty"):
        sandbox.delete("d")
    sandbox.delete("d", recursive=True)
    assert not sandbox.exists("d")
    sandbox.make_dir("empty")
    sandbox.delete("empty")
    with pytest.raises(NotFoundError):
        sandbox.delete("empty")


def test_a_zone_cannot_be_removed(world: World) -> None:
    sandbox = world.sandbox("full")
    for zone in ("session", "workspace", "repo", "staged", "workers"):
        with pytest.raises((PermissionError, FileSystemError)):
            sandbox.delete(f"/{zone}")
        assert zone in sandbox.list("/")


def test_stat_tells_what_the_seed_says(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("f", "12345")
    found = sandbox.stat("f")
    assert (found.path, found.zone, found.size, found.is_directory) == (
        "/session/working/f", "session", 5, False,
    )  # fmt: skip
    assert found.created_at <= found.modified_at
    assert sandbox.stat("/session/working").is_directory
    assert not sandbox.exists("f/g")


def test_links_are_followed_inside_their_zone_and_judged_by_where_they_lead(world: World) -> None:
    world.put_repo({"src/main.py": "print()", ".env": "SECRET=1"})
    sandbox = world.sandbox("full")
    sandbox.symlink("src", "/repo/alias")
    sandbox.symlink(".env", "/repo/harmless")
    reader = world.sandbox("workspace")
    assert reader.read("/repo/alias/main.py") == "print()"
    with pytest.raises(NotFoundError):
        reader.read("/repo/harmless")
    assert ("read", "/repo/.env", False) in operations(reader)


def test_a_link_cannot_be_used_to_write_a_protected_file(world: World) -> None:
    world.put_repo({".git/hooks/sample": "", ".git/config": "[core]"})
    sandbox = world.sandbox("full")
    sandbox.symlink(".git/hooks", "/repo/h")
    sandbox.symlink(".git/config", "/repo/c")
    for path in ("/repo/h/pre-commit", "/repo/c"):
        with pytest.raises(PermissionError):
            sandbox.write(path, "#!/bin/sh\n")
    with pytest.raises(PermissionError):
        sandbox.link("/repo/.git/config", "/repo/other-name")
    with pytest.raises(PermissionError):
        sandbox.move("/repo/.git", "/repo/git")
    sandbox.make_dir("/repo/x/hooks", parents=True)
    with pytest.raises(PermissionError):
        sandbox.move("/repo/x", "/repo/sub/.git")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../x", "../../repo/x", "/session/working/x"])
def test_a_link_out_of_the_zone_is_never_made(world: World, target: str) -> None:
    sandbox = world.sandbox()
    with pytest.raises(SecurityViolationError):
        sandbox.symlink(target, "link")
    assert not sandbox.exists("link")
    assert ("security_violation", "/session/working/link", False) in operations(sandbox)


def test_a_link_out_of_the_zone_made_on_the_host_is_followed_by_nobody(disk: DiskWorld) -> None:
    (disk.project / "passwd").symlink_to("/etc/passwd")
    (disk.project / "up").symlink_to("..")
    sandbox = disk.sandbox("full")
    for act in (
        lambda: sandbox.read("/repo/passwd"),
        lambda: sandbox.read("/repo/up/x"),
        lambda: sandbox.write("/repo/passwd", "x"),
        lambda: sandbox.read_link("/repo/passwd"),
    ):
        with pytest.raises(SecurityViolationError):
            act()
    assert stat.S_ISLNK(sandbox.stat("/repo/passwd", follow=False).mode)


def test_links_in_a_circle_end(disk: DiskWorld) -> None:
    sandbox = disk.sandbox()
    sandbox.symlink("b", "a")
    sandbox.symlink("a", "b")
    with pytest.raises(FileSystemError, match="circle"):
        sandbox.read("a")


def test_move_and_copy_within_and_between_zones(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("d/x", "1")
    sandbox.write("d/y/z", "2")
    sandbox.move("d", "e")
    sandbox.copy("e", "/workspace/data/e")
    sandbox.move("/workspace/data/e", "/session/outputs/e")
    assert sandbox.read("/session/outputs/e/y/z") == "2"
    assert sandbox.exists("e/x")
    assert not sandbox.exists("/workspace/data/e")
    sandbox.write("n", "old")
    with pytest.raises(FileExistsError):
        sandbox.move("e/x", "n", overwrite=False)
    with pytest.raises(InvalidPathError, match="into itself"):
        sandbox.copy("e", "e/inner")


def test_resolve_zone_and_validity(world: World) -> None:
    sandbox = world.sandbox()
    assert sandbox.resolve("a", "../b", "c") == "/session/working/b/c"
    assert sandbox.resolve("a", "/repo", "x") == "/repo/x"
    assert sandbox.get_zone("/staged/c/x") == "staged"
    with pytest.raises(InvalidPathError):
        sandbox.get_zone("/")
    assert sandbox.is_valid_path("/repo/x")
    assert not sandbox.is_valid_path("/etc/passwd")
    assert not sandbox.is_valid_path("/session/ses_aaaaaaaaaaaaaaaa/x")
    assert sandbox.create_session_dir("scratch") == "/session/working/scratch"
    assert sandbox.session_path == "/session/working"


def test_check_permission_says_why_and_assert_permission_records(world: World) -> None:
    sandbox = world.sandbox()
    check = sandbox.check_permission("write", "/repo/x")
    assert (check.allowed, check.reason, check.zone, check.trust_level) == (
        False, "write not permitted in repo zone", "repo", "session",
    )  # fmt: skip
    assert operations(sandbox) == []
    with pytest.raises(PermissionError, match="write not permitted in repo zone"):
        sandbox.assert_permission("write", "/repo/x")
    assert operations(sandbox) == [("write", "/repo/x", False)]


@pytest.mark.parametrize("path", ["", "/..", "/repo/a\0b", "/etc/x", "/repo/" + "x" * 256])
def test_a_bad_path_is_a_clear_error_a_row_and_no_change(world: World, path: str) -> None:
    sandbox = world.sandbox("full")
    for act in (sandbox.read, sandbox.list, sandbox.delete, lambda p: sandbox.write(p, "x")):
        with pytest.raises(InvalidPathError):
            act(path)
    rows = operations(sandbox)
    assert len(rows) >= 4
    assert not any(allowed for _, _, allowed in rows)


def test_hidden_paths_are_not_listed_not_found_and_cannot_be_made(world: World) -> None:
    world.put_repo({".env": "S", "a.txt": "A", "deploy/key.pem": "K"})
    sandbox = world.sandbox("workspace")
    assert [n for n in sandbox.list("/repo") if n in (".env", "a.txt")] == ["a.txt"]
    assert sandbox.list("/repo/deploy") == []
    with pytest.raises(NotFoundError):
        sandbox.read("/repo/.env")
    assert not sandbox.exists("/repo/.env")
    assert sandbox.check_permission("read", "/repo/.env").reason == "file or directory not found"
    full = world.sandbox("full")
    assert full.read("/repo/.env") == "S"
    with pytest.raises(PermissionError):
        full.write("/repo/.sandbox/x", "x")
    assert ".sandbox" not in full.list("/repo")


def test_workers_are_found_in_order_and_read_only_below_full(
    disk: DiskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = disk.project / ".workers", disk.project.parent / "shared-workers"
    for place, text in ((own, "own"), (shared, "shared")):
        place.mkdir()
        (place / "both.worker").write_text(text)
    (shared / "more.worker").write_text("more")
    monkeypatch.setenv("VFS_WORKERS_PATH", str(shared))
    sandbox = disk.sandbox("untrusted")
    assert sandbox.list("/workers") == ["both.worker", "more.worker"]
    assert sandbox.read("/workers/both.worker") == "own"
    with pytest.raises(PermissionError):
        sandbox.write("/workers/x", "x")


def test_a_zone_root_that_vanished_is_named_and_not_made_again(disk: DiskWorld) -> None:
    import shutil

    from vfs.kernel.errors import SandboxError

    sandbox = disk.sandbox()
    root = disk.project / ".sandbox" / "sessions" / sandbox.session.id
    shutil.rmtree(root)
    with pytest.raises(SandboxError):
        sandbox.write("x", "1")
    assert not root.exists()
