"""Searching the content of files."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.tools.conftest import World, rows
from vfs_tools.functions import SandboxToolset, ToolLimits

TREE: dict[str, str | bytes] = {
    "a.py": "import os\n\ndef find(x):\n    return x\n",
    "b/c.py": "def find_all():\r\n    pass\r\n",
    "b/notes.md": "how to find things\n",
    ".git/packed": "find me not\n",
    "image.png": b"find\0\x89PNG",
    "latin.txt": b"find \xff\n",
}


def search(tools: SandboxToolset, **args: Any) -> Any:
    return tools.execute("search", {"path": "/repo", **args}).to_dict()


def places(result: Any) -> list[tuple[str, int]]:
    return [(match["path"].removeprefix("/repo/"), match["line"]) for match in result["matches"]]


def test_a_regular_expression_is_found_line_by_line(world: World) -> None:
    result = search(world.toolset(repo=TREE), pattern=r"^def \w+\(.*\):$")
    assert result == {
        "success": True,
        "matches": [
            {"path": "/repo/a.py", "line": 3, "text": "def find(x):"},
            {"path": "/repo/b/c.py", "line": 1, "text": "def find_all():"},
        ],
        "files_searched": 3,
        "skipped": {"binary": 2},
    }


def test_a_literal_is_no_pattern(world: World) -> None:
    tools = world.toolset(repo=TREE)
    assert places(search(tools, pattern="find(x)", literal=True)) == [("a.py", 3)]
    assert places(search(tools, pattern="find(x)")) == []
    assert places(search(tools, pattern="FIND(X)", literal=True, ignore_case=True)) == [("a.py", 3)]
    assert places(search(tools, pattern="^IMPORT", ignore_case=True)) == [("a.py", 1)]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", ["a.py", "b/c.py"]),
        ("b/*", ["b/c.py", "b/notes.md"]),
        ("**/*.{md,txt}", ["b/notes.md"]),
        (".git/*", [".git/packed"]),
        ("", ["a.py", "b/c.py", "b/notes.md"]),
    ],
)
def test_a_glob_chooses_the_files(world: World, glob: str, expected: list[str]) -> None:
    result = search(world.toolset(repo=TREE), pattern="find", glob=glob)
    assert [path for path, _ in places(result)] == expected


def test_lines_around_a_match(world: World) -> None:
    result = search(world.toolset(repo=TREE), pattern="def find", glob="*.py", context=1)
    assert [(m["before"], m["after"]) for m in result["matches"]] == [
        ([""], ["    return x"]),
        ([], ["    pass"]),
    ]


def test_one_file_can_be_searched(world: World) -> None:
    result = search(world.toolset(repo=TREE), path="/repo/b/notes.md", pattern="find")
    assert places(result) == [("b/notes.md", 1)]


@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize("path", ["/repo", "/repo/many"])
def test_pages_joined_are_the_whole_result(world: World, literal: bool, path: str) -> None:
    repo = {name: "hit\n" * count for name, count in (("a", 3), ("many", 7), ("z/z", 2))}
    tools = world.toolset(repo=repo)
    found: list[tuple[str, int]] = []
    cursor = ""
    for _ in range(20):
        result = search(tools, pattern="hit", path=path, literal=literal, limit=2, cursor=cursor)
        assert len(result["matches"]) <= 2
        found += places(result)
        cursor = result.get("next_cursor", "")
        if not cursor:
            break
        assert result["notice"] == "cut: go on with the cursor"
    whole = [(name, line) for name, text in repo.items() for line in range(1, text.count("hit") + 1)]
    assert found == [place for place in whole if path == "/repo" or place[0] == "many"]


def test_a_page_is_bounded_in_bytes_and_long_lines_are_cut(world: World) -> None:
    tools = SandboxToolset(
        world.sandbox(repo={"a": f"{'x' * 5_000}\n" * 10}), limits=ToolLimits(result_bytes=2_000)
    )
    result = search(tools, pattern="x+")
    assert len(result["matches"]) == 3
    assert result["matches"][0]["text"] == "x" * 500 + "… [line cut: 5000 characters]"
    assert result["next_cursor"]


def test_too_large_files_are_skipped(world: World) -> None:
    sandbox = world.sandbox(repo={"a": "hit", "b": "hit" + "x" * 10_000})
    result = search(SandboxToolset(sandbox, limits=ToolLimits(file_bytes=9_000)), pattern="hit")
    assert (places(result), result["skipped"]) == ([("a", 1)], {"too large": 1})


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?P<x>a)(?P<x>b)", "[z-a]", "(?<=a*)b"])
def test_what_is_no_regular_expression_is_refused(world: World, pattern: str) -> None:
    result = search(world.toolset(repo=TREE), pattern=pattern)
    assert (result["success"], result["code"]) == (False, "INVALID_PATTERN")
    assert result["error"].startswith(f"`{pattern}` is not a regular expression: ")


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_catastrophic_pattern_is_stopped_and_leaves_no_process(world: World) -> None:
    sandbox = world.sandbox(repo={"a": "a" * 60 + "!\n"})
    tools = SandboxToolset(sandbox, limits=ToolLimits(file_seconds=0.2))
    before, started = children(), time.monotonic()
    result = search(tools, pattern="(a+)+$")
    assert (result["code"], result["error"]) == (
        "PATTERN_TOO_SLOW",
        "`(a+)+$` took more than 0.2 seconds on one file",
    )
    assert time.monotonic() - started < 20
    assert children() <= before


def test_a_pattern_that_warns_is_only_a_pattern(world: World) -> None:
    assert places(search(world.toolset(repo={"a": "[[x\n"}), pattern="[[x]+")) == [("a", 1)]


def test_links_are_not_followed_and_a_link_out_of_the_zone_leaks_nothing(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("d/f", "hit")
    sandbox.symlink("d/f", "link")
    result: Any = SandboxToolset(sandbox).execute("search", {"pattern": "hit"}).to_dict()
    assert [match["path"] for match in result["matches"]] == ["/session/working/d/f"]


def test_every_file_that_is_read_is_on_the_log(world: World) -> None:
    sandbox = world.sandbox(repo=TREE)
    search(SandboxToolset(sandbox), pattern="nowhere", literal=True)
    read = [row.path for row in rows(sandbox, operation="read")]
    assert read == [f"/repo/{name}" for name in ("a.py", "b/c.py", "b/notes.md", "image.png", "latin.txt")]


def test_time_that_is_over_gives_a_cursor_to_go_on_with(world: World) -> None:
    sandbox = world.sandbox(repo={"a": "hit", "b": "hit"})
    hurried = SandboxToolset(sandbox, limits=ToolLimits(total_seconds=1e-9))
    result = search(hurried, pattern="hit")
    assert (result["matches"], result["notice"]) == ([], "the time was over: go on with the cursor")
    rest = search(SandboxToolset(sandbox), pattern="hit", cursor=result["next_cursor"])
    assert places(rest) == [("a", 1), ("b", 1)]


def test_what_is_not_there_is_refused(world: World) -> None:
    assert search(world.toolset(repo=TREE), path="/repo/none", pattern="x")["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("level", "path", "status"),
    [
        ("session", "/repo", "blocked"),
        ("workspace", "/repo", "needs_approval"),
        ("workspace", "/", "needs_approval"),
        ("session", "/", "pre_approved"),
        ("session", None, "pre_approved"),
    ],
)
def test_searching_the_repository_needs_an_approval(
    world: World, level: str, path: str | None, status: str
) -> None:
    tools = world.toolset(level)
    assert tools.needs_approval("search", {"pattern": "x", "path": path}).status == status
    assert tools.get_approval_description("search", {"pattern": "x", "path": "/repo"}) == "Search /repo for x"
