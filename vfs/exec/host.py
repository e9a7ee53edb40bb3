"""What of the host a jail shows, and what of that it must not.

Looked at once per command, apart from the arguments that are made of it, so that those can be tested on a
host that is not this one.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SYSTEM", "Host"]

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc")
"""The directories that programs need to run at all; where `/usr` is merged, most are links into it."""

_CONFIGURATION = ("/etc", "/usr/local/etc")
_FOR_ALL_TO_READ = stat.S_IROTH
_FOR_ALL_TO_ENTER = stat.S_IROTH | stat.S_IXOTH


@dataclass(frozen=True, slots=True)
class Host:
    """Facts about this machine that the jail's arguments depend on.

    `directories` are shown read-only; `links` are (path, target) shown as links. `secret_files` and
    `secret_directories` lie in what is shown and are not for everyone to read: root's and the owner's eyes
    are in the jail too, so they are covered. `kernel_settings` are the entries of `/proc` that root could
    write to without any capability; a jail has them read-only. `resolver` is where `/etc/resolv.conf` leads.
    `options` are those that this bubblewrap has; `user_namespaces` tells whether they can be made.
    """

    directories: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    secret_files: tuple[str, ...] = ()
    secret_directories: tuple[str, ...] = ()
    kernel_settings: tuple[str, ...] = ()
    resolver: str | None = None
    options: frozenset[str] = frozenset()
    user_namespaces: bool = True

    @classmethod
    def examine(cls, options: frozenset[str]) -> "Host":
        """Look at this machine; takes some milliseconds."""
        present = [path for path in SYSTEM if os.path.lexists(path)]
        files, directories = _secrets(_CONFIGURATION)
        return cls(
            directories=tuple(path for path in present if not os.path.islink(path)),
            links=tuple((path, os.readlink(path)) for path in present if os.path.islink(path)),
            secret_files=files,
            secret_directories=directories,
            kernel_settings=tuple(_kernel_settings()),
            resolver=_resolver(),
            options=options,
            user_namespaces=_user_namespaces(),
        )

    def shows(self, path: str) -> bool:
        """Tell whether a real path of the host lies in what is shown."""
        return any(is_within(path, directory) for directory in self.directories)


def is_within(path: str, directory: str) -> bool:
    """Tell whether `path` is `directory` or lies below it; both normal and absolute."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def _secrets(roots: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    files: list[str] = []
    directories: list[str] = []
    waiting = [root for root in roots if os.path.isdir(root)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:  # what this user cannot list, the jail cannot either
            continue
        for entry in entries:
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:
                continue
            if stat.S_ISDIR(mode):
                readable = mode & _FOR_ALL_TO_ENTER == _FOR_ALL_TO_ENTER
                (waiting if readable else directories).append(entry.path)
            elif not stat.S_ISLNK(mode) and not mode & _FOR_ALL_TO_READ:
                files.append(entry.path)
    return tuple(sorted(files)), tuple(sorted(directories))


def _kernel_settings() -> Iterator[str]:
    """Yield what in `/proc` is no process: the kernel asks the uid there, not for capabilities.

    `/proc/sys/kernel/core_pattern` alone would run a program on the host.
    """
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode) or mode & 0o222:
            yield entry.path


def _resolver() -> str | None:
    path = os.path.realpath("/etc/resolv.conf")
    return path if os.path.isfile(path) else None


def _user_namespaces() -> bool:
    try:
        return Path("/proc/sys/user/max_user_namespaces").read_text().strip() != "0"
    except OSError:
        return False
