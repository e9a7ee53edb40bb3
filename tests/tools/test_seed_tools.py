"""The four tools of seed 001 behave as the seed has them."""

from typing import Any

import pytest

from tests.tools.conftest import World
from vfs_tools.functions import ApprovalResult, create_filesystem_tools


def test_a_whole_file_is_success_and_content(world: World) -> None:
    tools = world.toolset(repo={"README.md": "# Hello\n"})
    assert tools.execute("read_file", {"path": "/repo/README.md"}).to_dict() == {
        "success": True,
        "content": "# Hello\n",
    }


def test_a_refused_read_has_the_seeds_error_and_hint(world: World) -> None:
    tools = world.toolset("untrusted", repo={"secret.md": "x"})
    assert tools.execute("read_file", {"path": "/repo/secret.md"}).to_dict() == {
        "success": False,
        "error": "Permission denied: read not permitted in repo zone",
        "hint": "This file is outside your accessible zones.",
        "code": "PERMISSION_DENIED",
    }


def test_a_write_reports_the_path_and_the_bytes_that_were_written(world: World) -> None:
    tools = world.toolset()
    assert tools.execute("write_file", {"path": "notes/a.md", "content": "größer\n"}).to_dict() == {
        "success": True,
        "path": "notes/a.md",
        "bytes_written": 9,
    }
    assert tools.execute("file_info", {"path": "notes/a.md"}).to_dict()["size"] == 9


def test_a_refused_write_has_the_seeds_error_and_changes_nothing(world: World) -> None:
    tools = world.toolset("session", repo={"a": "old"})
    result = tools.execute("write_file", {"path": "/repo/a", "content": "new"}).to_dict()
    assert result["success"] is False
    assert result["error"] == "Permission denied: write not permitted in repo zone"
    assert result["hint"] == "trust level `full` allows it, this session has `session`"
    assert world.open[0].kernel.storage.backend("repo", "", "").read_bytes("a") == b"old"  # type: ignore[arg-type]  # a Zone is its name


def test_a_listing_has_the_sorted_names(world: World) -> None:
    tools = world.toolset(repo={"b.md": "", "a.md": ""})
    assert tools.execute("list_files", {"path": "/repo"}).to_dict() == {
        "success": True,
        "files": ["a.md", "b.md"],
    }


def test_a_listing_says_which_names_are_directories(world: World) -> None:
    tools = world.toolset(repo={"src/x": "", "a.md": ""})
    result = tools.execute("list_files", {"path": "/repo"}).to_dict()
    assert (result["files"], result["directories"]) == (["a.md", "src"], ["src"])


def test_a_refused_listing_has_the_seeds_error(world: World) -> None:
    result = world.toolset("untrusted").execute("list_files", {"path": "/workspace/data"}).to_dict()
    assert result["error"] == "Permission denied: list not permitted in workspace zone"


def test_staging_makes_a_pending_commit_and_says_who_decides(world: World) -> None:
    sandbox = world.sandbox("session")
    stage = next(tool for tool in create_filesystem_tools(sandbox) if tool.name == "stage_for_commit")
    files = [{"path": "docs/a.md", "content": "A"}, {"path": "/repo/docs/b.md", "content": "B"}]
    result = stage.execute({"files": files, "message": "two pages"}).to_dict()
    (commit,) = sandbox.staged_commits()
    assert result == {
        "success": True,
        "commit_id": commit.id,
        "staged_files": 2,
        "message": "Files staged. User must approve before push.",
    }
    assert (commit.status, commit.message) == ("pending", "two pages")
    assert [file.repo_path for file in commit.files] == ["docs/a.md", "docs/b.md"]


def test_deletions_are_staged_with_the_files(world: World) -> None:
    sandbox = world.sandbox("workspace", repo={"old.md": "x"})
    tools = create_filesystem_tools(sandbox)
    args = {"files": [], "deletions": ["old.md"], "message": "tidy"}
    result = next(t for t in tools if t.name == "stage_for_commit").execute(args).to_dict()
    assert result["staged_files"] == 1
    (file,) = sandbox.staged_commits()[0].files
    assert (file.repo_path, file.operation) == ("old.md", "delete")


