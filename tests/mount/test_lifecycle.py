"""How a mount begins and ends: where it may be, and that nothing stays behind however it ends."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount.conftest import Mount, clear, eventually
from vfs.kernel.errors import ConfigError, FileSystemError, SessionError
from vfs.kernel.kernel import Kernel
from vfs.mount import MountServer, clear_dead, unmount
from vfs.mount.points import find_mount


def rows(kernel: Kernel) -> list[str]:
    return [row["mount_point"] for row in kernel.state.query("SELECT mount_point FROM mounts")]


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_mount_is_registered_while_it_is_served(mounted: Callable[..., Mount]) -> None:
    mount = mounted()
    assert rows(mount.kernel) == [str(mount.root)]
    mount.server.close()
    assert rows(mount.kernel) == []
    assert find_mount(str(mount.root)) is None
    mount.server.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(mounted: Callable[..., Mount], number: signal.Signals) -> None:
    mount = mounted()
    (mount.data / "x").write_text("x")
    os.kill(mount.server.pid, number)
    assert mount.server._process.wait(5) == 0
    assert os.listdir(mount.root) == []
    assert rows(mount.kernel) == []


def test_a_signal_ends_it_though_programs_use_it_and_what_they_did_is_recorded(
    mounted: Callable[..., Mount],
) -> None:
    mount = mounted()
    fd = os.open(mount.data / "x", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(fd, b"12345")
        os.kill(mount.server.pid, signal.SIGTERM)
        assert mount.server._process.wait(5) == 0
        assert os.listdir(mount.root) == []
        row = mount.rows("/workspace/data/x")[-1]
        assert (row.outcome, row.bytes_written) == ("ok", 5)
        with pytest.raises(OSError, match="not connected"):
            os.write(fd, b"6")
    finally:
        with contextlib.suppress(OSError):  # the mount is gone, and says so
            os.close(fd)


def test_it_ends_though_a_jail_still_holds_the_mount(mounted: Callable[..., Mount]) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("`bwrap` is not installed")
    mount = mounted()
    held = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--die-with-parent", "--chdir", str(mount.data)]
    with subprocess.Popen([*held, "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE) as jail:
        try:
            assert jail.stdout is not None
            assert jail.stdout.readline() == b"\n"
            mount.server.close()
            assert mount.server._process.returncode == 0
            assert find_mount(str(mount.root)) is None
            assert rows(mount.kernel) == []
        finally:
            jail.kill()


def test_unmounting_ends_the_server(mounted: Callable[..., Mount]) -> None:
    mount = mounted()
    (mount.data / "x").write_text("x")
    unmount(str(mount.root))
    assert mount.server._process.wait(5) == 0
    assert rows(mount.kernel) == []


def test_unmounting_while_busy_says_who_and_by_force_goes(mounted: Callable[..., Mount]) -> None:
    mount = mounted()
    with subprocess.Popen(["sleep", "60"], cwd=mount.data) as user:
        try:
            with pytest.raises(FileSystemError, match=rf"busy: used by .*sleep \(pid {user.pid}\)") as caught:
                unmount(str(mount.root))
            assert caught.value.errno == errno.EBUSY
            assert os.listdir(mount.data) == []
            unmount(str(mount.root), force=True)
            assert os.listdir(mount.root) == []
        finally:
            user.kill()
    assert mount.server._process.wait(5) == 0


def test_after_a_kill_the_dead_mount_is_unmounted_and_mounted_again(
    mounted: Callable[..., Mount], mount_point: Path
) -> None:
    mount = mounted()
    (mount.data / "x").write_text("kept")
    os.kill(mount.server.pid, signal.SIGKILL)
    mount.server._process.wait()
    with pytest.raises(OSError, match="not connected"):
        os.listdir(mount_point)
    unmount(str(mount_point))
    assert os.listdir(mount_point) == []
    again = mounted(session=mount.session)
    assert (again.data / "x").read_text() == "kept"


def test_after_a_kill_the_next_mount_clears_the_dead_one_by_itself(mounted: Callable[..., Mount]) -> None:
    mount = mounted()
    os.kill(mount.server.pid, signal.SIGKILL)
    mount.server._process.wait()
    again = mounted(session=mount.session)
    assert "workspace" in os.listdir(again.root)


def test_dead_mounts_are_cleared_and_living_ones_left(mounted: Callable[..., Mount], tmp_path: Path) -> None:
    dead = mounted()
    second = tmp_path / "second"
    second.mkdir()
    try:
        alive = mounted(point=second)
        os.kill(dead.server.pid, signal.SIGKILL)
        dead.server._process.wait()
        assert clear_dead(dead.kernel) == (str(dead.root),)
        assert os.listdir(dead.root) == []
        assert "workspace" in os.listdir(alive.root)
        assert rows(alive.kernel) == [str(second)]
        alive.server.close()
    finally:
        clear(second)


def test_it_ends_when_its_parent_dies(project: Path, kernel: Kernel, mount_point: Path) -> None:
    session = kernel.start()
    code = (
        "import os, sys\n"
        "from vfs.mount import MountServer\n"
        "server = MountServer.start(*sys.argv[1:])\n"
        "print(server.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code, str(project), session.id, str(mount_point)],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert parent.returncode == -9
    assert eventually(lambda: find_mount(str(mount_point)) is None)
    assert eventually(lambda: ended(int(parent.stdout)))
    assert rows(kernel) == []


def test_two_mounts_of_one_project_see_the_same_files(mounted: Callable[..., Mount], tmp_path: Path) -> None:
    point = tmp_path / "second"
    point.mkdir()
    try:
        one, two = mounted(), mounted(point=point)
        (one.data / "x").write_text("from one")
        assert (two.data / "x").read_text() == "from one"
        two.server.close()
        assert (one.data / "x").read_text() == "from one"
    finally:
        clear(point)


def test_a_write_that_a_kill_cut_off_is_recorded_as_interrupted(mounted: Callable[..., Mount]) -> None:
    mount = mounted()
    fd = os.open(mount.data / "x", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"x")
    os.kill(mount.server.pid, signal.SIGKILL)
    mount.server._process.wait()
    with contextlib.suppress(OSError):
        os.close(fd)
    unmount(str(mount.root), force=True)
    assert [row.outcome for row in mount.rows("/workspace/data/x")] == ["interrupted"]


# Mount points


def start(project: Path, kernel: Kernel, point: Path) -> None:
    session = kernel.start()
    try:
        MountServer.start(project, session.id, point).close()
    finally:
        clear(point) if point.is_dir() else None


def test_a_mount_point_that_does_not_exist(project: Path, kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(FileSystemError, match="does not exist") as caught:
        start(project, kernel, tmp_path / "missing")
    assert caught.value.errno == errno.ENOENT


def test_a_mount_point_that_is_a_file(project: Path, kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileSystemError, match="not a directory"):
        start(project, kernel, tmp_path / "file")


def test_a_mount_point_that_is_not_empty(project: Path, kernel: Kernel, mount_point: Path) -> None:
    (mount_point / "x").touch()
    with pytest.raises(FileSystemError, match="not empty"):
        start(project, kernel, mount_point)


def test_a_mount_point_that_is_taken(mounted: Callable[..., Mount]) -> None:
    mount = mounted()
    session = mount.kernel.start()
    with pytest.raises(FileSystemError, match="already mounted") as caught:
        MountServer.start(mount.project, session.id, mount.root)
    assert caught.value.hint == f"`vfs umount {mount.root}` takes it away"


def test_a_mount_point_inside_another_mount(mounted: Callable[..., Mount]) -> None:
    mount = mounted()
    (mount.data / "inner").mkdir()
    session = mount.kernel.start()
    with pytest.raises(ConfigError, match="inside another vfs mount"):
        MountServer.start(mount.project, session.id, mount.data / "inner")


@pytest.mark.parametrize("place", ["mnt", ".sandbox/data/mnt", ".sandbox", ".sandbox/sessions/mnt"])
def test_a_mount_point_that_the_mount_would_show(project: Path, kernel: Kernel, place: str) -> None:
    point = project / place
    point.mkdir(parents=True, exist_ok=True)
    with pytest.raises((ConfigError, FileSystemError)) as caught:
        start(project, kernel, point)
    assert "contain itself" in caught.value.message or "not empty" in caught.value.message


def test_a_mount_point_in_the_sandboxs_own_directory_is_fine(project: Path, kernel: Kernel) -> None:
    point = project / ".sandbox/mounts/one"
    point.mkdir(parents=True)
    start(project, kernel, point)


def test_a_mount_point_with_odd_characters(project: Path, kernel: Kernel, tmp_path: Path) -> None:
    point = tmp_path / "odd ü\\\tname, with=option"
    point.mkdir()
    session = kernel.start()
    try:
        with MountServer.start(project, session.id, point):
            assert "workspace" in os.listdir(point)
        assert os.listdir(point) == []
    finally:
        clear(point)


def test_a_session_that_does_not_exist(project: Path, kernel: Kernel, mount_point: Path) -> None:
    with pytest.raises(SessionError, match="no session `missing`"):
        MountServer.start(project, "missing", mount_point)


def test_unmounting_what_is_not_mounted(tmp_path: Path) -> None:
    with pytest.raises(FileSystemError, match="no vfs mount at"):
        unmount(str(tmp_path))
