"""`vfs.doctor` against this machine, and against the same machine with something taken away."""

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vfs.doctor import Check, Face, Probe, examine, require
from vfs.kernel.errors import UnavailableError

ALL = [
    "FUSE device",
    "FUSE 2 library",
    "fusermount",
    "bubblewrap",
    "jail",
    "user namespaces",
    "git",
    "kernel",
    "openat2",
    "/proc",
    "Python",
    "SQLite",
    "Landlock",
    "disk space",
]


def look(probe: Probe, name: str) -> Check:
    return next(check for check in examine(probe) if check.name == name)


def programs(directory: Path, **scripts: str) -> str:
    """Make a directory of programs, each a shell script, and return it as a search path."""
    directory.mkdir(exist_ok=True)
    for name, script in scripts.items():
        program = directory / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return str(directory)


def test_everything_is_looked_at_and_every_lack_says_what_to_do() -> None:
    checks = examine()
    assert [check.name for check in checks] == ALL
    assert all(check.detail for check in checks)
    assert all(check.disables and check.remedy for check in checks if check.status != "ok")


def test_what_runs_this_test_is_found() -> None:
    assert look(Probe(), "Python").status == "ok"
    assert look(Probe(), "SQLite").status == "ok"
    assert look(Probe(), "/proc").status == "ok"


def test_on_a_machine_with_nothing_each_lack_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSE_LIBRARY_PATH", str(tmp_path / "libfuse.so.2"))
    nothing = str(tmp_path / "nothing")
    bare = Probe(
        fuse_device=nothing, proc=nothing, search_path=nothing, storage=nothing, system="Linux", root=False
    )
    missing = {check.name for check in examine(bare) if check.status == "missing"}
    assert missing >= {
        "FUSE device",
        "FUSE 2 library",
        "fusermount",
        "bubblewrap",
        "jail",
        "git",
        "/proc",
        "disk space",
    }


@pytest.mark.parametrize(
    ("manager", "root", "remedy"),
    [
        ("apt_get", False, "sudo apt-get install -y bubblewrap"),
        ("apt_get", True, "apt-get install -y bubblewrap"),
        ("dnf", False, "sudo dnf install -y bubblewrap"),
        ("pacman", True, "pacman -S --needed bubblewrap"),
        ("brew", False, "bubblewrap is for Linux only; without it use `--provider local`"),
    ],
)
def test_the_remedy_is_this_systems_own_command(
    tmp_path: Path, manager: str, root: bool, remedy: str
) -> None:
    path = programs(tmp_path / "bin", **{manager: "exit 1"})
    assert look(Probe(search_path=path, root=root), "bubblewrap").remedy == remedy


def test_the_library_has_another_name_on_another_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSE_LIBRARY_PATH", str(tmp_path / "absent"))
    path = programs(tmp_path / "bin", dnf="exit 1")
    assert look(Probe(search_path=path, root=True), "FUSE 2 library").remedy == "dnf install -y fuse-libs"


def test_without_a_package_manager_the_remedy_is_a_sentence(tmp_path: Path) -> None:
    remedy = look(Probe(search_path=str(tmp_path)), "git").remedy
    assert remedy == "install `git` with your system's package manager"


def test_a_file_that_is_no_library_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impostor = tmp_path / "libfuse.so.2"
    impostor.write_text("not a library")
    monkeypatch.setenv("FUSE_LIBRARY_PATH", str(impostor))
    assert look(Probe(), "FUSE 2 library").status == "missing"


