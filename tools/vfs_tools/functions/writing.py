"""The tools that change files: write_file, edit_file, make_dir, move, delete."""

import threading
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from vfs.kernel.paths import printable
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.trust import Operation
from vfs.kernel.zones import Zone
from vfs_tools.functions.approval import NEEDS_APPROVAL, PRE_APPROVED, approval, strictest
from vfs_tools.functions.arguments import Arguments, PathText, Text
from vfs_tools.functions.edits import Ambiguous, NoMatch, replace
from vfs_tools.functions.limits import ToolLimits
from vfs_tools.functions.results import (
    ApprovalResult,
    DirectoryMade,
    FileEdited,
    FileMoved,
    FileRemoved,
    FileWritten,
    Refusal,
    Result,
)
from vfs_tools.functions.text import decode, read_up_to
from vfs_tools.functions.tool import Tool, invalid_arguments

__all__ = ["Delete", "EditFile", "MakeDir", "Move", "WriteFile"]


class WriteFileArguments(Arguments):
    """Parameters of write_file."""

    path: PathText
    """Path to write to, for example /session/working/notes.md; missing directories are made."""
    content: Text
    """Content to write: the whole text of the file."""


class WriteFile(Tool[WriteFileArguments]):
    """Write a whole text file."""

    name = "write_file"
    description = (
        "Write content to a file. The file is made, or replaced as a whole; missing directories are made. To"
        " change part of a file use `edit_file`. Changes to the repository are proposed with `stage_for_commit`."
    )
    parameters = WriteFileArguments

    def run(self, args: WriteFileArguments) -> Result:
        """Write, and count the bytes that were written."""
        data = args.content.encode()
        self.sandbox.write_bytes(args.path, data)
        return FileWritten(args.path, len(data))

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Let pass what the trust level permits (seed 001)."""
        return approval(self.sandbox, Operation.WRITE, args.get("path"))


class EditFileArguments(Arguments):
    """Parameters of edit_file."""

    path: PathText
    """Path of the text file to edit."""
    old_text: Text = Field(min_length=1)
    """Text to replace, exactly as it is in the file, white space included, not empty. It must be in the file
    exactly once, unless replace_all is true: take in lines around it until it is."""
    new_text: Text
    """Text to put in its place; empty removes the old text."""
    replace_all: bool = False
    """Replace every occurrence (default false)."""


class EditFile(Tool[EditFileArguments]):
    """Replace text in a file; one edit at a time, so that calls made in parallel do not undo one another."""

    name = "edit_file"
    description = (
        "Replace text in a file. `old_text` must match exactly, and exactly once unless `replace_all` is true;"
        " otherwise nothing is changed and the result says how often it matched and which lines are near. In a"
        " file with CRLF line ends either line end matches, and CRLF is kept."
    )
    parameters = EditFileArguments

    def __init__(self, sandbox: Sandbox, limits: ToolLimits) -> None:
        super().__init__(sandbox, limits)
        self._one_at_a_time = threading.Lock()

    def run(self, args: EditFileArguments) -> Result:
        """Replace, all or nothing."""
        if args.old_text == args.new_text:
            return invalid_arguments("`old_text` and `new_text` are the same", "nothing has to be changed")
        with self._one_at_a_time:
            return self._edit(args)

    def _edit(self, args: EditFileArguments) -> Result:
        with self.sandbox.open(args.path, "rb") as stream:
            data = read_up_to(stream, self.limits.file_bytes)
        shown = printable(args.path)
        if len(data) > self.limits.file_bytes:
            return Refusal(
                f"`{shown}` is too large to edit: more than {self.limits.file_bytes} bytes",
                "write the changed parts to new files with `write_file`",
                "TOO_LARGE",
            )
        edit = replace(decode(data, args.path), args.old_text, args.new_text, every=args.replace_all)
        if isinstance(edit, NoMatch):
            near = f"; near lines:\n{_numbered(edit.near)}" if edit.near else ""
            return Refusal(
                f"`old_text` matches 0 times in `{shown}`{near}",
                "copy the text exactly as `read_file` shows it, white space included, line numbers left out",
                "NO_MATCH",
            )
        if isinstance(edit, Ambiguous):
            return Refusal(
                f"`old_text` matches {edit.count} times in `{shown}`, at lines:\n{_numbered(edit.near)}",
                "take in lines around the one you mean, or set `replace_all`",
                "AMBIGUOUS_MATCH",
            )
        written = edit.text.encode()
        self.sandbox.write_bytes(args.path, written)
        return FileEdited(args.path, edit.replacements, len(written), edit.lines)

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Take what both the reading and the writing need."""
        path = args.get("path")
        return strictest(
            approval(self.sandbox, Operation.WRITE, path), approval(self.sandbox, Operation.READ, path)
        )

    def get_approval_description(self, args: Mapping[str, Any]) -> str:
        """Name the file."""
        return f"Edit {args.get('path')}"


