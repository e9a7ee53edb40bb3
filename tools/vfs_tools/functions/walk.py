"""A walk through the tree as the session sees it, in one fixed order, from any place on."""

import stat
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from vfs.kernel.errors import FileSystemError, NotFoundError, PermissionError
from vfs.kernel.ports import DirEntry
from vfs.kernel.sandbox import Sandbox
from vfs_tools.functions.globs import Glob, States

__all__ = ["Deadline", "Found", "scan", "walk"]


class Deadline:
    """A bound on the time of one call, in seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def passed(self) -> bool:
        """Tell whether the time is over."""
        return self._clock() >= self._end


class Found(NamedTuple):
    """A file or link, by its names below the place where the walk began."""

    names: tuple[str, ...]
    is_file: bool
    """A regular file; a link or anything else is not."""
    matches: bool
    """False only for the one entry at which the time ran out."""


def scan(sandbox: Sandbox, path: str) -> list[DirEntry]:
    """Return the entries of a directory sorted by name; links in `path` are followed within their zone."""
    absolute = sandbox.resolve(path) if path else path
    try:
        entries = sandbox.files.scan(absolute)
    except FileSystemError as error:
        if error.code != "ELOOP":
            raise
        entries = sandbox.files.scan(sandbox.files.resolve(absolute))
    return sorted(entries, key=lambda entry: entry.name)


def walk(
    sandbox: Sandbox, base: str, glob: Glob, *, start: tuple[str, ...], deadline: Deadline
) -> Iterator[Found]:
    """Yield what `glob` matches below `base` except directories, from `start` on, in the order of the names.

    Links are not followed. `.git` is left out unless base or pattern name it. A directory below `base` that
    cannot be listed is left out; its refusal is on the log. When the time is over, the last thing yielded is
    the entry that comes next, matching or not.
    """
    inside_git = ".git" in base.split("/") or glob.names(".git")
    waiting: list[tuple[tuple[str, ...], DirEntry, States]] = []

    def enter(names: tuple[str, ...], states: States) -> None:
        for entry in reversed(scan(sandbox, "/".join((base.rstrip("/"), *names)) or "/")):
            below = (*names, entry.name)
            if below < start[: len(below)] or (entry.name == ".git" and not inside_git):
                continue
            reached = glob.step(states, entry.name)
            if reached:
                waiting.append((below, entry, reached))

    enter((), glob.start())
    while waiting:
        names, entry, states = waiting.pop()
        if deadline.passed():
            yield Found(names, False, False)
            return
        if stat.S_ISDIR(entry.type):
            try:
                enter(names, states)
            except (PermissionError, NotFoundError):
                continue
        elif names >= start and glob.accepts(states):
            yield Found(names, stat.S_ISREG(entry.type), True)
