"""Virtual paths: the one form in which every access names its object.

A path as a caller writes it goes in, a `VirtualPath` comes out or an `InvalidPathError`; nothing is silently
repaired. `..` is resolved before the zone is found, so `/session/../repo/x` is judged as `/repo/x` (seed 001
pops silently at the root; here climbing above it is an error).
"""

from typing import NamedTuple

from vfs.kernel.errors import InvalidPathError
from vfs.kernel.zones import ZONES, Zone

__all__ = ["ROOT", "VirtualPath", "join", "parse"]

NAME_MAX = 255
"""Bytes in one name, as on Linux's file systems."""

PATH_MAX = 4095
"""Bytes in a whole path."""


class VirtualPath(NamedTuple):
    """A normalised path: the zone it lies in and the names below, joined by slashes.

    `zone` is None for the root of the tree only, and then `rest` is empty. `rest` has the form of a
    backend's path (`vfs.kernel.ports`): no leading or trailing slash, no `.`, `..` or empty name.
    """

    zone: Zone | None
    rest: str

    def __str__(self) -> str:
        """Return the absolute path, e.g. `/workspace/data/x`."""
        zone, rest = self
        if zone is None:
            return "/"
        return f"/{zone}/{rest}" if rest else f"/{zone}"

    @property
    def name(self) -> str:
        """Return the last name; the zone's own for a zone, empty for the root."""
        return (self.rest or (self.zone or "")).rpartition("/")[2]

    @property
    def parent(self) -> "VirtualPath":
        """Return the directory it lies in; the root is its own parent."""
        if not self.rest:
            return ROOT
        return VirtualPath(self.zone, self.rest.rpartition("/")[0])

    def child(self, name: str) -> "VirtualPath":
        """Return the path of one `name` in this directory, which must not be the root."""
        return VirtualPath(self.zone, f"{self.rest}/{name}" if self.rest else name)


ROOT = VirtualPath(None, "")


def parse(path: str, *, base: str = "/session/working") -> VirtualPath:
    """Normalise `path`; a relative one is taken from `base` (seed 001: the session's working directory).

    Raises InvalidPathError for a path that climbs above the root, holds NUL, has a name over 255 bytes or
    is over 4,095 bytes in all, and for a first name that is no zone.
    """
    if path[:1] != "/":
        if not path:
            raise InvalidPathError("an empty path names nothing", path)
        path = f"{base}/{path}"
    if "\0" in path:
        raise InvalidPathError("a path cannot hold a NUL character", path.replace("\0", "\\0"))
    names = path.split("/")
    if "" in names[1:] or "." in names or ".." in names:
        names = _resolve(names, path)
    else:
        del names[0]
    if len(path) > NAME_MAX // 4 or not path.isascii():
        _check_lengths(path, names)
    if not names:
        return ROOT
    zone = ZONES.get(names[0])
    if zone is None:
        raise InvalidPathError(
            f"unknown zone: `{printable(names[0])}`",
            path,
            hint="paths start with /session, /workspace, /repo, /staged or /workers",
        )
    return VirtualPath(zone, "/".join(names[1:]))


def _resolve(names: list[str], path: str) -> list[str]:
    resolved: list[str] = []
    for name in names:
        if name in ("", "."):
            continue
        if name == "..":
            if not resolved:
                raise InvalidPathError(f"the path climbs above the root: `{printable(path)}`", path)
            resolved.pop()
        else:
            resolved.append(name)
    return resolved


def _check_lengths(path: str, names: list[str]) -> None:
    """Refuse what is over-long in bytes; a character is at most four of them."""
    try:
        if len(path.encode("utf-8", "surrogateescape")) > PATH_MAX:
            raise InvalidPathError(f"the path is longer than {PATH_MAX} bytes", path[:64] + "…")
        for name in names:
            if len(name.encode("utf-8", "surrogateescape")) > NAME_MAX:
                raise InvalidPathError(
                    f"a name in the path is longer than {NAME_MAX} bytes: `{printable(name[:32])}…`", path
                )
    except UnicodeEncodeError:
        raise InvalidPathError("the path holds a character that is no byte and no text", path) from None


def join(directory: str, target: str) -> str | None:
    """Return where a link in `directory` that says `target` leads, both relative to one root.

    None if it leads out: an absolute target, or one that climbs above the root. None too if it climbs after it
    has gone down: where that leads depends on the links on the way, for the operating system that follows it.
    """
    if target[:1] == "/" or not target:
        return None
    parts = directory.split("/") if directory else []
    down = False
    for name in target.split("/"):
        if name in ("", "."):
            continue
        if name == "..":
            if down or not parts:
                return None
            parts.pop()
        else:
            down = True
            parts.append(name)
    return "/".join(parts)


def printable(text: str) -> str:
    r"""Return `text` safe to show: control characters and bytes that are no text as `\xNN` escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
