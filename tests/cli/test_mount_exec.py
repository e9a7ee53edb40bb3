"""`vfs mount`, `vfs umount` and `vfs exec`: the installed command, on real mounts."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Vfs, rows
from vfs.doctor import require
from vfs.kernel.errors import UnavailableError
from vfs.mount import unmount


def _lacking(face: str) -> str:
    try:
        require(face)  # type: ignore[arg-type]  # one of the faces, below
    except UnavailableError as error:
        return error.message
    return ""


needs_mount = pytest.mark.skipif(bool(_lacking("mount")), reason=_lacking("mount") or "-")
needs_jail = pytest.mark.skipif(bool(_lacking("jail")), reason=_lacking("jail") or "-")


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    """Return an empty directory, with nothing mounted there afterwards."""
    directory = tmp_path / "point"
    directory.mkdir()
    yield directory
    if _is_mounted(directory):
        unmount(str(directory), force=True)


def _is_mounted(directory: Path) -> bool:
    return f" {directory} " in Path("/proc/self/mounts").read_text()


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process is about to do; fail after ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@needs_mount
def test_mount_returns_once_it_answers_and_umount_ends_it(vfs: Vfs, point: Path) -> None:
    done = vfs.real("mount", str(point), "--trust", "workspace")
    session = done.out.split()[1]
    assert done.out == f"session {session} (workspace) is at {point}\nend it:  vfs umount {point}\n"
    assert (point / "repo" / "README.md").read_text() == "hello\n"
    (point / "session" / "working" / "x").write_text("from the mount")
    with pytest.raises(PermissionError):
        (point / "repo" / "new").write_text("x")
    assert vfs.real("umount", str(point)).out == f"{point} is unmounted\n"
    assert not _is_mounted(point)
    assert vfs("cat", "x", "--session", session).out == "from the mount"
    assert any(row["face"] == "fuse" and not row["allowed"] for row in rows(vfs, "--session", session))


@needs_mount
def test_mount_as_json_and_of_a_session_that_there_is(vfs: Vfs, point: Path, session: str) -> None:
    told = vfs("mount", str(point), "--session", session, "--json").json
    assert told["mount_point"] == str(point)
    assert (told["session_id"], told["trust_level"]) == (session, "session")
    os.kill(told["pid"], 0)
    assert vfs("umount", str(point), "--json").json == {"mount_point": str(point), "unmounted": True}
    until(lambda: not Path(f"/proc/{told['pid']}").exists())


@needs_mount
def test_a_zone_may_be_elsewhere(vfs: Vfs, point: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    vfs("mount", str(point), "--zone", f"repo=osfs://{elsewhere}", "--trust", "full")
    (point / "repo" / "here").write_text("x")
    vfs("umount", str(point))
    assert (elsewhere / "here").read_text() == "x"
    done = vfs("mount", str(point), "--zone", "attic=mem://", code=2)
    assert "`attic=mem://` is not NAME=URL" in done.err
    assert "gopher" in vfs("mount", str(point), "--zone", "repo=gopher://x", code=17).err


@needs_mount
def test_demotion_reaches_a_live_mount(vfs: Vfs, point: Path) -> None:
    session = vfs("mount", str(point), "--trust", "workspace", "--json").json["session_id"]
    assert (point / "repo" / "README.md").read_text() == "hello\n"
    vfs("session", "demote", session, "--to", "session", "--reason", "enough")
    with pytest.raises(PermissionError):
        (point / "repo" / "README.md").read_text()
    vfs("umount", str(point))


@needs_mount
def test_the_foreground_ends_with_ctrl_c(vfs: Vfs, point: Path) -> None:
    process = vfs.start("mount", str(point), "--foreground")
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        assert process.stdout.readline().startswith(b"session ")
        assert (point / "session").is_dir()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == b""
    assert not _is_mounted(point)


@needs_mount
def test_a_dead_mount_is_cleared(vfs: Vfs, point: Path) -> None:
    pid = vfs("mount", str(point), "--json").json["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())
    vfs("umount", str(point))
    assert not _is_mounted(point)


@needs_mount
def test_a_busy_mount_is_named_with_what_uses_it_and_goes_by_force(vfs: Vfs, point: Path) -> None:
    vfs("mount", str(point))
    with (point / "session" / "working" / "open").open("w"):
        done = vfs("umount", str(point), code=3)
        assert "is busy" in done.err
        assert f"(pid {os.getpid()})" in done.err
        vfs("umount", "--force", str(point))
    assert not _is_mounted(point)


@needs_mount
@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("nowhere", "ENOENT", "does not exist"),
        ("file", "ENOTDIR", "is not a directory"),
        ("full", "ENOTEMPTY", "is not empty"),
    ],
)
def test_a_mount_point_that_is_none(vfs: Vfs, tmp_path: Path, name: str, error: str, told: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    done = vfs("mount", str(tmp_path / name), "--json", code=3)
    assert done.error["code"] == error
    assert told in done.error["message"]
    assert done.error["hint"]
    assert vfs("session", "list", "--json").json == [], "the session that was started for it has ended"


def test_umount_of_what_is_no_mount(bare: Vfs, tmp_path: Path) -> None:
    done = bare("umount", str(tmp_path), code=3)
    assert done.err.splitlines() == [f"vfs: no vfs mount at `{tmp_path}`", "hint: `vfs mount` makes one"]


@needs_jail
def test_exec_passes_streams_and_exit_code_and_tells_what_happened(bare: Vfs) -> None:
    script = "cat; echo told >&2; echo x > /workspace/data/made; echo y > /repo/no; exit 7"
    done = bare.real("exec", "--trust", "workspace", "--", "sh", "-c", script, stdin=b"given", code=7)
    assert done.out == "given"
    assert "told\n" in done.err
    assert "ended with exit code 7" in done.err
    assert "data/made" in done.err
    assert "write not permitted in repo zone" in done.err
    assert (bare.directory / ".sandbox/data/made").read_text() == "x\n"
    assert not (bare.directory / "no").exists()
    assert str(bare.directory / ".sandbox") not in Path("/proc/self/mounts").read_text()


@needs_jail
def test_exec_writes_the_summary_for_programs(vfs: Vfs, tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    done = vfs("exec", "--session", "mine", "--json", "--summary-json", str(file), "--", "true")
    told = json.loads(done.err)
    assert told == json.loads(file.read_text())
    assert (told["session_id"], told["exit_code"], told["argv"]) == ("mine", 0, ["true"])
    assert vfs("exec", "--quiet", "--session", "mine", "--", "echo", "hi").err == ""


@needs_jail
def test_exec_gives_what_the_options_say(vfs: Vfs) -> None:
    script = 'echo "$ONE $TWO" "${THREE-none}"; pwd; ls /opt-read'
    directory = vfs.directory.parent / "read"
    directory.mkdir()
    (directory / "seen").write_text("")
    arguments = (
        "--env",
        "ONE=1",
        "--env",
        "TWO",
        "--ro",
        str(directory),
        "--cwd",
        "/session/outputs",
        "--quiet",
    )
    done = vfs(
        "exec", *arguments, "--", "sh", "-c", script.replace("/opt-read", str(directory)), TWO="2", THREE="3"
    )
    assert done.out.splitlines() == ["1 2 none", "/session/outputs", "seen"]


@needs_jail
def test_options_after_the_command_are_the_command_s(vfs: Vfs) -> None:
    assert vfs("exec", "--quiet", "--", "echo", "--json", "--help").out == "--json --help\n"
    assert vfs("exec", "--quiet", "echo", "--trust").out == "--trust\n"


@needs_jail
def test_a_command_that_there_is_not(vfs: Vfs) -> None:
    done = vfs("exec", "--", "no-such-program", code=127)
    assert done.err.splitlines()[0] == "vfs: command not found: `no-such-program`"
    assert vfs("exec", "--json", "--", "no-such-program", code=127).error["code"] == "COMMAND_NOT_FOUND"
    (vfs.directory / "plain").write_text("echo x\n")
    vfs("exec", "--trust", "workspace", "--", "/repo/plain", code=126)


@needs_jail
def test_a_command_that_takes_too_long(vfs: Vfs) -> None:
    done = vfs("exec", "--timeout", "0.3", "--", "sleep", "60", code=124)
    assert "took too long and was ended" in done.err


@needs_mount
def test_exec_without_jail(vfs: Vfs) -> None:
    done = vfs("exec", "--provider", "local", "--", "cat", "../../repo/README.md", code=None)
    assert "local: not isolated" in done.err
    assert "bubblewrap, local" in vfs("exec", "--provider", "chroot", "--", "true", code=17).err


def test_exec_needs_a_command(vfs: Vfs) -> None:
    assert "missing argument" in vfs("exec", code=2).err
    assert vfs("exec", "--json", code=2).error["code"] == "USAGE"
