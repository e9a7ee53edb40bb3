"""One name in an open directory: what a call that takes a path is in truth about."""

import os
from types import TracebackType

from vfs_backends.beneath import O_PATH, Resolver
from vfs_backends.osfile import Root
from vfs_backends.reserved import refuse_odd_names


class Place:
    """The directory that holds the last name of a path, open for the time of a `with` block, and that name.

    The block gets `(directory descriptor, name)`; the root is its own place, with the name `.`. Raises
    what `Resolver.open` and `refuse_odd_names` raise.
    """

    __slots__ = ("_directory", "_path", "_resolver", "_root")

    def __init__(self, root: Root, resolver: Resolver, path: str) -> None:
        self._root = root
        self._resolver = resolver
        self._path = path
        self._directory = -1

    def __enter__(self) -> tuple[int, str]:
        refuse_odd_names(self._path)
        parent, _, name = self._path.rpartition("/")
        with self._root as root:
            self._directory = self._resolver.open(root, parent, O_PATH | os.O_DIRECTORY) if parent else root
        return self._directory, name or "."

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._directory != self._root.fd:
            os.close(self._directory)
        self._root.__exit__(kind, error, trace)
