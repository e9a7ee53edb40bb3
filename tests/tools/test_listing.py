"""Listing and globbing: order, pages, patterns."""

import re
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.conftest import World
from vfs_tools.functions import SandboxToolset, ToolLimits
from vfs_tools.functions.cursors import Cursor, parse_cursor
from vfs_tools.functions.globs import Glob, split_base

TREE = {
    "README.md": "",
    "src/app.py": "",
    "src/app.test.py": "",
    "src/ui/main.tsx": "",
    "src/ui/main.ts": "",
    "src-old/x.py": "",
    ".github/ci.yml": "",
    ".git/HEAD": "",
    "docs/a b.md": "",
}


def pages(tools: SandboxToolset, name: str, args: dict[str, Any]) -> list[list[str]]:
    """Follow the cursors to the end."""
    found: list[list[str]] = []
    cursor = ""
    while True:
        result: Any = tools.execute(name, {**args, "cursor": cursor}).to_dict()
        assert result["success"], result
        found.append(result["files"])
        if "next_cursor" not in result:
            return found
        cursor = result["next_cursor"]


def test_five_thousand_entries_are_paged_in_order(world: World) -> None:
    sandbox = world.sandbox()
    names = sorted(f"file {number}.txt" for number in range(5_000))
    for name in names:
        sandbox.write(f"big/{name}", "")
    tools = SandboxToolset(sandbox)
    first: Any = tools.execute("list_files", {"path": "big"}).to_dict()
    assert len(first["files"]) == 1_000
    assert first["notice"] == "cut: 5000 names in all, go on with the cursor"
    for tool, args in (("list_files", {"path": "big"}), ("glob", {"pattern": "big/*"})):
        got = pages(tools, tool, args)
        assert [len(page) for page in got] == [1_000] * 5
        assert [PurePosixPath(path).name for page in got for path in page] == names


def test_names_that_come_and_go_between_pages_neither_repeat_nor_hide_others(world: World) -> None:
    sandbox = world.sandbox()
    for name in "bdfh":
        sandbox.write(f"d/{name}", "")
    tools = SandboxToolset(sandbox)
    first: Any = tools.execute("list_files", {"path": "d", "limit": 2}).to_dict()
    sandbox.delete("d/f")  # the very one the cursor names
    sandbox.write("d/a", "")
    rest: Any = tools.execute("list_files", {"path": "d", "cursor": first["next_cursor"]}).to_dict()
    assert (first["files"], rest["files"]) == (["b", "d"], ["h"])


def test_any_name_survives_a_cursor(world: World) -> None:
    sandbox = world.sandbox()
    names = sorted(["a:b", "a%20b", "ü", "new\nline", "a\udcffb", "0:x", " ", "~"])
    for name in names:
        sandbox.write(f"d/{name}", "")
    got = pages(SandboxToolset(sandbox), "list_files", {"path": "d", "limit": 1})
    assert [name for page in got for name in page] == [n.replace("\udcff", "\\xff") for n in names]


@pytest.mark.parametrize("cursor", ["x", "1:", ":a", "-1:a"])
def test_what_is_no_cursor_is_refused(world: World, cursor: str) -> None:
    result = world.toolset().execute("list_files", {"path": ".", "cursor": cursor}).to_dict()
    assert str(result["error"]).endswith("is not a cursor")


GLOBS = [
    ("/repo/**/*.py", ["src/app.py", "src/app.test.py", "src-old/x.py"]),
    ("/repo/*.md", ["README.md"]),
    ("/repo/src/**", ["src/app.py", "src/app.test.py", "src/ui/main.ts", "src/ui/main.tsx"]),
    ("/repo/src/**/*.{ts,tsx}", ["src/ui/main.ts", "src/ui/main.tsx"]),
    ("/repo/src/ui/main.ts", ["src/ui/main.ts"]),
    ("/repo/**/ui/*", ["src/ui/main.ts", "src/ui/main.tsx"]),
    ("/repo/*/[ax]*.py", ["src/app.py", "src/app.test.py", "src-old/x.py"]),
    ("/repo/[!.s]*/*", ["docs/a b.md"]),
    ("/repo/.github/*", [".github/ci.yml"]),
    ("/repo/.git/*", [".git/HEAD"]),
    ("/repo/**/HEAD", []),
    ("/repo/src", []),
    ("/repo/SRC/*", None),
]


@pytest.mark.parametrize(("pattern", "expected"), GLOBS)
def test_globs(world: World, pattern: str, expected: list[str] | None) -> None:
    result: Any = world.toolset(repo=TREE).execute("glob", {"pattern": pattern}).to_dict()
    if expected is None:
        assert result["code"] == "NOT_FOUND"
    else:
        assert result["files"] == [f"/repo/{path}" for path in expected]


