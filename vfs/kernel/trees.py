"""What is done to whole trees, over anything that has the shape of a backend.

A tree may have been built to resist: directories without permission for their owner, and names below names until
no path reaches the last (a directory may be moved into a deep one, so a tree may be deeper than any path is long).
"""

import contextlib
import errno
import secrets
import stat
from collections.abc import Callable, Iterator
from typing import TypeVar

from vfs.kernel.errors import FileSystemError, SandboxError
from vfs.kernel.paths import printable
from vfs.kernel.ports import Backend, DirEntry

__all__ = ["make_dirs", "remove_tree", "walk"]

T = TypeVar("T")

_FAR = 2048
"""Bytes in a path from which on it is taken for one that may soon be too long; half of what Linux takes."""

_ROOM = 512
"""Bytes below the top that are left where they lie in any case: two long names."""


def make_dirs(tree: Backend, path: str) -> None:
    """Make the directory `path` and those above it that are missing; what is there is fine."""
    names = path.split("/")
    for end in range(1, len(names) + 1):
        above = "/".join(names[:end])
        try:
            tree.make_dir(above, 0o755)
        except OSError:
            # A read-only or fixed directory may refuse to be made and be there all the same.
            if not stat.S_ISDIR(tree.stat(above).mode):
                raise


def walk(
    tree: Backend, top: str, *, failed: Callable[[str, OSError | SandboxError], None] | None = None
) -> Iterator[tuple[str, DirEntry]]:
    """Yield the path and entry of everything below the directory `top`, a directory before its content.

    Links are entries like any other and are not followed. What vanishes meanwhile is left out. A directory that
    cannot be listed (no permission, too deep for a path, `top` no directory) is told to `failed` and passed over;
    what `failed` raises, and the error itself if there is no `failed`, comes out. Nothing is changed.
    """
    directories = [top]
    while directories:
        directory = directories.pop()
        try:
            entries = tree.scan(directory)
        except FileNotFoundError:
            continue
        except (OSError, SandboxError) as error:
            if failed is None:
                raise
            failed(directory, error)
            continue
        for entry in entries:
            path = _below(directory, entry.name)
            yield path, entry
            if stat.S_ISDIR(entry.type):
                directories.append(path)


def remove_tree(tree: Backend, top: str) -> None:
    """Remove the directory `top` (of the root: what is in it) and everything below it, following no link.

    Where the owner of a directory lacks permission to it, it is given. A directory far down is first moved up into
    `top`, under a name that begins with `.removed-`: so no path gets too long, however deep the tree is. What
    vanishes meanwhile is fine, except `top` itself (FileNotFoundError). What can be neither removed nor moved
    raises the error that names it; what went before that is gone.
    """
    far = max(_FAR, _length(top) + _ROOM)
    pending = [(top, False)]
    while pending:
        directory, emptied = pending.pop()
        try:
            if emptied:
                _insist(tree, top, directory, tree.remove_dir)
                continue
            entries = _insist(tree, top, directory, tree.scan)
        except FileNotFoundError:
            if directory == top:
                raise
            continue
        if directory:
            pending.append((directory, True))
        for entry in entries:
            path = _below(directory, entry.name)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(entry.type):
                    _insist(tree, top, path, tree.remove)
                elif _length(path) <= far:
                    pending.append((path, False))
                else:
                    pending.append((_move_up(tree, top, path), False))


def _move_up(tree: Backend, top: str, path: str) -> str:
    """Move the directory `path` into `top` and return its new path."""
    target = _below(top, f".removed-{secrets.token_hex(8)}")
    try:
        _insist(tree, top, path, lambda source: tree.rename(source, target))
    except (FileNotFoundError, SandboxError):
        raise
    except OSError as error:
        raise FileSystemError(
            error.errno or errno.EIO,
            f"too deep to be removed, and cannot be moved up ({_reason(error)}): `{printable(path)}`",
            path,
            hint="move a directory above it to a shorter path, then try again",
        ) from error
    return target


def _insist(tree: Backend, top: str, path: str, act: Callable[[str], T]) -> T:
    """Do `act` to `path`; where directories of the tree deny it, give their owner permission and do it again.

    An error that is the storage's own is raised with the whole path.
    """
    try:
        try:
            return act(path)
        except PermissionError:
            above = path.rpartition("/")[0] if path != top else top
            # Each of them may stand in the way, and the upper ones in that of the lower ones.
            if not sum(_give_permission(tree, directory) for directory in dict.fromkeys((top, above, path))):
                raise
            return act(path)
    except SandboxError:
        raise
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def _give_permission(tree: Backend, path: str) -> bool:
    """Let the owner of the directory `path` list and change it; tell whether that changed anything."""
    try:
        mode = tree.stat(path).mode
        if not stat.S_ISDIR(mode) or mode & stat.S_IRWXU == stat.S_IRWXU:
            return False
        tree.set_mode(path, stat.S_IMODE(mode) | stat.S_IRWXU)
    except (OSError, SandboxError):
        return False
    return True


def _below(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _length(path: str) -> int:
    return len(path.encode("utf-8", "surrogatepass"))


def _reason(error: OSError) -> str:
    return (error.strerror or "input/output error").lower()
