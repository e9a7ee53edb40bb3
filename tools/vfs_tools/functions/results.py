"""The closed set of shapes that tools return: one per kind of success, and one refusal.

Each is frozen and knows its plain form, `to_dict()`: `success` first, then the fields in their order; what
is None is left out. Seed 001 (Filesystem Tools) names the fields, here in Python's case.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

__all__ = [
    "ApprovalResult",
    "DirectoryMade",
    "FileBytes",
    "FileContent",
    "FileEdited",
    "FileInfo",
    "FileList",
    "FileMoved",
    "FileRemoved",
    "FileWritten",
    "FilesStaged",
    "Match",
    "Refusal",
    "Result",
    "SearchMatches",
    "StagedCommitList",
    "StagedCommitSummary",
    "StagedFileSummary",
]

Plain = str | int | bool | None | list["Plain"] | dict[str, "Plain"]


class Shape:
    """A frozen value with a plain form that JSON can carry."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Plain]:
        """Return the fields by name, without those that are None."""
        return {
            field.name: _plain(value)
            for field in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
            if (value := getattr(self, field.name)) is not None
        }


def _plain(value: object) -> Plain:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Shape):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, int):
        return value
    raise TypeError(f"a result cannot carry {type(value).__name__}")


def _text(text: str) -> str:
    r"""Return `text` as UTF-8 can carry it: a byte of a name that is no text becomes `\xNN`."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Result(Shape):
    """What a tool returns."""

    __slots__ = ()
    success: ClassVar[bool] = True

    def to_dict(self) -> dict[str, Plain]:
        """Return the plain form, `success` first."""
        return {"success": self.success, **Shape.to_dict(self)}


@dataclass(frozen=True, slots=True)
class FileContent(Result):
    """Text of a file; the further fields are there only if it is not the whole file.

    `next_offset` (and `next_column`, where a line was cut) continue the reading; neither is there at the end.
    """

    content: str
    total_lines: int | None = None
    next_offset: int | None = None
    next_column: int | None = None
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class FileBytes(Result):
    """Bytes of a file in base64, the file's whole size, and where to read on if there is more."""

    content_base64: str
    size: int
    next_offset: int | None = None
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class FileInfo(Result):
    """Metadata of a file or directory; times are ISO 8601 in UTC, `size` is bytes, `mode` is octal."""

    path: str
    zone: str | None
    type: Literal["file", "directory", "other"]
    size: int
    mode: str
    created_at: str
    modified_at: str


@dataclass(frozen=True, slots=True)
class FileWritten(Result):
    """A file was written: `bytes_written` counts its UTF-8 bytes."""

    path: str
    bytes_written: int


@dataclass(frozen=True, slots=True)
class FileEdited(Result):
    """Text in a file was replaced; `lines` are the (first few) lines in the new text where replacements begin."""

    path: str
    replacements: int
    bytes_written: int
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileMoved(Result):
    """A file or directory was moved."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class FileRemoved(Result):
    """A file or directory was removed."""

    path: str


@dataclass(frozen=True, slots=True)
class DirectoryMade(Result):
    """A directory is there now."""

    path: str


@dataclass(frozen=True, slots=True)
class FileList(Result):
    """Names in a directory, or paths that a pattern names, sorted.

    `directories` are those of `files` that are directories; `next_cursor` is there if the list was cut.
    """

    files: tuple[str, ...]
    directories: tuple[str, ...] | None = None
    next_cursor: str | None = None
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class Match(Shape):
    """One matching line, its number counted from 1, and the lines around it."""

    path: str
    line: int
    text: str
    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SearchMatches(Result):
    """Matching lines in the order of path and line; `skipped` counts files by why they were not searched."""

    matches: tuple[Match, ...]
    files_searched: int
    skipped: Mapping[str, int] | None = None
    next_cursor: str | None = None
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class FilesStaged(Result):
    """Files wait for a person's decision."""

    commit_id: str
    staged_files: int
    message: str


@dataclass(frozen=True, slots=True)
class StagedFileSummary(Shape):
    """One file of a staged commit: path in the repository, `create`, `update` or `delete`, size in bytes."""

    path: str
    operation: str
    size: int


@dataclass(frozen=True, slots=True)
class StagedCommitSummary(Shape):
    """One staged commit as it stands."""

    commit_id: str
    status: str
    message: str
    created_at: str
    files: tuple[StagedFileSummary, ...]


@dataclass(frozen=True, slots=True)
class StagedCommitList(Result):
    """The staged commits of the workspace, oldest first."""

    commits: tuple[StagedCommitSummary, ...]
    next_cursor: str | None = None
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal(Result):
    """The one shape of what did not happen: why, what to do next, and the code for programs."""

    success: ClassVar[bool] = False
    error: str
    hint: str
    code: str


@dataclass(frozen=True, slots=True)
class ApprovalResult(Shape):
    """Whether a call may be made (seed 001, approval protocol): `reason` says why if it may not."""

    status: Literal["blocked", "needs_approval", "pre_approved"]
    reason: str | None = None
