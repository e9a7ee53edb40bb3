"""Names that backends keep to themselves: files on their way to replacing another.

`.vfs-` and 16 hexadecimal digits and `.tmp`. A listing does not show them and no path reaches them, so a
write that a crash cut short is never taken for content.
"""

import itertools
import os
import re

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


def holds_reserved(path: str) -> bool:
    """Return whether a reserved name is anywhere in `path`."""
    return ".vfs-" in path and any(is_reserved(name) for name in path.split("/"))
