"""Taking mounts away: one that is used no more, one that is busy, one whose server is dead."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vfs.kernel.errors import FileSystemError, UnavailableError
from vfs.mount.points import FILE_SYSTEM, LINUX, find_mount, is_dead

if TYPE_CHECKING:
    from vfs.kernel.kernel import Kernel

__all__ = ["clear_dead", "is_running", "start_of", "unmount"]

_DETACH = 2
_NO_FOLLOW = 8
_HELPERS = ("fusermount3", "fusermount")
_SHOWN = 3


def unmount(mount_point: str, *, force: bool = False) -> None:
    """Take away what is mounted at `mount_point`; one whose server is dead always goes.

    Raises FileSystemError: EINVAL where nothing of ours is mounted; EBUSY, naming what uses it, unless `force`:
    then it disappears from the tree at once and ends when the last user lets go.
    """
    point = mount_point if _is_mounted(mount_point) else os.path.realpath(mount_point)
    if not _is_mounted(point):
        raise FileSystemError(
            errno.EINVAL, f"no vfs mount at `{mount_point}`", mount_point, hint="`vfs mount` makes one"
        )
    number, said = _detach(point, lazy=force or is_dead(point))
    if number == errno.EBUSY:
        users = list(_users(point))
        who = ", ".join(users[:_SHOWN]) + (" and others" if len(users) > _SHOWN else "")
        raise FileSystemError(
            errno.EBUSY, f"`{mount_point}` is busy" + (f": used by {who}" if who else ""), mount_point,
            hint="end what uses it, or unmount with force",
        )  # fmt: skip
    if number:
        raise FileSystemError(number, f"`{mount_point}` cannot be unmounted: {said}", mount_point)


def clear_dead(kernel: "Kernel") -> tuple[str, ...]:
    """Take away the project's mounts whose server is gone, and return where they were."""
    cleared = []
    for row in kernel.state.query("SELECT mount_point, pid, started FROM mounts"):
        if is_running(row["pid"], row["started"]):
            continue
        point = row["mount_point"]
        if _is_mounted(point) and is_dead(point):
            unmount(point, force=True)
            cleared.append(point)
        with kernel.state.transaction() as database:
            database.execute(
                "DELETE FROM mounts WHERE mount_point = ? AND pid = ? AND started = ?",
                (point, row["pid"], row["started"]),
            )
    return tuple(cleared)


def start_of(pid: int) -> str | None:
    """Return when process `pid` started, in the system's own unit, to tell it from a later one of that number.

    None if there is none; an empty text where the system does not tell.
    """
    if LINUX:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The command, in parentheses, may hold anything.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if fields[0] == b"Z" else fields[19].decode()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""


def is_running(pid: int, started: str) -> bool:
    """Tell whether the process that was `pid` and began at `started` is still there."""
    return start_of(pid) == started


def _is_mounted(point: str) -> bool:
    if not LINUX:
        return os.path.ismount(point)
    found = find_mount(point)
    return found is not None and found.type == FILE_SYSTEM


def _detach(point: str, *, lazy: bool) -> tuple[int, str]:
    """Return 0, or an errno and what was said."""
    if LINUX and os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        flags = (_DETACH if lazy else 0) | _NO_FOLLOW
        if libc.umount2(ctypes.c_char_p(os.fsencode(point)), ctypes.c_int(flags)) == 0:
            return 0, ""
        return ctypes.get_errno(), os.strerror(ctypes.get_errno()).lower()
    command = _command(point, lazy=lazy)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return 0, ""
    said = done.stderr.strip()
    return errno.EBUSY if "busy" in said.lower() else errno.EIO, said or f"exit code {done.returncode}"


def _command(point: str, *, lazy: bool) -> list[str]:
    for helper in _HELPERS:
        if shutil.which(helper):
            return [helper, "-u", *(["-z"] if lazy else []), "--", point]
    if shutil.which("umount"):
        return ["umount", *(["-f" if sys.platform == "darwin" else "-l"] if lazy else []), point]
    raise UnavailableError(
        "neither fusermount3 nor umount is found", hint="`vfs doctor` says how to install them"
    )


def _users(point: str) -> Iterator[str]:
    """Yield the processes that work in `point`, read off links in `/proc` without touching the mount."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in pids:
        if any(link == point or link.startswith(f"{point}/") for link in _links(f"/proc/{pid}")):
            yield f"{_name(pid)} (pid {pid})"


def _links(process: str) -> Iterator[str]:
    places = [f"{process}/cwd", f"{process}/root", f"{process}/exe"]
    for directory in ("fd", "map_files"):
        try:
            places += [f"{process}/{directory}/{name}" for name in os.listdir(f"{process}/{directory}")]
        except OSError:
            continue
    for place in places:
        try:
            yield os.readlink(place)
        except OSError:
            continue


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="backslashreplace") as file:
            return file.read().strip()
    except OSError:
        return "a process"
