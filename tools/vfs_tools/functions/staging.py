"""The tools around staged commits: stage_for_commit, list_staged."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from vfs.kernel.staging import StagedCommit, StageRequest
from vfs.kernel.trust import Operation
from vfs_tools.functions.approval import NEEDS_APPROVAL, approval
from vfs_tools.functions.arguments import Arguments, Text
from vfs_tools.functions.cursors import Cursor, parse_cursor
from vfs_tools.functions.results import (
    ApprovalResult,
    FilesStaged,
    Result,
    StagedCommitList,
    StagedCommitSummary,
    StagedFileSummary,
)
from vfs_tools.functions.tool import Tool, invalid_arguments

__all__ = ["ListStaged", "StageForCommit"]

_COMMITS = 20


class FileToStage(Arguments):
    """One file to stage."""

    path: Text
    """Path in repository, for example src/app.py."""
    content: Text
    """File content: the whole text of the file as it shall be."""


class StageForCommitArguments(Arguments):
    """Parameters of stage_for_commit."""

    files: list[FileToStage]
    """Files to add or replace; may be empty if there are deletions."""
    message: Text
    """Commit message."""
    deletions: list[Text] = Field(default=[])
    """Paths in the repository of files to remove (default none)."""


class StageForCommit(Tool[StageForCommitArguments]):
    """Propose changes to the repository."""

    name = "stage_for_commit"
    description = (
        "Stage files for committing to the repository. The files wait for the user, who reviews and approves them"
        " before anything reaches the repository. All are staged, or none."
    )
    parameters = StageForCommitArguments

    def run(self, args: StageForCommitArguments) -> Result:
        """Stage them."""
        requests = [StageRequest(_in_repo(one.path), one.content) for one in args.files]
        requests += [StageRequest(_in_repo(path), None) for path in args.deletions]
        commit_id = self.sandbox.stage(requests, args.message)
        return FilesStaged(commit_id, len(requests), "Files staged. User must approve before push.")

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:  # noqa: ARG002 (whatever it is)
        """Ask always (seed 001)."""
        return NEEDS_APPROVAL

    def get_approval_description(self, args: Mapping[str, Any]) -> str:
        """Name every file (seed 001)."""
        files = [one for one in _items(args.get("files")) if isinstance(one, Mapping)]
        paths = [str(one.get("path")) for one in files]
        paths += [f"{path} (removed)" for path in _items(args.get("deletions"))]
        return f"Stage {len(paths)} file(s) for commit: {', '.join(paths)}"


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _in_repo(path: str) -> str:
    """Return a path relative to the repository; models also write it as they read the file, with /repo/."""
    return path.removeprefix("/repo/")


class ListStagedArguments(Arguments):
    """Parameters of list_staged."""

    cursor: Text = ""
    """The `next_cursor` of the last result, to go on with a list that was cut; empty for the beginning."""
    limit: int = Field(default=_COMMITS, ge=1, le=100)
    """Most staged commits to return (default 20, at most 100)."""


class ListStaged(Tool[ListStagedArguments]):
    """List the staged commits."""

    name = "list_staged"
    description = (
        "List the staged commits that wait for the user or were decided on: id, status (pending, approved,"
        " committed, rejected), message and files. Oldest first."
    )
    parameters = ListStagedArguments

    def run(self, args: ListStagedArguments) -> Result:
        """Return one page of the staged commits."""
        commits = self.sandbox.staged_commits()
        begin = 0
        if args.cursor:
            begin = next(
                (n for n, one in enumerate(commits) if (one.id,) == parse_cursor(args.cursor).names), -1
            )
            if begin < 0:
                return invalid_arguments("the staged commit to go on with is gone", "list from the beginning")
        page = commits[begin : begin + args.limit]
        rest = commits[begin + args.limit :]
        return StagedCommitList(
            tuple(map(_summary, page)),
            str(Cursor((rest[0].id,))) if rest else None,
            f"cut: {len(rest)} more, go on with the cursor" if rest else None,
        )

    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:  # noqa: ARG002 (it names no path)
        """Take what listing the staged zone needs."""
        return approval(self.sandbox, Operation.LIST, "/staged")

    def get_approval_description(self, args: Mapping[str, Any]) -> str:  # noqa: ARG002 (it names no path)
        """Say what it does."""
        return "List staged commits"


def _summary(commit: StagedCommit) -> StagedCommitSummary:
    return StagedCommitSummary(
        commit.id,
        commit.status,
        commit.message,
        commit.created_at.isoformat(),
        tuple(StagedFileSummary(file.repo_path, file.operation, file.size) for file in commit.files),
    )
