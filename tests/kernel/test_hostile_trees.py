"""Trees that one session built to resist, and what everybody else still can do."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vfs
from tests.kernel.worlds import DiskWorld, World
from vfs.kernel.audit import AuditFilter
from vfs.kernel.errors import FileSystemError
from vfs.kernel.ports import Backend, DirEntry
from vfs.kernel.quota import measure
from vfs.kernel.staging import Staging
from vfs.kernel.trees import remove_tree, walk
from vfs.project import open_project
from vfs_backends.memory import MemoryBackend
from vfs_backends.osfs import OsBackend

NOBODY = 65534
NAME = "d" * 200


def staged_zone(sandbox: vfs.Sandbox) -> Backend:
    return sandbox.kernel.storage.backend(vfs.Zone.STAGED, sandbox.session.workspace_id, "")


def bury(tree: Any, top: str, *, levels: int = 40) -> None:
    """Make the directory `top` and, 200 bytes a level, a file, a link and a FIFO further down than paths reach.

    No path gets there from `top`, so the tree is made from below: each directory is moved into a new chain.
    """
    aside = f"{top}-aside"
    tree.make_dir(aside)
    tree.write_bytes(f"{aside}/file", b"deep")
    tree.symlink("file", f"{aside}/link")
    tree.make_node(f"{aside}/pipe", stat.S_IFIFO | 0o600)
    for _ in range(levels // 10):
        tree.make_dir(top)
        path = top
        for _ in range(10):
            path = f"{path}/{NAME}"
            tree.make_dir(path)
        tree.write_bytes(f"{path}/on-the-way", b"")
        tree.rename(aside, f"{path}/{NAME}")
        tree.rename(top, aside)
    tree.rename(aside, top)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[OsBackend]:
    (tmp_path / "storage").mkdir()
    backend = OsBackend(tmp_path / "storage")
    yield backend
    remove_tree(backend, "")
    backend.close()


def let_nobody_in(directory: Path) -> None:
    """Give a directory to the user without rights, and let them come to it."""
    if os.getuid() == 0:
        os.chown(directory, NOBODY, NOBODY)
        for parent in directory.parents:
            if parent.name.startswith(("pytest-", "popen-", "test_")):
                parent.chmod(0o711)


AS_NOBODY = """
import os, stat, sys
import vfs
from vfs.kernel.quota import measure
from vfs.kernel.trees import remove_tree, walk
from vfs.project import memory_sandbox, open_project
from vfs_backends.osfs import OsBackend

if os.getuid() == 0:
    # What is imported on first use may lie where only root may read it: use all of it once before.
    with memory_sandbox() as sandbox:
        sandbox.stage([{"repo_path": "a", "content": "1"}])
        sandbox.kernel.collect()
        sandbox.kernel.log.get_entries()
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.umask(0o022)
"""


def as_nobody(script: str, *arguments: object) -> list[str]:
    """Run Python without the rights of root, which no permission bits stop; return the lines it printed."""
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# Trees


def test_a_tree_deeper_than_any_path_is_removed(storage: OsBackend) -> None:
    bury(storage, "deep")
    storage.write_bytes("beside", b"")
    with pytest.raises(OSError, match="too long"):
        list(walk(storage, "deep"))
    remove_tree(storage, "deep")
    assert [entry.name for entry in storage.scan("")] == ["beside"]


def test_the_content_of_a_root_deeper_than_any_path_is_removed(storage: OsBackend) -> None:
    bury(storage, "deep")
    remove_tree(storage, "")
    assert storage.scan("") == []


def test_a_session_removes_its_own_tree_deeper_than_any_path(world: World) -> None:
    sandbox = world.sandbox()
    bury(sandbox.files, "/session/working/deep")
    sandbox.delete("deep", recursive=True)
    assert sandbox.list("/session/working") == []


def test_a_tree_that_cannot_be_made_flat_is_named(storage: OsBackend) -> None:
    # The top itself lies so deep that nothing in it can be moved to where a path reaches.
    bury(storage, "deep")
    top = "deep" + f"/{NAME}" * 10
    while len(top) < 4000:
        below = [entry.name for entry in storage.scan(top) if stat.S_ISDIR(entry.type)]
        top = f"{top}/{below[0]}"
    with pytest.raises(OSError, match="too long") as caught:
        remove_tree(storage, top)
    assert top in str(caught.value.filename)


class Unmovable(OsBackend):
    """Storage that cannot rename directories."""

    def rename(self, source: str, target: str, flag: Any = None) -> None:
        raise OSError(errno.ENOTSUP, "not supported", source)


def test_storage_that_cannot_rename_says_what_is_too_deep(storage: OsBackend, tmp_path: Path) -> None:
    bury(storage, "deep")
    unmovable = Unmovable(tmp_path / "storage")
    with pytest.raises(FileSystemError, match="too deep to be removed, and cannot be moved up") as caught:
        remove_tree(unmovable, "deep")
    unmovable.close()
    assert caught.value.path is not None
    assert caught.value.path.startswith("deep/ddd")
    assert caught.value.code == "ENOTSUP"


def test_a_missing_tree_is_not_found_and_a_vanished_part_is_fine() -> None:
    with pytest.raises(FileNotFoundError):
        remove_tree(MemoryBackend(), "nothing")
    tree = Vanishing()
    tree.make_dir("top")
    for name in ("gone", "here"):
        tree.write_bytes(f"top/{name}", b"")
    remove_tree(tree, "top")
    assert tree.scan("") == []


def test_links_are_removed_and_not_followed(storage: OsBackend, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").touch()
    storage.make_dir("top")
    storage.symlink("../../outside", "top/link")
    remove_tree(storage, "top")
    assert (tmp_path / "outside/precious").exists()


def test_directories_without_permissions_are_removed(tmp_path: Path) -> None:
    let_nobody_in(tmp_path)
    script = """
