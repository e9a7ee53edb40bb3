"""Editing: exact replacement, once or everywhere, and the other tools that change files."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.conftest import World, rows
from vfs_tools.functions import SandboxToolset, ToolLimits
from vfs_tools.functions.edits import Edit, replace


def edit(world: World, before: str, old: str, new: str, **more: Any) -> tuple[dict[str, Any], str]:
    """Edit a file that holds `before`; return the result and what the file holds then."""
    sandbox = world.sandbox()
    sandbox.write("f", before)
    args = {"path": "f", "old_text": old, "new_text": new, **more}
    result = SandboxToolset(sandbox).execute("edit_file", args).to_dict()
    return result, sandbox.read_bytes("f").decode()


def test_one_match_is_replaced(world: World) -> None:
    result, after = edit(world, "a = 1\nb = 2\nc = 3\n", "b = 2", "b = 20\nbb = 21")
    assert after == "a = 1\nb = 20\nbb = 21\nc = 3\n"
    assert result == {"success": True, "path": "f", "replacements": 1, "bytes_written": 27, "lines": [2]}


def test_no_match_changes_nothing_and_shows_near_lines(world: World) -> None:
    before = "def main():\n    return  1\n\nx = 4\n"
    result, after = edit(world, before, "    return 1\n", "    return 2\n")
    assert after == before
    assert result["code"] == "NO_MATCH"
    assert result["error"] == "`old_text` matches 0 times in `f`; near lines:\n2:     return  1"
    assert "read_file" in result["hint"]


def test_a_misspelt_line_is_found_by_likeness(world: World) -> None:
    result, _ = edit(world, "alpha\nthe quick brown fox\nomega\n", "the quikc brown fox", "x")
    assert result["error"].endswith("near lines:\n2: the quick brown fox")


def test_no_match_and_nothing_near(world: World) -> None:
    result, _ = edit(world, "alpha\n", "zzzzzzzzz", "x")
    assert result["error"] == "`old_text` matches 0 times in `f`"


def test_two_matches_change_nothing_and_are_counted(world: World) -> None:
    before = "x = 1\ny = 2\nx = 1\n"
    result, after = edit(world, before, "x = 1", "x = 3")
    assert after == before
    assert result["code"] == "AMBIGUOUS_MATCH"
    assert result["error"] == "`old_text` matches 2 times in `f`, at lines:\n1: x = 1\n3: x = 1"
    assert "replace_all" in result["hint"]


def test_replace_all_replaces_every_match(world: World) -> None:
    result, after = edit(world, "x\ny\nx\n", "x", "long\nlong", replace_all=True)
    assert after == "long\nlong\ny\nlong\nlong\n"
    assert (result["replacements"], result["lines"]) == (2, [1, 4])


def test_crlf_is_matched_by_either_line_end_and_kept(world: World) -> None:
    before = "one\r\ntwo\r\nthree\r\n"
    for old in ("one\ntwo", "one\r\ntwo"):
        result, after = edit(world, before, old, "1\n2")
        assert result["success"]
        assert after == "1\r\n2\r\nthree\r\n"


def test_mixed_line_ends_are_taken_as_they_are(world: World) -> None:
    before = "one\r\ntwo\nthree\n"
    result, after = edit(world, before, "one\ntwo", "x")
    assert (result["code"], after) == ("NO_MATCH", before)
    result, after = edit(world, before, "two\nthree", "2\n3")
    assert after == "one\r\n2\n3\n"


def test_no_newline_at_the_end_stays_so(world: World) -> None:
    assert edit(world, "a\nb", "b", "c")[1] == "a\nc"
    assert edit(world, "a\nb", "b\n", "c\n")[0]["code"] == "NO_MATCH"


def test_unicode_is_matched_by_character_and_counted_in_bytes(world: World) -> None:
    result, after = edit(world, "naïve 😀\n", "😀", "é")
    assert (after, result["bytes_written"]) == ("naïve é\n", 10)
    # The same letter composed otherwise is another text.
    assert edit(world, "nai\u0308ve\n", "naïve", "x")[0]["code"] == "NO_MATCH"


def test_overlapping_matches_are_counted_without_overlap(world: World) -> None:
    assert edit(world, "aaaa", "aa", "b", replace_all=True)[1] == "bb"


def test_new_text_is_no_pattern(world: World) -> None:
    assert edit(world, "a.c\n", "a.c", r"\1 & \g<0>")[1] == "\\1 & \\g<0>\n"


def test_empty_new_text_removes(world: World) -> None:
    assert edit(world, "keep drop", " drop", "")[1] == "keep"


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("same", "same")])
def test_nothing_to_replace_is_refused(world: World, old: str, new: str) -> None:
    result, after = edit(world, "same\n", old, new)
    assert (result["code"], after) == ("INVALID_ARGUMENTS", "same\n")


def test_binary_and_too_large_files_are_refused_and_left_alone(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write_bytes("b", b"a\xffb")
    sandbox.write("large", "x" * 101)
    tools = SandboxToolset(sandbox, limits=ToolLimits(file_bytes=100))
    args = {"old_text": "x", "new_text": "y"}
    assert tools.execute("edit_file", {"path": "b", **args}).to_dict()["code"] == "EILSEQ"
    assert tools.execute("edit_file", {"path": "large", **args}).to_dict()["code"] == "TOO_LARGE"
    assert sandbox.read_bytes("b") == b"a\xffb"


def test_an_edit_is_recorded_as_a_read_and_a_write(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("f", "old")
    tools = SandboxToolset(sandbox)
    tools.execute("edit_file", {"path": "f", "old_text": "old", "new_text": "new"})
    tools.execute("edit_file", {"path": "f", "old_text": "old", "new_text": "new"})
    seen = [(row.operation, row.path) for row in rows(sandbox) if row.face == "tool"]
    path = "/session/working/f"
    assert seen == [("read", path), ("write", path), ("read", path)]


def test_edits_made_at_the_same_time_do_not_undo_one_another(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("f", "".join(f"line {number};\n" for number in range(16)))
    tools = SandboxToolset(sandbox)

    def change(number: int) -> None:
        args = {"path": "f", "old_text": f"line {number};", "new_text": f"done {number};"}
        assert tools.execute("edit_file", args).success

    threads = [threading.Thread(target=change, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sandbox.read("f") == "".join(f"done {number};\n" for number in range(16))


def test_an_edit_of_a_repository_file_needs_an_approval(world: World) -> None:
    args = {"path": "/repo/a", "old_text": "x", "new_text": "y"}
    assert world.toolset("full").needs_approval("edit_file", args).status == "needs_approval"
    assert world.toolset("workspace").needs_approval("edit_file", args).status == "blocked"
    assert world.toolset().get_approval_description("edit_file", args) == "Edit /repo/a"


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=3), st.text("abc\n", max_size=3))
def test_replacing_everywhere_is_what_str_replace_does(text: str, old: str, new: str) -> None:
    edit = replace(text, old, new, every=True)
    if old in text:
        assert isinstance(edit, Edit)
        assert (edit.text, edit.replacements) == (text.replace(old, new), text.count(old))
        lines = edit.text.split("\n")
        assert all(1 <= line <= len(lines) for line in edit.lines)
    else:
        assert not isinstance(edit, Edit)


def test_an_empty_file_is_written_and_missing_directories_are_made(world: World) -> None:
    tools = world.toolset()
    result = tools.execute("write_file", {"path": "/workspace/data/a/b/c", "content": ""}).to_dict()
    assert result["bytes_written"] == 0
    assert tools.execute("file_info", {"path": "/workspace/data/a/b"}).to_dict()["type"] == "directory"


def test_half_a_surrogate_pair_is_no_text(world: World) -> None:
    result = world.toolset().execute("write_file", {"path": "a", "content": "\ud800"}).to_dict()
    assert result["code"] == "INVALID_ARGUMENTS"
    assert result["error"] == (
        "invalid arguments for `write_file`: `content`: holds half of a surrogate pair, which is no text"
    )


def test_a_directory_is_removed_only_if_empty_or_asked_for(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("d/e/f", "x")
    tools = SandboxToolset(sandbox)
    refused = tools.execute("delete", {"path": "d"}).to_dict()
    assert (refused["code"], refused["hint"]) == (
        "ENOTEMPTY",
        "set `recursive` to remove a directory with all in it",
    )
    assert tools.execute("delete", {"path": "d", "recursive": True}).to_dict() == {
        "success": True,
        "path": "d",
    }
    assert not sandbox.exists("d")


def test_deleting_in_the_repository_needs_an_approval(world: World) -> None:
    tools = world.toolset("full", repo={"a": ""})
    args = {"path": "/repo/a", "recursive": True}
    assert tools.needs_approval("delete", args).status == "needs_approval"
    assert tools.needs_approval("delete", {"path": "x"}).status == "pre_approved"
    assert tools.get_approval_description("delete", args) == "Delete /repo/a and everything in it"


def test_a_move_replaces_only_when_asked(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("a", "A")
    sandbox.write("b", "B")
    tools = SandboxToolset(sandbox)
    refused = tools.execute("move", {"source": "a", "target": "b"}).to_dict()
    assert (refused["code"], sandbox.read("b")) == ("FILE_EXISTS", "B")
    moved = tools.execute("move", {"source": "a", "target": "b", "overwrite": True}).to_dict()
    assert moved == {"success": True, "source": "a", "target": "b"}
    assert (sandbox.read("b"), sandbox.exists("a")) == ("A", False)


def test_a_move_between_zones_copies_and_removes(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("d/f", "x")
    tools = SandboxToolset(sandbox)
    assert tools.execute("move", {"source": "d", "target": "/workspace/data/d"}).success
    assert (sandbox.read("/workspace/data/d/f"), sandbox.exists("d")) == ("x", False)


def test_a_move_names_both_ends_when_it_needs_an_approval(world: World) -> None:
    tools = world.toolset("full", repo={"a": ""})
    args = {"source": "/repo/a", "target": "/repo/b"}
    assert tools.needs_approval("move", args).status == "needs_approval"
    assert tools.get_approval_description("move", args) == "Move /repo/a to /repo/b"
