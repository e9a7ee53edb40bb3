"""What is done to whole trees, over anything that has the shape of a backend."""

import stat
from collections.abc import Iterator

from vfs.kernel.ports import Backend, DirEntry

__all__ = ["make_dirs", "remove_tree", "walk"]


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


def walk(tree: Backend, top: str) -> Iterator[tuple[str, DirEntry]]:
    """Yield the path and entry of everything below the directory `top`, a directory before its content.

    Links are entries like any other and are not followed. What vanishes meanwhile is left out.
    """
    directories = [top]
    while directories:
        directory = directories.pop()
        try:
            entries = sorted(tree.scan(directory))
        except FileNotFoundError:
            continue
        for entry in entries:
            path = f"{directory}/{entry.name}" if directory else entry.name
            yield path, entry
            if stat.S_ISDIR(entry.type):
                directories.append(path)


def remove_tree(tree: Backend, top: str) -> int:
    """Remove the directory `top` and everything below it, following no link; return how many names went."""
    found = list(walk(tree, top))
    for path, entry in reversed(found):
        if stat.S_ISDIR(entry.type):
            tree.remove_dir(path)
        else:
            tree.remove(path)
    if top:
        tree.remove_dir(top)
    return len(found)
