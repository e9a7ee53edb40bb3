"""The tools that read one file: read_file, read_bytes, file_info."""

import base64
import stat
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from vfs.kernel.errors import InvalidPathError
from vfs.kernel.trust import Operation
from vfs_tools.functions.approval import approval
from vfs_tools.functions.arguments import Arguments, PathText
from vfs_tools.functions.results import ApprovalResult, FileBytes, FileContent, FileInfo, Result
from vfs_tools.functions.text import decode, number_lines, read_page
from vfs_tools.functions.tool import Tool, invalid_arguments

__all__ = ["FileInfoTool", "ReadBytes", "ReadFile"]


class ReadFileArguments(Arguments):
    """Parameters of read_file."""

    path: PathText
    """Path to the file to read, for example /repo/README.md; a relative path is taken from /session/working."""
    offset: int = Field(default=1, ge=1)
    """Number of the first line to read, counted from 1 (default 1)."""
    limit: int = Field(default=2_000, ge=1, le=1_000_000)
    """Most lines to return (default 2000). A result that is cut says where to read on."""
    column: int = Field(default=0, ge=0)
    """Bytes of the first line to leave out (default 0); only to read on in a line that was cut."""
    line_numbers: bool = False
    """Put the number of each line before it (default false). The numbers are not part of the file."""


class ReadFile(Tool[ReadFileArguments]):
    """Read text, a page at a time."""

    name = "read_file"
    description = (
        "Read content from a file. Returns the text of a UTF-8 file. A long file is returned a page at a time:"
        " the result then has `total_lines` and, if there is more, `next_offset` to call again with. Files that"
        " are not text are refused: read them with `read_bytes`."
    )
    parameters = ReadFileArguments
    reads = True

    def run(self, args: ReadFileArguments) -> Result:
        """Return the page; the whole file has no further fields (seed 001)."""
        with self.sandbox.open(args.path, "rb") as stream:
            try:
                page = read_page(
                    stream,
                    line=args.offset,
                    column=args.column,
                    limit=args.limit,
                    max_bytes=self.limits.result_bytes,
                )
            except InvalidPathError as error:
                return invalid_arguments(error.message, error.hint or "")
        content = decode(page.data, args.path, offset=page.start)
        if args.line_numbers and content:
            content = number_lines(content, args.offset)
        if page.next_line is None and args.offset == 1 and not args.column:
            return FileContent(content)
        notice = None
        if page.next_line is not None:
            notice = f"cut: go on with offset={page.next_line}"
            notice += f", column={page.next_column}" if page.next_column else ""
        elif not content:
            notice = f"the file has {page.total_lines} lines, none from line {args.offset} on"
        return FileContent(content, page.total_lines, page.next_line, page.next_column or None, notice)

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Ask for what is read from the repository (seed 001)."""
        return approval(self.sandbox, Operation.READ, args.get("path"))


class ReadBytesArguments(Arguments):
    """Parameters of read_bytes."""

    path: PathText
    """Path to the file to read."""
    offset: int = Field(default=0, ge=0)
    """First byte to read, counted from 0 (default 0)."""
    limit: int = Field(default=16_384, ge=1)
    """Most bytes to return (default 16384, at most 65536)."""


class ReadBytes(Tool[ReadBytesArguments]):
    """Read bytes of any file in base64."""

    name = "read_bytes"
    description = (
        "Read bytes from a file of any kind, returned in base64 with the file's whole size. Use it for files that"
        " are not text, and `read_file` for those that are. The result has `next_offset` if there is more."
    )
    parameters = ReadBytesArguments
    reads = True

    def run(self, args: ReadBytesArguments) -> Result:
        """Return the bytes."""
        with self.sandbox.open(args.path, "rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(args.offset)
            data = stream.read(min(args.limit, self.limits.result_bytes))
        end = args.offset + len(data)
        more = bool(data) and end < size
        return FileBytes(
            base64.b64encode(data).decode(),
            size,
            end if more else None,
            f"cut: go on with offset={end}" if more else None,
        )

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Ask for what is read from the repository, as for read_file."""
        return approval(self.sandbox, Operation.READ, args.get("path"))


class FileInfoArguments(Arguments):
    """Parameters of file_info."""

    path: PathText
    """Path of the file or directory to look at."""


class FileInfoTool(Tool[FileInfoArguments]):
    """Tell what is at a path."""

    name = "file_info"
    description = (
        "Tell what is at a path without reading it: whether it is a file or a directory, its size in bytes, its"
        " zone and its times. A symbolic link is followed."
    )
    parameters = FileInfoArguments

    def run(self, args: FileInfoArguments) -> Result:
        """Return the metadata."""
        found = self.sandbox.stat(args.path)
        kind = "directory" if found.is_directory else "file" if stat.S_ISREG(found.mode) else "other"
        return FileInfo(
            path=found.path,
            zone=found.zone.value if found.zone else None,
            type=kind,  # type: ignore[arg-type]  # one of the three, which a conditional does not tell
            size=found.size,
            mode=f"{stat.S_IMODE(found.mode):04o}",
            created_at=found.created_at.isoformat(),
            modified_at=found.modified_at.isoformat(),
        )

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Let pass what may be listed, or else read, as the kernel does with metadata."""
        listing = approval(self.sandbox, Operation.LIST, args.get("path"))
        if listing.status == "blocked":
            return approval(self.sandbox, Operation.READ, args.get("path"))
        return listing