def test_a_device_that_is_closed_to_the_user_is_told_apart_from_a_missing_one(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        # Root opens everything that is a file; a directory is the refusal that it gets too.
        assert "EISDIR" in look(Probe(fuse_device=str(tmp_path)), "FUSE device").detail
        return
    device = tmp_path / "fuse"
    device.touch(mode=0)
    check = look(Probe(fuse_device=str(device)), "FUSE device")
    assert check.detail == f"{device} is closed to this user"
    assert check.remedy == f"sudo chmod 0666 {device}"


def test_a_bubblewrap_that_does_not_start_is_no_jail(tmp_path: Path) -> None:
    path = programs(tmp_path / "bin", bwrap="echo 'No permissions to create new namespace' >&2; exit 1")
    probe = Probe(search_path=path)
    assert look(probe, "bubblewrap").status == "ok"
    jail = look(probe, "jail")
    assert jail.status == "missing"
    assert jail.detail == "bubblewrap does not start: No permissions to create new namespace"


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_the_setting_that_forbids_namespaces_is_named(
    tmp_path: Path, setting: str, value: str, remedy: str
) -> None:
    file = tmp_path / "proc" / "sys" / setting
    file.parent.mkdir(parents=True)
    file.write_text(f"{value}\n")
    path = programs(tmp_path / "bin", bwrap="exit 1", unshare="exit 1")
    probe = Probe(proc=str(tmp_path / "proc"), search_path=path, root=False)
    assert look(probe, "jail").remedy == f"sudo {remedy}"
    assert look(probe, "user namespaces").remedy == f"sudo {remedy}"


def test_an_old_git_is_a_warning(tmp_path: Path) -> None:
    path = programs(tmp_path / "bin", git="echo git version 2.20.1")
    check = look(Probe(search_path=path), "git")
    assert (check.status, check.detail) == ("warn", "2.20.1 is older than 2.31")


def test_a_program_that_cannot_be_started_is_a_lack_and_no_traceback(tmp_path: Path) -> None:
    path = programs(tmp_path / "bin")
    (tmp_path / "bin" / "git").write_bytes(b"\x7fELF broken")
    (tmp_path / "bin" / "git").chmod(0o755)
    assert look(Probe(search_path=path), "git").status == "missing"


def test_an_old_kernel_and_another_system_are_warnings() -> None:
    assert look(Probe(system="Linux", release="4.19.0-27-amd64"), "kernel").status == "warn"
    assert look(Probe(system="Linux", release="6.1.0"), "kernel").status == "ok"
    assert look(Probe(system="Darwin"), "openat2").status == "warn"


def test_openat2_agrees_with_the_kernel_version() -> None:
    number = Probe().openat2()
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if release < (5, 6):
        assert number == errno.ENOSYS
    else:
        assert number in (0, errno.EPERM, errno.ENOSYS)  # a container's filter may refuse it


def test_looking_leaves_no_descriptor_open() -> None:
    examine()
    before = set(os.listdir("/proc/self/fd"))
    examine()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("face", ["mount", "jail", "git"])
def test_a_face_without_what_it_needs_says_so(
    face: Face, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSE_LIBRARY_PATH", str(tmp_path / "absent"))
    bare = Probe(search_path=programs(tmp_path / "bin", apt_get="exit 1"))
    with pytest.raises(UnavailableError, match=f"the {face} needs what this machine lacks: ") as caught:
        require(face, bare)
    assert "apt-get install -y" in (caught.value.hint or "")
    assert caught.value.exit_code == 18


def test_every_lack_of_a_face_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSE_LIBRARY_PATH", str(tmp_path / "absent"))
    bare = Probe(
        fuse_device=str(tmp_path / "fuse"), search_path=programs(tmp_path / "bin", dnf=""), root=True
    )
    with pytest.raises(UnavailableError) as caught:
        require("jail", bare)
    assert all(name in caught.value.message for name in ("FUSE device", "FUSE 2 library", "bubblewrap"))
    assert "dnf install -y fuse-libs; then dnf install -y bubblewrap" in (caught.value.hint or "")


def test_require_starts_no_program(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    path = programs(tmp_path / "bin", git=f"touch {ran}", bwrap=f"touch {ran}", fusermount3=f"touch {ran}")
    require("git", Probe(search_path=path))
    with contextlib.suppress(UnavailableError):  # a machine without a FUSE device refuses, as it should
        require("jail", Probe(search_path=path))
    assert not ran.exists()


def test_require_and_examine_agree_on_this_machine() -> None:
    missing = {check.name for check in examine() if check.status == "missing"}
    if missing & {"FUSE device", "FUSE 2 library", "fusermount"}:
        with pytest.raises(UnavailableError):
            require("mount")
    else:
        require("mount")


@pytest.mark.parametrize(
    "values",
    [
        {"status": "missing", "disables": "", "remedy": "do"},
        {"status": "warn", "disables": "a thing", "remedy": ""},
        {"status": "ok", "disables": "a thing", "remedy": ""},
    ],
)
def test_a_check_that_contradicts_itself_cannot_be_made(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="a lack, and only a lack"):
        Check(name="n", detail="d", **values)  # type: ignore[arg-type]  # the literal comes from a table


def test_the_doctor_stands_alone() -> None:
    """It has to work where dependencies do not: only the standard library and the error tree."""
    script = (
        "import sys, vfs.doctor;"
        "print({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - before)"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; before = {{n.partition('.')[0] for n in sys.modules}}; {script}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "{'vfs'}"
