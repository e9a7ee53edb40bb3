"""The trust matrix, the audit rows and live changes of trust, as programs on the mount see them."""

import errno
import mmap
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mount.conftest import Mount, eventually, run
from vfs.kernel.trust import TrustLevel

OLD = {
    "session": "session/working/old",
    "workspace": "workspace/data/old",
    "repo": "repo/README.md",
    "staged": "staged/c1/old",
    "workers": "workers/tool",
}

# What seed 001's table grants: read, write, delete, list.
GRANTED = {
    "untrusted": {"session": "rwdl", "workspace": "", "repo": "", "staged": "", "workers": "rl"},
    "session": {"session": "rwdl", "workspace": "rwdl", "repo": "", "staged": "rwdl", "workers": "rl"},
    "workspace": {"session": "rwdl", "workspace": "rwdl", "repo": "rl", "staged": "rwdl", "workers": "rl"},
    "full": {"session": "rwdl", "workspace": "rwdl", "repo": "rwdl", "staged": "rwdl", "workers": "rwdl"},
}


def number(act: Callable[[], object]) -> int:
    """Return the errno with which `act` fails, 0 if it does not."""
    try:
        act()
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.mark.parametrize("zone", OLD)
@pytest.mark.parametrize("level", GRANTED)
def test_the_matrix_holds_on_the_mount(
    mounted: Callable[..., Mount], project: Path, level: str, zone: str
) -> None:
    for directory in (".workers", ".sandbox/data", ".sandbox/staged/c1"):
        (project / directory).mkdir(parents=True, exist_ok=True)
    (project / ".workers/tool").write_text("tool")
    (project / ".sandbox/data/old").write_text("old")
    (project / ".sandbox/staged/c1/old").write_text("old")
    mount = mounted(level)
    (project / ".sandbox/sessions" / mount.session.id / "working/old").write_text("old")
    old = mount.root / OLD[zone]
    got = {
        "r": number(old.read_bytes),
        "l": number(lambda: os.listdir(old.parent)),
        "w": number(lambda: os.close(os.open(old, os.O_WRONLY))),
        "d": number(lambda: os.unlink(old)),
    }
    assert got == {right: 0 if right in GRANTED[level][zone] else errno.EACCES for right in got}


def test_the_untrusted_may_add_a_staged_file_and_write_it_until_it_is_closed(
    mounted: Callable[..., Mount],
) -> None:
    mount = mounted("untrusted")
    new = mount.root / "staged/c1/new"
    new.parent.mkdir()
    with new.open("wb") as file:
        file.write(b"one ")
        file.flush()
        assert os.fstat(file.fileno()).st_size == 4
        file.write(b"two")
    assert number(lambda: os.open(new, os.O_WRONLY)) == errno.EACCES
    assert number(lambda: os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)) == errno.EACCES
    assert number(new.read_bytes) == errno.EACCES
    assert number(new.unlink) == errno.EACCES
    assert (mount.project / ".sandbox/staged/c1/new").read_bytes() == b"one two"


def test_what_a_rule_hides_is_not_there(mounted: Callable[..., Mount]) -> None:
    mount = mounted("workspace")
    assert ".env" not in os.listdir(mount.repo)
    assert number((mount.repo / ".env").read_bytes) == errno.ENOENT
    assert not (mount.repo / ".env").exists()
    hits = mount.rows("/repo/.env")
    assert len(hits) >= 2
    assert not any(hit.allowed for hit in hits)


def test_each_try_for_what_is_hidden_is_on_the_log(mounted: Callable[..., Mount]) -> None:
    mount = mounted("workspace")
    for _ in range(3):
        assert not (mount.repo / ".env").exists()
    assert len(mount.rows("/repo/.env")) == 3


def test_the_sandboxs_own_directory_is_not_there_at_any_level(mounted: Callable[..., Mount]) -> None:
    mount = mounted("full")
    assert ".sandbox" not in os.listdir(mount.repo)
    assert number(lambda: os.listdir(mount.repo / ".sandbox")) == errno.ENOENT


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".git/config"])
def test_what_would_run_on_the_host_is_not_written(mounted: Callable[..., Mount], path: str) -> None:
    mount = mounted("full")
    assert number(lambda: (mount.repo / path).write_text("evil")) == errno.EACCES


def test_another_sessions_directory_is_a_violation(mounted: Callable[..., Mount], mount: Mount) -> None:
    mine = mounted("full")
    theirs = mine.kernel.start(trust_level=TrustLevel.FULL)
    assert number(lambda: os.listdir(mine.root / "session" / theirs.id)) == errno.EACCES
    assert mine.rows(f"/session/{theirs.id}")[-1].operation == "security_violation"
    assert os.listdir(mine.root / "session" / mine.session.id) == os.listdir(mine.root / "session")


def test_access_says_what_the_session_may_do(mounted: Callable[..., Mount]) -> None:
    mount = mounted("workspace")
    assert os.access(mount.repo / "README.md", os.R_OK)
    assert not os.access(mount.repo / "README.md", os.W_OK)
    assert not os.access(mount.repo, os.W_OK)
    assert os.access(mount.data, os.W_OK)


# Rows