os.chdir(sys.argv[1])
for mode in (0, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600):
    os.makedirs(f"storage/top/{mode:o}/below/last")
    open(f"storage/top/{mode:o}/file", "w").close()
    for name in ("below/last", "below", "."):
        os.chmod(f"storage/top/{mode:o}/{name}", mode)
os.chmod("storage/top", 0)
tree = OsBackend("storage")
told = []
list(walk(tree, "top", failed=lambda path, error: told.append(path)))
remove_tree(tree, "top")
print(told, os.listdir("storage"))
"""
    assert as_nobody(script, tmp_path) == ["['top'] []"]


def test_deep_directories_without_permissions_are_removed(tmp_path: Path) -> None:
    let_nobody_in(tmp_path)
    script = """
os.chdir(sys.argv[1])
os.mkdir("storage")
tree = OsBackend("storage")
name = "d" * 200
for _ in range(3):
    path = "top"
    tree.make_dir(path)
    for _ in range(15):
        path += f"/{name}"
        tree.make_dir(path)
    if tree.scan("")[1:]:
        tree.set_mode("aside", 0o700)
        tree.rename("aside", f"{path}/{name}")
        tree.set_mode(f"{path}/{name}", 0o500)
    while path != "top":
        tree.set_mode(path, 0o500)
        path = path.rpartition("/")[0]
    tree.rename("top", "aside")