def _numbered(lines: tuple[tuple[int, str], ...]) -> str:
    return "\n".join(f"{number}: {line}" for number, line in lines)


class MakeDirArguments(Arguments):
    """Parameters of make_dir."""

    path: PathText
    """Path of the directory to make; those above it are made too."""


class MakeDir(Tool[MakeDirArguments]):
    """Make a directory."""

    name = "make_dir"
    description = (
        "Make a directory and those above it that are missing; one that is there already is fine. Writing a file"
        " makes its directories by itself."
    )
    parameters = MakeDirArguments

    def run(self, args: MakeDirArguments) -> Result:
        """Make it."""
        self.sandbox.make_dir(args.path, parents=True)
        return DirectoryMade(args.path)

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Take what writing there needs."""
        return approval(self.sandbox, Operation.WRITE, args.get("path"))

    def get_approval_description(self, args: Mapping[str, Any]) -> str:
        """Name the directory."""
        return f"Make the directory {args.get('path')}"


class MoveArguments(Arguments):
    """Parameters of move."""

    source: PathText
    """Path of the file or directory to move."""
    target: PathText
    """Path it shall have; the directory above it must exist. It is not moved into a directory of that name."""
    overwrite: bool = False
    """Replace a file that is at the target (default false)."""


class Move(Tool[MoveArguments]):
    """Move or rename."""

    name = "move"
    description = (
        "Move or rename a file or directory. Nothing is replaced unless `overwrite` is true. Between zones it is"
        " copied and then removed."
    )
    parameters = MoveArguments

    def run(self, args: MoveArguments) -> Result:
        """Move it."""
        self.sandbox.move(args.source, args.target, overwrite=args.overwrite)
        return FileMoved(args.source, args.target)

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Take what is needed to read and remove the source and to write the target."""
        source, target = args.get("source"), args.get("target")
        return strictest(
            approval(self.sandbox, Operation.DELETE, source),
            approval(self.sandbox, Operation.WRITE, target),
            approval(self.sandbox, Operation.READ, source),
        )

    def get_approval_description(self, args: Mapping[str, Any]) -> str:
        """Name both ends."""
        return f"Move {args.get('source')} to {args.get('target')}"


class DeleteArguments(Arguments):
    """Parameters of delete."""

    path: PathText
    """Path of the file or directory to remove."""
    recursive: bool = False
    """Remove a directory with all in it (default false: only an empty one)."""


class Delete(Tool[DeleteArguments]):
    """Remove a file or directory for good."""

    name = "delete"
    description = (
        "Remove a file, a link or an empty directory; with `recursive` a directory and all in it. This cannot be"
        " undone."
    )
    parameters = DeleteArguments

    def run(self, args: DeleteArguments) -> Result:
        """Remove it."""
        self.sandbox.delete(args.path, recursive=args.recursive)
        return FileRemoved(args.path)

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Ask for what is removed from the repository, which no tool brings back."""
        path = args.get("path")
        verdict = approval(self.sandbox, Operation.DELETE, path)
        if verdict == PRE_APPROVED and self.sandbox.get_zone(self.sandbox.resolve(str(path))) is Zone.REPO:
            return NEEDS_APPROVAL
        return verdict

    def get_approval_description(self, args: Mapping[str, Any]) -> str:
        """Name what goes, and whether all in it does."""
        return f"Delete {args.get('path')}" + (
            " and everything in it" if args.get("recursive") is True else ""
        )
