"""The tool that searches the content of files."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from vfs.kernel.errors import FileSystemError, NotFoundError, PermissionError
from vfs.kernel.trust import Operation
from vfs.kernel.zones import Zone
from vfs_tools.functions.approval import NEEDS_APPROVAL, PRE_APPROVED, approval, strictest
from vfs_tools.functions.arguments import Arguments, Text
from vfs_tools.functions.cursors import Cursor, parse_cursor
from vfs_tools.functions.globs import Glob
from vfs_tools.functions.listing import below
from vfs_tools.functions.matcher import split_lines
from vfs_tools.functions.patterns import (
    InvalidPatternError,
    Literal,
    Pattern,
    PatternTooSlowError,
    Regex,
)
from vfs_tools.functions.results import ApprovalResult, Match, Refusal, Result, SearchMatches
from vfs_tools.functions.text import read_up_to
from vfs_tools.functions.tool import Tool
from vfs_tools.functions.walk import Deadline, walk

__all__ = ["Search"]

_PROBE = 8_192
"""Bytes in which a NUL makes a file binary, as grep and git have it."""


class SearchArguments(Arguments):
    """Parameters of search."""

    pattern: Text = Field(min_length=1)
    """What to look for, not empty: a regular expression of Python's `re`, matched against each line by itself;
    with literal true a plain text."""
    path: Text = "."
    """Directory to search with all below it, or one file (default: the working directory, /session/working)."""
    glob: Text = "**"
    """Search only files that match, for example *.py (a name anywhere below path) or src/**/*.{ts,tsx}
    (a path below it); default: all."""
    literal: bool = False
    """Take the pattern as plain text (default false)."""
    ignore_case: bool = False
    """Let upper and lower case match each other (default false)."""
    context: int = Field(default=0, ge=0, le=20)
    """Lines to show before and after each match (default 0, at most 20)."""
    limit: int = Field(default=100, ge=1, le=1_000)
    """Most matching lines to return (default 100, at most 1000)."""
    cursor: Text = ""
    """The `next_cursor` of the last result, to go on with a search that was cut; empty for the beginning."""


class Search(Tool[SearchArguments]):
    """Find lines in files."""

    name = "search"
    description = (
        "Search the content of files. Returns matching lines with path and line number, in the order of the"
        " paths. Files that are binary, too large or not readable are skipped and counted; links are not followed;"
        " `.git` is left out unless path or glob name it. A result that is cut has `next_cursor` to call again"
        " with."
    )
    parameters = SearchArguments

    def run(self, args: SearchArguments) -> Result:
        """Return one page of the matches."""
        wanted = args.glob or "**"
        glob = Glob(wanted if "/" in wanted or wanted == "**" else f"**/{wanted}")
        pattern: Pattern = (
            Literal(args.pattern, ignore_case=args.ignore_case)
            if args.literal
            else Regex(args.pattern, ignore_case=args.ignore_case, seconds=self.limits.file_seconds)
        )
        try:
            with pattern:
                return _Run(self, args, pattern).over(glob)
        except InvalidPatternError as error:
            return Refusal(
                f"`{args.pattern}` is not a regular expression: {error}",
                "mend it, or set `literal` to look for it as it is",
                "INVALID_PATTERN",
            )
        except PatternTooSlowError as error:
            return Refusal(
                f"`{args.pattern}` {error} on one file",
                "repeat nothing that is repeated itself, as in (a+)+, search fewer files, or set `literal`",
                "PATTERN_TOO_SLOW",
            )

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Take what listing and reading there need; a search of everything may read the repository."""
        path = args.get("path") or "."
        verdict = strictest(
            approval(self.sandbox, Operation.LIST, path), approval(self.sandbox, Operation.READ, path)
        )
        if verdict == PRE_APPROVED and self.sandbox.resolve(path) == "/":
            readable = self.sandbox.security_context.permissions[Zone.REPO].readable
            return NEEDS_APPROVAL if readable else PRE_APPROVED
        return verdict

    def get_approval_description(self, args: Mapping[str, Any]) -> str:
        """Name what is looked for and where."""
        return f"Search {args.get('path') or 'the working directory'} for {args.get('pattern')}"


