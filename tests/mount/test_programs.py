"""Real programs at work on the mount, each ending with a checker of its own."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mount.conftest import Mount, run


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"`{program}` is not installed")


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite_keeps_its_promises_between_two_processes(d: Path, journal: str) -> None:
    code = (
        "import sqlite3,sys\n"
        "db = sqlite3.connect(sys.argv[1], timeout=30)\n"
        "for i in range(20):\n"
        "    with db: db.execute('INSERT INTO t VALUES (?)', (i,))\n"
    )
    database = sqlite3.connect(d / "x.db")
    assert database.execute(f"PRAGMA journal_mode={journal}").fetchone() == (journal,)
    database.execute("CREATE TABLE t (x)")
    database.commit()
    writers = [subprocess.Popen([sys.executable, "-c", code, str(d / "x.db")]) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert database.execute("SELECT count(*), sum(x) FROM t").fetchone() == (40, 380)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_git_clone_commit_rebase_gc_and_fsck(mount: Mount, d: Path) -> None:
    def git(*words: str) -> str:
        return run("git", *words, cwd=d / "clone").stdout

    run("git", "clone", "-q", str(mount.repo), str(d / "clone"))
    git("checkout", "-q", "-b", "topic")
    (d / "clone/topic.txt").write_text("topic\n")
    git("add", "-A")
    git("commit", "-q", "-m", "topic")
    git("checkout", "-q", "main")
    (d / "clone/README.md").write_text("changed\n")
    git("commit", "-q", "-am", "main moved")
    git("rebase", "-q", "main", "topic")
    assert git("log", "--format=%s").splitlines() == ["topic", "main moved", "first"]
    git("gc", "-q", "--aggressive", "--prune=now")
    assert "error" not in git("fsck", "--full", "--strict")
    assert git("status", "--porcelain") == ""


def test_git_finds_the_projects_own_repository_trustworthy(mount: Mount) -> None:
    assert run("git", "status", "--porcelain", cwd=mount.repo).stdout == ""
    assert run("git", "log", "--format=%s", cwd=mount.repo).stdout == "first\n"


def test_git_does_not_read_files_again_that_did_not_change(mount: Mount) -> None:
    run("git", "status", cwd=mount.repo)
    before = len(mount.rows("/repo/src/main.py", "open"))
    run("git", "status", cwd=mount.repo)
    assert len(mount.rows("/repo/src/main.py", "open")) == before


def test_sed_in_place(d: Path) -> None:
    (d / "x").write_text("one two\n")
    run("sed", "-i", "s/two/three/", str(d / "x"))
    assert (d / "x").read_text() == "one three\n"
    assert os.listdir(d) == ["x"]


def tree(base: Path) -> Path:
    """Make a tree with modes, times, links and odd names."""
    (base / "a/b").mkdir(parents=True)
    (base / "a/x").write_text("x\n")
    (base / "a/run").write_text("#!/bin/sh\n")
    (base / "a/run").chmod(0o755)
    (base / "a/b/ü n\n").write_text("odd\n")
    os.link(base / "a/x", base / "a/hard")
    os.symlink("x", base / "a/soft")
    for name in ("a/x", "a/soft", "a/b", "a"):
        os.utime(base / name, ns=(10**18 + 1, 10**18 + 123), follow_symlinks=False)
    return base


def described(base: Path) -> list[tuple[str, int, int, int, int]]:
    found = []
    for path in sorted(base.rglob("*")):
        info = path.lstat()
        size = 0 if path.is_dir() else info.st_size
        found.append((str(path.relative_to(base)), info.st_mode, info.st_mtime_ns, size, info.st_nlink))
    return found


def test_tar_there_and_back_keeps_everything(tmp_path: Path, d: Path) -> None:
    source = tree(tmp_path / "source")
    run("tar", "--format=posix", "-C", str(source), "-cf", str(d / "x.tar"), "a")
    (d / "out").mkdir()
    run("tar", "-C", str(d / "out"), "-xpf", str(d / "x.tar"))
    assert described(d / "out") == described(source)


def test_rsync_keeps_times_and_finds_nothing_to_do_the_second_time(tmp_path: Path, d: Path) -> None:
    needs("rsync")
    source = tree(tmp_path / "source")
    run("rsync", "-aH", f"{source}/", str(d / "copy"))
    assert described(d / "copy") == described(source)
    again = run("rsync", "-aHi", f"{source}/", str(d / "copy")).stdout
    assert again == ""
    assert run("diff", "-r", str(source), str(d / "copy")).stdout == ""


def test_cp_keeps_modes_times_and_links(tmp_path: Path, d: Path) -> None:
    source = tree(tmp_path / "source")
    run("cp", "-a", str(source), str(d / "copy"))
    assert described(d / "copy") == described(source)


def test_a_program_is_compiled_and_run(d: Path) -> None:
    needs("gcc")
    (d / "x.c").write_text("int main(void) { return 42; }\n")
    run("gcc", "-o", str(d / "x"), str(d / "x.c"))
    assert run(str(d / "x"), check=False).returncode == 42


def test_a_python_package_is_imported_and_its_cache_kept(d: Path) -> None:
    (d / "package").mkdir()
    (d / "package/__init__.py").write_text("answer = 42\n")
    command = (
        "env",
        "-u",
        "PYTHONDONTWRITEBYTECODE",
        sys.executable,
        "-c",
        "import package; print(package.answer)",
    )
    for _ in range(2):
        assert run(*command, cwd=d).stdout == "42\n"
    assert list((d / "package/__pycache__").iterdir())
