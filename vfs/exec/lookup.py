"""Whether there is such a program where a command will run: asked before, to say what is wrong and what helps.

The answer only makes messages: what is executed is looked up again where it runs.
"""

import os
import stat
from abc import ABC, abstractmethod

from vfs.exec.errors import CommandNotExecutableError, CommandNotFoundError
from vfs.kernel.paths import printable

__all__ = ["View", "find_program", "missing_interpreter"]

_MAX_LINKS = 40


class View(ABC):
    """The file tree as a command sees it; `path` is its PATH."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def on_host(self, path: str) -> str | None:
        """Return where a path of the command's, normal and with no link on the way, is on the host."""

    @abstractmethod
    def hint(self, program: str) -> str | None:
        """Say what would make `program` available, if that is known."""

    def find(self, path: str) -> str | None:
        """Return where `path` is on the host once links are followed as the command would; None if nowhere.

        Raises OSError for what cannot be looked at.
        """
        names, done, hops = path.split("/"), "", 0
        while names:
            name = names.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                done = done.rpartition("/")[0]
                continue
            host = self.on_host(f"{done}/{name}")
            if host is None:
                return None
            try:
                mode = os.lstat(host).st_mode
            except (FileNotFoundError, NotADirectoryError):
                return None
            if not stat.S_ISLNK(mode):
                done = f"{done}/{name}"
                continue
            hops += 1
            if hops > _MAX_LINKS:
                return None
            target = os.readlink(host)
            if target.startswith("/"):
                done = ""
            names = [*target.split("/"), *names]
        return self.on_host(done or "/")


def find_program(name: str, cwd: str, view: View) -> str:
    """Return where on the host the program is that `name` means to a command in `cwd`.

    Raises CommandNotFoundError, with where the host has one if it does, and CommandNotExecutableError.
    """
    refused = None
    for candidate in _candidates(name, cwd, view):
        try:
            host = view.find(candidate)
            mode = os.stat(host).st_mode if host is not None else None
        except PermissionError:
            refused = refused or f"`{printable(candidate)}` may not be read at this trust level"
            continue
        except OSError:
            continue
        if host is None or mode is None:
            continue
        if stat.S_ISREG(mode) and mode & 0o111:
            return host
        refused = refused or _why_not(candidate, mode)
    if refused is not None:
        raise CommandNotExecutableError(f"`{printable(name)}` cannot be executed: {refused}")
    raise CommandNotFoundError(f"command not found: `{printable(name)}`", hint=view.hint(name))


def missing_interpreter(name: str, cwd: str, view: View) -> str | None:
    """Return the interpreter that a script asks for in its first line, if the command's tree has none there."""
    try:
        with open(find_program(name, cwd, view), "rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    words = os.fsdecode(line[2:]).split()
    if not line.startswith(b"#!") or not words or view.find(words[0]) is not None:
        return None
    return words[0]


def _candidates(name: str, cwd: str, view: View) -> list[str]:
    if "/" in name:
        return [os.path.join(cwd, name)]
    return [os.path.join(cwd, entry, name) for entry in view.path.split(os.pathsep)]


def _why_not(path: str, mode: int) -> str:
    if stat.S_ISDIR(mode):
        return f"`{printable(path)}` is a directory"
    return f"`{printable(path)}` has no permission to execute; `chmod +x` gives it"