remove_tree(tree, "")
print(os.listdir("storage"))
"""
    assert as_nobody(script, tmp_path) == ["[]"]


# Staged commits


def test_what_is_no_file_is_left_out_of_a_staged_commit_and_told(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("/staged/odd/fine", "1")
    staged = staged_zone(sandbox)
    staged.make_node("odd/pipe", stat.S_IFIFO | 0o600)
    staged.make_node("odd/sock\x1b[31m", stat.S_IFSOCK | 0o600)
    staged.symlink("fine", "odd/link")
    (commit,) = sandbox.staged_commits()
    assert [file.repo_path for file in commit.files] == ["fine", "link"]
    assert commit.problems == (
        "`/staged/odd/pipe` is left out: a FIFO cannot be committed",
        "`/staged/odd/sock\\x1b[31m` is left out: a socket cannot be committed",
    )
    assert sandbox.staged_commit("odd") == commit


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_what_is_no_directory_in_place_of_a_staged_commit_stops_nobody(world: World, kind: str) -> None:
    sandbox = world.sandbox()
    good = sandbox.stage([{"repo_path": "a", "content": "1"}])
    kernel, staged = sandbox.kernel, staged_zone(sandbox)
    kernel.staging().adopt("odd", sandbox.session.id)
    if kind == "file":
        staged.write_bytes("odd", b"")
    elif kind == "link":
        staged.symlink(good, "odd")
    else:
        staged.make_node("odd", stat.S_IFIFO | 0o600)
    first, odd = sandbox.staged_commits()
    assert (first.id, [file.repo_path for file in first.files], first.problems) == (good, ["a"], ())
    assert odd.files == ()
    (problem,) = odd.problems
    assert problem.startswith("`/staged/odd` is left out: ")
    kernel.staging().remove_files("odd")
    assert [entry.name for entry in staged.scan("")] == [good]


def test_a_staged_commit_deeper_than_any_path_is_listed_and_collected(disk: DiskWorld) -> None:
    sandbox = disk.sandbox()
    good = sandbox.stage([{"repo_path": "a", "content": "1"}])
    sandbox.kernel.staging().adopt("odd", sandbox.session.id)
    bury(staged_zone(sandbox), "odd")
    first, odd = sandbox.staged_commits()
    assert (first.id, first.problems) == (good, ())
    assert [problem.rpartition(": ")[2] for problem in odd.problems] == ["file name too long"]
    sandbox.kernel.state.query("UPDATE staged_commits SET status = 'rejected' WHERE id = 'odd'")
    found = sandbox.kernel.collect()
    assert (found.staged, found.failed) == (("odd",), ())
    assert sandbox.list("/staged") == [good]


class Vanishing(MemoryBackend):
    """Storage in which somebody removes the files called `gone` as soon as they were listed."""

    def scan(self, path: str) -> list[DirEntry]:
        found = super().scan(path)
        for entry in found:
            if entry.name == "gone":
                self.remove(f"{path}/gone")
        return found


def test_a_staged_file_that_vanishes_meanwhile_is_not_among_the_files(world: World) -> None:
    kernel = world.sandbox().kernel
    staged = Vanishing()
    staged.make_dir("c1")
    for name in ("gone", "here"):
        staged.write_bytes(f"c1/{name}", b"1")
    staging = Staging(kernel.state, kernel.generation, "other", staged, MemoryBackend())
    staging.adopt("c1", "somebody")
    commit = staging.commit("c1")
    assert ([file.repo_path for file in commit.files], commit.problems) == (["here"], ())


def test_staged_files_without_permission_are_told_and_stop_nobody(tmp_path: Path) -> None:
    let_nobody_in(tmp_path)
    script = """
home = os.environ["VFS_HOME"] = sys.argv[1] + "/home"
with open_project(sys.argv[1]) as kernel:
    sandbox = vfs.Sandbox(kernel, kernel.start(session_id="s"))
    for path in ("odd/fine", "odd/shut/a", "odd/closed"):
        sandbox.write(f"/staged/{path}", "1")
    sandbox.write("/staged/good/a", "1")
    place = sys.argv[1] + "/.sandbox/staged"
    os.chmod(place + "/odd/shut", 0)
    os.chmod(place + "/odd/closed", 0)
    for commit in kernel.staging().commits():
        print(commit.id, [file.repo_path for file in commit.files])
        print(*commit.problems, sep="\\n", end="\\n" if commit.problems else "")
    os.chmod(place + "/odd", 0)
    print(*kernel.staging().commit("odd").problems)
    kernel.state.query("UPDATE staged_commits SET status = 'rejected'")
    found = kernel.collect()
    print(sorted(found.staged), found.failed, os.listdir(place))
"""
    assert as_nobody(script, tmp_path) == [
        "odd ['fine']",
        "`/staged/odd/closed` is left out: permission denied",
        "`/staged/odd/shut` is left out: permission denied",
        "good ['a']",
        "`/staged/odd` is left out: permission denied",
        "['good', 'odd'] () []",
    ]


# Collecting


def gc_rows(kernel: vfs.Kernel) -> list[tuple[str | None, str | None]]:
    return [(row.path, row.outcome) for row in kernel.log.get_entries(AuditFilter()) if row.action == "gc"]


def test_one_session_that_cannot_be_removed_does_not_stop_the_others(tmp_path: Path) -> None:
    with open_project(tmp_path) as kernel:
        for name in ("a-odd", "b-good"):
            vfs.Sandbox(kernel, kernel.start(session_id=name)).write("x", "1")
            kernel.end(name)
    # A session's directory that is none: it can be neither opened nor emptied.
    place = tmp_path / ".sandbox/sessions/a-odd"
    place.rename(tmp_path / "moved")
    place.touch()
    with open_project(tmp_path) as kernel:
        found = kernel.collect()
        assert (found.sessions, found.staged) == (("b-good",), ())
        (failure,) = found.failed
        assert failure.startswith("`/session/a-odd` stays: ")
        assert str(place) in failure
        assert [session.id for session in kernel.sessions.list()] == ["a-odd"]
        assert not (tmp_path / ".sandbox/sessions/b-good").exists()
        assert sorted(gc_rows(kernel)) == [("/session/a-odd", "FILE_EXISTS"), ("/session/b-good", "ok")]
        place.unlink()
        found = kernel.collect()
        assert (found.sessions, found.failed) == (("a-odd",), ())
        assert kernel.log.verify().ok


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make what its owner cannot remove")
def test_files_of_another_user_stay_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    let_nobody_in(tmp_path)
    script = """