def test_a_read_is_recorded_with_its_process_and_bytes(mount: Mount) -> None:
    with subprocess.Popen(["cat", str(mount.repo / "README.md")], stdout=subprocess.PIPE) as reader:
        assert reader.communicate()[0] == b"a small project\n"
    row = mount.settled("/repo/README.md", "open")
    assert (row.operation, row.outcome, row.command, row.pid) == ("read", "ok", "cat", reader.pid)
    assert (row.uid, row.session_id, row.bytes_read) == (os.getuid(), mount.session.id, 16)


def test_a_write_is_recorded_at_open_first_write_and_close(mount: Mount, d: Path) -> None:
    path = f"/workspace/data/{d.name}/x"
    fd = os.open(d / "x", os.O_WRONLY | os.O_CREAT)
    opened = mount.rows(path)[-1]
    assert (opened.operation, opened.action, opened.outcome, opened.first_write) == (
        "write", "create", "pending", None,
    )  # fmt: skip
    os.write(fd, b"12345")
    assert mount.rows(path)[-1].first_write is not None
    os.write(fd, b"678")
    os.close(fd)
    assert mount.settled(path, "create").bytes_written == 8


def test_a_command_is_named_as_what_it_is_after_exec(mount: Mount) -> None:
    run("sh", "-c", f"ls {mount.repo} > /dev/null; exec head -c 1 {mount.repo}/src/main.py")
    assert mount.settled("/repo/src/main.py", "open").command == "head"


def test_a_refusal_names_the_rule_and_the_command(mounted: Callable[..., Mount]) -> None:
    mount = mounted("session")
    run("touch", str(mount.repo / "x"), check=False)
    row = mount.rows("/repo/x")[-1]
    assert (row.allowed, row.rule, row.command) == (False, "matrix", "touch")


def test_removing_renaming_and_linking_are_rows_of_their_own(mount: Mount, d: Path) -> None:
    (d / "a").touch()
    os.link(d / "a", d / "b")
    os.rename(d / "b", d / "c")
    os.unlink(d / "c")
    actions = [row.action for row in mount.rows(f"/workspace/data/{d.name}/*")]
    assert actions == ["create", "link", "rename", "rename", "unlink"]


# Live changes


@contextmanager
def holder(code: str, path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A program that says a line when ready, and its verdict when it got one of ours."""
    program = f"import errno, mmap, os, sys\npath = sys.argv[1]\n{code}"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_demotion_cuts_an_open_descriptor_within_a_second(mounted: Callable[..., Mount]) -> None:
    mount = mounted("workspace")
    readme = mount.repo / "README.md"
    with readme.open("rb", buffering=0) as file:
        assert file.read(4) == b"a sm"
        file.seek(0)
        mount.kernel.demote(mount.session.id, TrustLevel.SESSION, who="test", reason="test")
        began = time.monotonic()
        assert eventually(lambda: number(lambda: os.pread(file.fileno(), 4, 0)) == errno.EACCES, 2)
        assert time.monotonic() - began < 1
    assert number(readme.read_bytes) == errno.EACCES
    assert number(lambda: os.listdir(mount.repo)) == errno.EACCES


def test_demotion_cuts_a_mapping_within_a_second(mounted: Callable[..., Mount]) -> None:
    mount = mounted("workspace")
    code = (
        "file = open(path, 'rb')\n"
        "mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "assert mapping[0:4] == b'a sm'\n"
        "print('ready', flush=True)\n"
        "while True: mapping[0:4]\n"
    )
    with holder(code, mount.repo / "README.md") as process:
        mount.kernel.demote(mount.session.id, TrustLevel.SESSION, who="test", reason="test")
        assert process.wait(1) == -7  # SIGBUS


def test_demotion_stops_a_writer_at_once(mounted: Callable[..., Mount]) -> None:
    mount = mounted("workspace")
    fd = os.open(mount.data / "x", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(fd, b"before")
        mount.kernel.demote(mount.session.id, TrustLevel.UNTRUSTED, who="test", reason="test")
        assert number(lambda: os.write(fd, b"after")) == errno.EACCES
    finally:
        os.close(fd)
    assert (mount.project / ".sandbox/data/x").read_bytes() == b"before"


def test_promotion_opens_what_was_closed(mounted: Callable[..., Mount]) -> None:
    mount = mounted("session")
    assert number((mount.repo / "README.md").read_bytes) == errno.EACCES
    token = mount.kernel.promotions.issue(
        mount.session.id, TrustLevel.WORKSPACE, who="test", reason="test", seconds=60
    )
    mount.kernel.promote(mount.session.id, token)
    assert (mount.repo / "README.md").read_text() == "a small project\n"


def test_ending_the_session_ends_what_it_may(mounted: Callable[..., Mount]) -> None:
    mount = mounted("full")
    assert os.listdir(mount.data) == []
    mount.kernel.end(mount.session.id)
    assert number(lambda: os.listdir(mount.data)) == errno.EACCES
    assert number(lambda: (mount.data / "x").write_text("x")) == errno.EACCES


def test_what_other_sessions_do_leaves_cached_pages_alone(mount: Mount, d: Path) -> None:
    (d / "x").write_bytes(b"x" * 8192)
    with (d / "x").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        assert mapping[0:1] == b"x"
        mount.kernel.start()  # changes the generation that all processes share
        select.select([], [], [], 0.3)
        assert mapping[0:1] == b"x"
