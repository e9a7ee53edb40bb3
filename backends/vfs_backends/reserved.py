"""Names that paths may not hold: `.`, `..`, and those that backends keep to themselves.

A reserved name is `.vfs-`, 16 hexadecimal digits, `.tmp`: a file on its way to replacing another. A listing
does not show it and no path reaches it, so a write that a crash cut short is never taken for content.
"""

import errno
import itertools
import os
import re

from vfs_backends.errors import os_error

_DOTS = re.compile(r"(?:^|/)\.\.?(?:/|$)")
_RESERVED = re.compile(r"\.vfs-[0-9a-f]{16}\.tmp")

STALE_SECONDS = 60
"""A reserved file that has not changed for so long belongs to a write that will not end."""


class TemporaryNames:
    """Names that no other process or thread makes; drawing one costs no system call."""

    def __init__(self) -> None:
        self._prefix = os.urandom(4).hex()
        self._count = itertools.count(int.from_bytes(os.urandom(3)))

    def draw(self) -> str:
        """Return a fresh reserved name; a forked child may draw it too, so create it exclusively."""
        return f".vfs-{self._prefix}{next(self._count) & 0xFFFFFFFF:08x}.tmp"


def is_reserved(name: str) -> bool:
    """Return whether a single name is a reserved one."""
    return name.startswith(".vfs-") and _RESERVED.fullmatch(name) is not None


def refuse_odd_names(path: str) -> None:
    """Refuse `.` and `..` anywhere in `path` with EINVAL, and reserved names with ENOENT."""
    if not path.startswith(".") and "/." not in path:
        return
    if _DOTS.search(path):
        raise OSError(errno.EINVAL, "not a plain relative path", path)
    if any(is_reserved(name) for name in path.split("/")):
        raise os_error(errno.ENOENT, path)