def test_staging_nothing_is_refused(world: World) -> None:
    result = world.toolset().execute("stage_for_commit", {"files": [], "message": ""}).to_dict()
    assert (result["success"], result["code"]) == (False, "INVALID_PATH")


def test_git_internals_cannot_be_staged(world: World) -> None:
    sandbox = world.sandbox()
    stage = next(t for t in create_filesystem_tools(sandbox) if t.name == "stage_for_commit")
    args = {"files": [{"path": ".git/config", "content": "x"}], "message": ""}
    assert stage.execute(args).to_dict()["success"] is False
    assert sandbox.staged_commits() == []


STATUSES = [
    # the seed's needsApproval, by trust level, tool and path
    ("untrusted", "read_file", "/session/working/x", "pre_approved", None),
    ("untrusted", "read_file", "/repo/x", "blocked", "read not permitted in repo zone"),
    ("session", "read_file", "/repo/x", "blocked", "read not permitted in repo zone"),
    ("workspace", "read_file", "/repo/x", "needs_approval", None),
    ("full", "read_file", "/repo/x", "needs_approval", None),
    ("workspace", "read_file", "/workspace/data/x", "pre_approved", None),
    ("untrusted", "read_file", "/staged/c/x", "blocked", "read not permitted in staged zone"),
    ("session", "write_file", "/repo/x", "blocked", "write not permitted in repo zone"),
    ("full", "write_file", "/repo/x", "pre_approved", None),
    ("untrusted", "write_file", "/session/working/x", "pre_approved", None),
    ("untrusted", "write_file", "/staged/c/x", "pre_approved", None),
    ("untrusted", "write_file", "/workspace/data/x", "blocked", "write not permitted in workspace zone"),
    ("untrusted", "list_files", "/repo", "blocked", "list not permitted in repo zone"),
    ("workspace", "list_files", "/repo", "pre_approved", None),
    ("untrusted", "list_files", "/", "pre_approved", None),
]


@pytest.mark.parametrize(("level", "tool", "path", "status", "reason"), STATUSES)
def test_approval_statuses(
    world: World, level: str, tool: str, path: str, status: str, reason: str | None
) -> None:
    found = world.toolset(level).needs_approval(tool, {"path": path})
    assert (found.status, found.reason) == (status, reason)


@pytest.mark.parametrize("level", ["untrusted", "session", "workspace", "full"])
@pytest.mark.parametrize("args", [{}, {"files": [{"path": "a", "content": ""}], "message": "m"}])
def test_staging_always_needs_approval(world: World, level: str, args: dict[str, Any]) -> None:
    assert world.toolset(level).needs_approval("stage_for_commit", args).to_dict() == {
        "status": "needs_approval"
    }


def test_approval_descriptions(world: World) -> None:
    tools = world.toolset()
    files = [{"path": "a.md", "content": ""}, {"path": "b/c.md", "content": ""}]
    say = tools.get_approval_description
    assert say("stage_for_commit", {"files": files}) == "Stage 2 file(s) for commit: a.md, b/c.md"
    assert say("read_file", {"path": "/repo/x"}) == "Execute read_file"
    assert say("write_file", {"path": "/repo/x"}) == "Execute write_file"
    assert say("list_files", {"path": "/repo"}) == "Execute list_files"
    assert say("somebody_elses", {}) == "Execute somebody_elses"


def test_a_tool_that_is_not_there_is_pre_approved_and_can_do_nothing(world: World) -> None:
    tools = world.toolset()
    assert tools.needs_approval("somebody_elses", {}) == ApprovalResult("pre_approved")
    assert tools.execute("somebody_elses", {}).to_dict()["code"] == "UNKNOWN_TOOL"
