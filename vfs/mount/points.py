"""Mount points: what is mounted where, and where a mount may be made."""

import errno
import os
import sys
from pathlib import Path
from typing import NamedTuple

from vfs.kernel.errors import ConfigError, FileSystemError

__all__ = ["FILE_SYSTEM", "LINUX", "Mounted", "check_mount_point", "find_mount", "is_dead", "mounts"]

FILE_SYSTEM = "fuse.vfs"
"""The type under which our mounts are listed."""

LINUX = sys.platform == "linux"
_MOUNTINFO = "/proc/self/mountinfo"
_DEAD = (errno.ENOTCONN, errno.ECONNABORTED)
_IN_ZONES = frozenset({"cache", "data", "sessions", "staged", "workspaces"})
_HINT = "make an empty directory outside the project, for example with `mktemp -d`, and mount there"


class Mounted(NamedTuple):
    """One mount as the operating system lists it; `device` is major:minor."""

    point: str
    device: str
    type: str


def mounts() -> list[Mounted]:
    """Return what is mounted, the later over the earlier; empty where the system does not list it in `/proc`."""
    try:
        with open(_MOUNTINFO, "rb") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        fields = line.split(b" ")
        kind = fields[fields.index(b"-", 6) + 1]
        # Space, tab, newline and backslash come as octal escapes.
        found.append(Mounted(os.fsdecode(_unescape(fields[4])), fields[2].decode(), kind.decode()))
    return found


def find_mount(point: str) -> Mounted | None:
    """Return what is mounted at `point`, on top if several are; None if nothing is."""
    return next((mounted for mounted in reversed(mounts()) if mounted.point == point), None)


def is_dead(point: str) -> bool:
    """Tell whether the server of what is mounted at `point` is gone."""
    try:
        os.statvfs(point)  # unlike stat, this is always asked of the server
    except OSError as error:
        return error.errno in _DEAD
    return False


def check_mount_point(point: str, project: Path) -> str:
    """Return the real path of `point` if a mount of `project` may be made there.

    Raises ConfigError (a place that cannot work) or FileSystemError (not there, not empty, taken), each with
    its own reason.
    """
    real = os.path.realpath(point)
    parent = _mount_around(real)
    if parent is not None and parent.point != real:
        raise ConfigError(f"`{point}` lies inside another vfs mount, at `{parent.point}`", hint=_HINT)
    if LINUX and find_mount(real) is not None:
        raise FileSystemError(
            errno.EBUSY, f"something is already mounted at `{point}`", point,
            hint=f"`vfs umount {point}` takes it away",
        )  # fmt: skip
    _check_directory(point, real)
    _check_outside(point, Path(real), project)
    return real


def _mount_around(real: str) -> Mounted | None:
    """Return our mount that holds `real`; found by name, because a dead one cannot be looked at."""
    around = (
        mounted
        for mounted in mounts()
        if mounted.type == FILE_SYSTEM and f"{real}/".startswith(f"{mounted.point}/")
    )
    return next(around, None)


def _check_directory(point: str, real: str) -> None:
    try:
        names = os.listdir(real)
    except FileNotFoundError:
        raise FileSystemError(
            errno.ENOENT, f"the mount point `{point}` does not exist", point, hint=f"mkdir -p {point}"
        ) from None
    except NotADirectoryError:
        raise FileSystemError(
            errno.ENOTDIR, f"the mount point `{point}` is not a directory", point, hint=_HINT
        ) from None
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise FileSystemError(
            error.errno or errno.EIO, f"the mount point `{point}`: {reason}", point, hint=_HINT
        ) from error
    if names:
        raise FileSystemError(errno.ENOTEMPTY, f"the mount point `{point}` is not empty", point, hint=_HINT)


def _check_outside(point: str, real: Path, project: Path) -> None:
    """Refuse what a zone shows: looking at the mount would then wait for itself."""
    project = Path(os.path.realpath(project))
    zones = [project]
    zones += [
        Path(os.path.realpath(p)) for p in os.environ.get("VFS_WORKERS_PATH", "").split(os.pathsep) if p
    ]
    for zone in zones:
        if not real.is_relative_to(zone):
            continue
        names = real.relative_to(zone).parts
        if zone == project and names[:1] == (".sandbox",) and (len(names) > 1 and names[1] not in _IN_ZONES):
            continue
        raise ConfigError(
            f"`{point}` lies inside the files that the mount shows, in `{zone}`: it would contain itself",
            hint=_HINT,
        )


def _unescape(field: bytes) -> bytes:
    if b"\\" not in field:
        return field
    first, *rest = field.split(b"\\")
    return first + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in rest)