def test_a_relative_pattern_starts_from_the_path_given(world: World) -> None:
    tools = world.toolset(repo=TREE)
    result: Any = tools.execute("glob", {"pattern": "ui/*.ts", "path": "/repo/src"}).to_dict()
    assert result["files"] == ["/repo/src/ui/main.ts"]
    tools.execute("write_file", {"path": "n.md", "content": ""})
    default: Any = tools.execute("glob", {"pattern": "*.md", "path": None}).to_dict()
    assert default["files"] == ["/session/working/n.md"]


def test_a_glob_over_everything_meets_only_what_the_session_may_list(world: World) -> None:
    tools = world.toolset("untrusted", repo=TREE, workers={"w.py": ""})
    result: Any = tools.execute("glob", {"pattern": "/**/*.py"}).to_dict()
    assert result["files"] == ["/workers/w.py"]


def test_links_are_named_and_not_followed(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("d/f", "")
    sandbox.symlink("d", "link")
    sandbox.symlink(".", "d/round")
    result: Any = SandboxToolset(sandbox).execute("glob", {"pattern": "**"}).to_dict()
    assert result["files"] == [f"/session/working/{path}" for path in ("d/f", "d/round", "link")]


@pytest.mark.parametrize("pattern", ["", "/", "**/../x", "*/..", "{a,b}" * 10])
def test_what_is_no_pattern_is_refused(world: World, pattern: str) -> None:
    result = world.toolset().execute("glob", {"pattern": pattern}).to_dict()
    assert (result["success"], result["code"]) == (False, "INVALID_PATH")


def test_a_pattern_of_many_stars_takes_no_time(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("a" * 250, "")
    tools = SandboxToolset(sandbox, limits=ToolLimits(total_seconds=5))
    for pattern in ("*a" * 40 + "b", "**/" * 200 + "b"):
        assert tools.execute("glob", {"pattern": pattern}).to_dict() == {"success": True, "files": []}


def test_time_that_is_over_gives_a_cursor_to_go_on_with(world: World) -> None:
    sandbox = world.sandbox()
    for name in "abc":
        sandbox.write(f"d/{name}", "")
    hurried = SandboxToolset(sandbox, limits=ToolLimits(total_seconds=1e-9))
    result: Any = hurried.execute("glob", {"pattern": "d/*"}).to_dict()
    assert (result["files"], result["notice"]) == ([], "the time was over: go on with the cursor")
    rest: Any = (
        SandboxToolset(sandbox).execute("glob", {"pattern": "d/*", "cursor": result["next_cursor"]}).to_dict()
    )
    assert len(rest["files"]) == 3


def test_a_glob_needs_what_listing_needs(world: World) -> None:
    tools = world.toolset("session")
    assert tools.needs_approval("glob", {"pattern": "/repo/**"}).status == "blocked"
    assert tools.needs_approval("glob", {"pattern": "**"}).status == "pre_approved"
    assert tools.needs_approval("glob", {}).status == "blocked"


def naive(pattern: str) -> re.Pattern[str]:
    """The same meaning as one regular expression, for short patterns."""
    out = ""
    for name in pattern.split("/"):
        if name == "**":
            out += "(?:[^/]+/)*"
        else:
            out += name.replace("*", "[^/]*").replace("?", "[^/]") + "/"
    return re.compile(out + r"\Z")


@given(
    st.lists(st.sampled_from(["**", "*", "a", "b*", "?"]), min_size=1, max_size=5).map("/".join),
    st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=5),
)
def test_matching_name_by_name_is_matching_the_path(pattern: str, names: list[str]) -> None:
    glob = Glob(pattern)
    states = glob.start()
    for name in names:
        states = glob.step(states, name)
    assert glob.accepts(states) is bool(naive(pattern).match("/".join(names) + "/"))


@given(st.lists(st.text(min_size=1).filter(lambda n: "/" not in n), min_size=1), st.integers(0, 99_999))
def test_cursors_round_trip(names: list[str], line: int) -> None:
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return
    cursor = Cursor(tuple(names), line)
    assert parse_cursor(str(cursor)) == cursor


def test_the_literal_beginning_of_a_pattern_is_its_base() -> None:
    assert split_base("/repo/src/**/*.py") == ("/repo/src", "**/*.py")
    assert split_base("a/b") == ("a", "b")
    assert split_base("*.py") == ("", "*.py")
    assert split_base("/*") == ("/", "*")