os.environ["VFS_HOME"] = sys.argv[1] + "/home"
with open_project(sys.argv[1]) as kernel:
    if sys.argv[2] == "make":
        for name in ("a", "b"):
            sandbox = vfs.Sandbox(kernel, kernel.start(session_id=name))
            sandbox.write(f"/staged/{name}/x/y", "1")
            sandbox.write("x/y", "1")
            kernel.end(name)
        kernel.state.query("UPDATE staged_commits SET status = 'committed'")
    else:
        found = kernel.collect()
        print(found.sessions, found.staged)
        print(*found.failed, sep="\\n")
        print([one.id for one in kernel.sessions.list()], [one.id for one in kernel.staging().commits()])
        rows = [(row.path, row.outcome) for row in kernel.log.get_entries() if row.action == "gc"]
        for path, outcome in sorted(rows):
            print(path, outcome)
"""
    as_nobody(script, tmp_path, "make")
    for place in ("sessions/a/working/x", "staged/a/x"):
        os.chown(tmp_path / ".sandbox" / place, 0, 0)
    assert as_nobody(script, tmp_path, "collect") == [
        "('b',) ('b',)",
        "`/session/a` stays: permission denied: `working/x/y`",
        "`/staged/a` stays: permission denied: `a/x/y`",
        "['a'] ['a']",
        "/session/a PERMISSION_DENIED",
        "/session/b ok",
        "/staged/a PERMISSION_DENIED",
        "/staged/b ok",
    ]


def test_an_interrupted_collection_is_recorded_as_one(tmp_path: Path) -> None:
    with open_project(tmp_path) as kernel:
        kernel.end(kernel.start(session_id="s").id)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        kernel.storage.discard = interrupt  # type: ignore[assignment]  # stands for Ctrl-C at that moment
        with pytest.raises(KeyboardInterrupt):
            kernel.collect()
        assert gc_rows(kernel) == [("/session/s", "KeyboardInterrupt")]
        assert kernel.sessions.exists("s")


def test_a_session_deeper_than_any_path_is_collected(disk: DiskWorld) -> None:
    sandbox = disk.sandbox(session_id="s")
    bury(sandbox.files, "/session/working/deep")
    sandbox.kernel.end("s")
    found = sandbox.kernel.collect()
    assert (found.sessions, found.failed) == (("s",), ())
    assert list((disk.project / ".sandbox/sessions").iterdir()) == []


# Quota


def test_what_is_too_deep_counts_nothing_and_link_texts_count(storage: OsBackend) -> None:
    bury(storage, "deep")
    assert measure(storage) == 0
    storage.write_bytes("file", b"12345")
    storage.link("file", "again")
    storage.symlink("x" * 100, "link")
    assert measure(storage) == 105


def test_link_texts_count_in_memory_too() -> None:
    tree = MemoryBackend()
    tree.symlink("x" * 100, "link")
    assert measure(tree) == 100


def test_what_may_not_be_entered_counts_nothing(tmp_path: Path) -> None:
    let_nobody_in(tmp_path)
    script = """
os.chdir(sys.argv[1])
os.makedirs("storage/shut")
for name in ("shut/file", "file"):
    with open(f"storage/{name}", "w") as file:
        file.write("12345")
tree = OsBackend("storage")
print(measure(tree))
os.chmod("storage/shut", 0)
print(measure(tree))
os.chmod("storage/shut", 0o400)
print(measure(tree))
os.chmod("storage", 0)
print(measure(tree))
"""
    assert as_nobody(script, tmp_path) == ["10", "5", "5", "0"]


def test_storage_that_is_gone_is_no_empty_storage(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    tree = OsBackend(tmp_path / "storage")
    (tmp_path / "storage").rmdir()
    with pytest.raises(OSError, match="has been removed") as caught:
        measure(tree)
    tree.close()
    assert caught.value.errno == errno.ESTALE
