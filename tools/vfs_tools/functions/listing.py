"""The tools that list: list_files and glob."""

import stat
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from vfs.kernel.trust import Operation
from vfs_tools.functions.approval import approval
from vfs_tools.functions.arguments import Arguments, PathText, Text
from vfs_tools.functions.cursors import Cursor, parse_cursor
from vfs_tools.functions.globs import Glob, split_base
from vfs_tools.functions.results import ApprovalResult, FileList, Result
from vfs_tools.functions.tool import Tool
from vfs_tools.functions.walk import Deadline, scan, walk

__all__ = ["GlobTool", "ListFiles", "below"]


class ListFilesArguments(Arguments):
    """Parameters of list_files."""

    path: PathText
    """Directory path to list, for example /workspace/data; `/` lists the zones, `.` the working directory."""
    cursor: Text = ""
    """The `next_cursor` of the last result, to go on with a list that was cut; empty for the beginning."""
    limit: int = Field(default=1_000, ge=1)
    """Most names to return (default and at most 1000)."""


class ListFiles(Tool[ListFilesArguments]):
    """List one directory."""

    name = "list_files"
    description = (
        "List files in a directory. Returns the sorted names in it, without what is below; `directories` are"
        " those names that are directories. To find files in a whole tree use `glob`."
    )
    parameters = ListFilesArguments

    def run(self, args: ListFilesArguments) -> Result:
        """Return one page of the names."""
        begin = parse_cursor(args.cursor).names[:1]
        entries = scan(self.sandbox, args.path)
        page = [entry for entry in entries if (entry.name,) >= begin]
        most = min(args.limit, self.limits.names)
        following = str(Cursor((page[most].name,))) if len(page) > most else None
        directories = tuple(entry.name for entry in page[:most] if stat.S_ISDIR(entry.type))
        return FileList(
            tuple(entry.name for entry in page[:most]),
            directories or None,
            following,
            f"cut: {len(entries)} names in all, go on with the cursor" if following else None,
        )

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Let pass what the trust level permits (seed 001)."""
        return approval(self.sandbox, Operation.LIST, args.get("path"))


class GlobArguments(Arguments):
    """Parameters of glob."""

    pattern: Text
    """Pattern, for example `**/*.py` or /repo/src/**/*.{ts,tsx}. `*`, `?` and `[…]` stand for characters of
    one name, `**` for any number of directories, `{a,b}` for either."""
    path: Text = "."
    """Directory that a relative pattern starts from (default: the working directory, /session/working)."""
    cursor: Text = ""
    """The `next_cursor` of the last result, to go on with a list that was cut; empty for the beginning."""
    limit: int = Field(default=1_000, ge=1)
    """Most paths to return (default and at most 1000)."""


class GlobTool(Tool[GlobArguments]):
    """Find files by name."""

    name = "glob"
    description = (
        "Find files whose path matches a pattern. Returns absolute paths in sorted order; directories are not"
        " returned, links are not followed, and `.git` is left out unless the pattern or path names it."
    )
    parameters = GlobArguments

    def run(self, args: GlobArguments) -> Result:
        """Return one page of the paths."""
        base, pattern = _where(args.path or ".", args.pattern)
        root = self.sandbox.resolve(base)
        most = min(args.limit, self.limits.names)
        paths: list[str] = []
        deadline = Deadline(self.limits.total_seconds)
        start = parse_cursor(args.cursor).names
        for found in walk(self.sandbox, root, Glob(pattern), start=start, deadline=deadline):
            if len(paths) == most or not found.matches:
                why = "cut" if found.matches else "the time was over"
                return FileList(tuple(paths), None, str(Cursor(found.names)), f"{why}: go on with the cursor")
            paths.append(below(root, found.names))
        return FileList(tuple(paths))

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Take what listing the directory needs."""
        path, pattern = args.get("path") or ".", args.get("pattern")
        if not isinstance(pattern, str) or not isinstance(path, str):
            return ApprovalResult("blocked", "the pattern is missing")
        return approval(self.sandbox, Operation.LIST, _where(path, pattern)[0])

    def get_approval_description(self, args: Mapping[str, Any]) -> str:
        """Name the pattern and where it is looked for."""
        return f"Find files named {args.get('pattern')} in {args.get('path') or 'the working directory'}"


def _where(path: str, pattern: str) -> tuple[str, str]:
    """Return the directory to walk and the pattern below it."""
    base, rest = split_base(pattern)
    if base[:1] == "/":
        return base, rest
    return (f"{path.rstrip('/') or '/'}/{base}" if base else path), rest


def below(root: str, names: tuple[str, ...]) -> str:
    """Return the path of `names` below the directory `root`."""
    return "/".join((root.rstrip("/"), *names))
