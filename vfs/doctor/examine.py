"""The checks, and which of them each face cannot do without."""

import errno
import platform
import re
import sqlite3
import sys
from collections.abc import Callable
from typing import Literal

from vfs.doctor.check import Check
from vfs.doctor.packages import install_command
from vfs.doctor.probe import Probe
from vfs.kernel.errors import UnavailableError

Face = Literal["mount", "jail", "git"]
"""What may be needed: the directory, the confinement of `vfs exec`, commits on a branch."""

_MOUNT = "`vfs mount` and `vfs exec`"
_JAIL = "`vfs exec` with isolation (`--provider local` works)"

_OPENAT2_SINCE = (5, 6)
_GIT_SINCE = (2, 31)  # GIT_CONFIG_COUNT, so that no configuration file has to be written
_SQLITE_SINCE = (3, 31)  # generated columns
_PYTHON_SINCE = (3, 11)
_LITTLE_SPACE = 256 * 1024 * 1024


def _version(text: str) -> tuple[int, ...]:
    """Return the first dotted number in `text`, as numbers; empty if there is none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _install(probe: Probe, package: str) -> str:
    return install_command(package, probe.which, root=probe.root)


def _sudo(probe: Probe) -> str:
    return "" if probe.root else "sudo "


def _fuse_device(probe: Probe) -> Check:
    name = "FUSE device"
    number = 0 if probe.system == "Darwin" else probe.open_fuse_device()
    if number == 0:
        return Check(name, "ok", f"{probe.fuse_device} can be opened")
    if number in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        detail = f"{probe.fuse_device} is not there"
        remedy = f"{_sudo(probe)}modprobe fuse (in a container: start it with `--device /dev/fuse`)"
    elif number == errno.EACCES:
        detail = f"{probe.fuse_device} is closed to this user"
        remedy = f"{_sudo(probe)}chmod 0666 {probe.fuse_device}"
    else:
        detail = f"{probe.fuse_device} cannot be opened: {errno.errorcode.get(number, number)}"
        remedy = "in a container: start it with `--device /dev/fuse --cap-add SYS_ADMIN`"
    return Check(name, "missing", detail, _MOUNT, remedy)


def _fuse_library(probe: Probe) -> Check:
    name = "FUSE 2 library"
    library = probe.fuse_library()
    if library:
        return Check(name, "ok", library)
    detail = "libfuse 2 cannot be loaded (libfuse 3 is no substitute)"
    return Check(name, "missing", detail, _MOUNT, _install(probe, "libfuse2"))


def _fusermount(probe: Probe) -> Check:
    name = "fusermount"
    program = probe.which("fusermount3") or probe.which("fusermount")
    if program or probe.system == "Darwin":
        return Check(name, "ok", program or "not needed on macOS")
    remedy = _install(probe, "fuse3")
    if probe.root:
        return Check(name, "warn", "not found; root mounts without it", "mounting by ordinary users", remedy)
    return Check(name, "missing", "neither fusermount3 nor fusermount is found", _MOUNT, remedy)


def _bubblewrap(probe: Probe) -> Check:
    name = "bubblewrap"
    program = probe.which("bwrap")
    if program:
        return Check(name, "ok", program)
    return Check(name, "missing", "`bwrap` is not found", _JAIL, _install(probe, "bubblewrap"))


def _jail_start(probe: Probe) -> Check:
    name = "jail"
    program = probe.which("bwrap")
    if not program:
        return Check(name, "missing", "nothing to start it with", _JAIL, _install(probe, "bubblewrap"))
    command = (program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "true")
    code, output = probe.run(*command)
    if code == 0:
        return Check(name, "ok", "bubblewrap starts a program in namespaces of its own")
    said = output.splitlines()[0] if output else f"it ended with exit code {code}"
    return Check(name, "missing", f"bubblewrap does not start: {said}", _JAIL, _namespace_remedy(probe))


def _namespace_remedy(probe: Probe) -> str:
    if probe.read_proc("sys/user/max_user_namespaces") == "0":
        return f"{_sudo(probe)}sysctl user.max_user_namespaces=15000"
    if probe.read_proc("sys/kernel/unprivileged_userns_clone") == "0":
        return f"{_sudo(probe)}sysctl kernel.unprivileged_userns_clone=1"
    if probe.read_proc("sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return f"{_sudo(probe)}sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    return "in a container: start it with `--privileged`, or with `--security-opt seccomp=unconfined`"


def _user_namespaces(probe: Probe) -> Check:
    name = "user namespaces"
    unshare = probe.which("unshare")
    if not unshare:
        return Check(name, "ok", "not tried: `unshare` is not found; the jail tells")
    code, output = probe.run(unshare, "--user", "--map-root-user", "true")
    if code == 0:
        return Check(name, "ok", "can be made")
    detail = f"cannot be made: {output.splitlines()[0] if output else 'refused'}"
    remedy = _namespace_remedy(probe)
    if probe.root:
        return Check(name, "warn", f"{detail}; root does without", "the jail of ordinary users", remedy)
    return Check(name, "missing", detail, _JAIL, remedy)


def _git(probe: Probe) -> Check:
    name = "git"
    program = probe.which("git")
    if not program:
        return Check(name, "missing", "not found", "commits of staged files", _install(probe, "git"))
    code, output = probe.run(program, "--version")
    if code != 0:
        detail = f"`git --version` fails: {output}"
        return Check(name, "missing", detail, "commits of staged files", _install(probe, "git"))
    version = _version(output)
    if version < _GIT_SINCE:
        detail = f"{_dotted(version)} is older than {_dotted(_GIT_SINCE)}"
        return Check(name, "warn", detail, "some of the commits of staged files", _install(probe, "git"))
    return Check(name, "ok", _dotted(version))


def _kernel(probe: Probe) -> Check:
    name = "kernel"
    detail = f"{probe.system} {probe.release}"
    if probe.system != "Linux":
        return Check(name, "warn", detail, _JAIL, "use Linux for isolation")
    if _version(probe.release) < _OPENAT2_SINCE:
        slower = "path resolution in one call (a slower walk takes its place)"
        return Check(name, "warn", detail, slower, f"use Linux {_dotted(_OPENAT2_SINCE)} or later")
    return Check(name, "ok", detail)


def _openat2(probe: Probe) -> Check:
    name = "openat2"
    number = probe.openat2()
    if number == 0:
        return Check(name, "ok", "the kernel itself keeps paths beneath their zone")
    detail = f"refused: {errno.errorcode.get(number, number)}; a walk by component keeps paths in their zone"
    old = number == errno.ENOSYS and _version(probe.release) < _OPENAT2_SINCE
    remedy = (
        f"use Linux {_dotted(_OPENAT2_SINCE)} or later"
        if old
        else "allow the system call `openat2` in the container's seccomp profile"
    )
    return Check(name, "warn", detail, "path resolution in one call", remedy)


def _proc(probe: Probe) -> Check:
    name = "/proc"
    if probe.system != "Linux":
        return Check(name, "ok", f"not needed on {probe.system}")
    if probe.read_proc("self/comm") is not None:
        return Check(name, "ok", "mounted")
    disables = "the names of callers on the audit log, and the jail"
    return Check(
        name, "missing", f"{probe.proc} is not mounted", disables, f"{_sudo(probe)}mount -t proc proc /proc"
    )


def _python(_probe: Probe) -> Check:
    detail = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < _PYTHON_SINCE:
        return Check("Python", "missing", detail, "everything", f"use Python >= {_dotted(_PYTHON_SINCE)}")
    return Check("Python", "ok", detail)


def _sqlite(_probe: Probe) -> Check:
    if sqlite3.sqlite_version_info < _SQLITE_SINCE:
        remedy = f"use a Python that is built with SQLite >= {_dotted(_SQLITE_SINCE)}"
        return Check("SQLite", "missing", sqlite3.sqlite_version, "the audit log, thus everything", remedy)
    return Check("SQLite", "ok", sqlite3.sqlite_version)


def _landlock(probe: Probe) -> Check:
    version = probe.landlock()
    return Check("Landlock", "ok", f"ABI {version}" if version else "not offered; nothing needs it")


def _disk(probe: Probe) -> Check:
    name = "disk space"
    free = probe.free_bytes()
    if free is None:
        remedy = "make the directory, or name another"
        return Check(name, "missing", f"`{probe.storage}` cannot be read", "every zone there", remedy)
    detail = f"{free / 1024**3:.1f} GiB free"
    if free < _LITTLE_SPACE:
        disables = "soon every access: one that cannot be recorded is refused"
        return Check(name, "warn", detail, disables, "vfs gc, or remove other files")
    return Check(name, "ok", detail)


_CHECKS: tuple[Callable[[Probe], Check], ...] = (
    _fuse_device,
    _fuse_library,
    _fusermount,
    _bubblewrap,
    _jail_start,
    _user_namespaces,
    _git,
    _kernel,
    _openat2,
    _proc,
    _python,
    _sqlite,
    _landlock,
    _disk,
)


def _git_there(probe: Probe) -> Check:
    """Look no further than the name: for `require`, which must start no program."""
    program = probe.which("git")
    return Check("git", "ok", program) if program else _git(probe)


_MOUNT_NEEDS = (_fuse_device, _fuse_library, _fusermount)
_NEEDS: dict[str, tuple[Callable[[Probe], Check], ...]] = {
    "mount": _MOUNT_NEEDS,
    "jail": (*_MOUNT_NEEDS, _bubblewrap, _proc),
    "git": (_git_there,),
}


def examine(probe: Probe | None = None) -> list[Check]:
    """Look at everything and return the checks in the order to show them.

    Starts three short programs (bwrap, unshare, git), each for at most ten seconds. Raises nothing: what
    cannot be found out is a lack.
    """
    looking = probe or Probe()
    return [check(looking) for check in _CHECKS]


def require(face: Face, probe: Probe | None = None) -> None:
    """Return if this machine has what `face` needs; starts no program, so it is cheap.

    Raises `UnavailableError` whose message names every lack and whose hint is what mends them.
    That bubblewrap is there does not say that it starts; `examine` tries.
    """
    looking = probe or Probe()
    lacks = [lack for check in _NEEDS[face] if (lack := check(looking)).status == "missing"]
    if lacks:
        told = "; ".join(f"{lack.name}: {lack.detail}" for lack in lacks)
        hint = "; then ".join(dict.fromkeys(lack.remedy for lack in lacks))
        raise UnavailableError(f"the {face} needs what this machine lacks: {told}", hint=hint)