class _SkippedError(Exception):
    """A file is not searched; the text says why."""


class _Run:
    """One search: what was found so far, and why it ends."""

    def __init__(self, tool: Search, args: SearchArguments, pattern: Pattern) -> None:
        self._sandbox = tool.sandbox
        self._limits = tool.limits
        self._args = args
        self._pattern = pattern
        self._root = tool.sandbox.resolve(args.path or ".")
        self._matches: list[Match] = []
        self._bytes = 0
        self._searched = 0
        self._skipped: dict[str, int] = {}

    def over(self, glob: Glob) -> SearchMatches:
        """Search file after file until the page is full or the time is over."""
        start = parse_cursor(self._args.cursor)
        if not self._sandbox.stat(self._root).is_directory:
            return self._result(self._file(self._root, start.line, ()))
        deadline = Deadline(self._limits.total_seconds)
        for found in walk(self._sandbox, self._root, glob, start=start.names, deadline=deadline):
            if not found.matches:
                return self._result(Cursor(found.names), "the time was over")
            if not found.is_file:
                continue
            done = start.line if found.names == start.names else 0
            following = self._file(below(self._root, found.names), done, found.names)
            if following is not None:
                return self._result(following)
        return self._result(None)

    def _file(self, path: str, done: int, names: tuple[str, ...]) -> Cursor | None:
        """Search one file from line `done` on; return where to go on if the page is full."""
        try:
            data = self._read(path)
        except _SkippedError as reason:
            self._skipped[str(reason)] = self._skipped.get(str(reason), 0) + 1
            return None
        wanted = self._args.limit - len(self._matches)
        found = self._pattern.find(data, first=done, limit=wanted + 1)
        self._searched += 1
        lines = split_lines(data.decode()) if found else []
        for number, index in enumerate(found):
            match = self._match(path, lines, index)
            if number == wanted or (self._matches and self._bytes + _size(match) > self._limits.result_bytes):
                return Cursor(names or (path.rpartition("/")[2],), index)
            self._matches.append(match)
            self._bytes += _size(match)
        return None

    def _read(self, path: str) -> bytes:
        """Return the text of a file that can be searched; a file that was asked for by name must be readable."""
        try:
            with self._sandbox.open(path, "rb") as stream:
                data = stream.read(_PROBE)
                if b"\0" in data:
                    raise _SkippedError("binary")
                data = read_up_to(stream, self._limits.file_bytes, begun=data)
        except (PermissionError, NotFoundError, FileSystemError) as error:
            if path == self._root:
                raise
            why = "not permitted" if isinstance(error, PermissionError) else "not readable"
            raise _SkippedError(why) from None
        if len(data) > self._limits.file_bytes:
            raise _SkippedError("too large")
        try:
            data.decode()
        except UnicodeDecodeError:
            raise _SkippedError("binary") from None
        return data

    def _match(self, path: str, lines: list[str], index: int) -> Match:
        around = self._args.context
        before = tuple(map(self._cut, lines[max(0, index - around) : index]))
        after = tuple(map(self._cut, lines[index + 1 : index + 1 + around]))
        return Match(
            path, index + 1, self._cut(lines[index]), before if around else None, after if around else None
        )

    def _cut(self, line: str) -> str:
        most = self._limits.line_characters
        if len(line) <= most:
            return line
        return f"{line[:most]}… [line cut: {len(line)} characters]"

    def _result(self, following: Cursor | None, why: str = "cut") -> SearchMatches:
        return SearchMatches(
            tuple(self._matches),
            self._searched,
            dict(sorted(self._skipped.items())) or None,
            str(following) if following else None,
            f"{why}: go on with the cursor" if following else None,
        )


def _size(match: Match) -> int:
    """Return about how many bytes a match takes in a result."""
    texts = (match.path, match.text, *(match.before or ()), *(match.after or ()))
    return sum(len(text.encode("utf-8", "surrogateescape")) + 8 for text in texts)
