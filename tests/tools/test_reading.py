"""Reading: pages of files of any size, what is no text, and what is not there."""

import base64
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.conftest import World
from vfs_tools.functions import SandboxToolset, ToolLimits
from vfs_tools.functions.text import number_lines, read_page


def read_all(tools: SandboxToolset, path: str, **args: Any) -> tuple[str, int]:
    """Follow the pages to the end; return the text and the number of pages."""
    text, pages = "", 0
    following: dict[str, Any] = {}
    while True:
        page = tools.execute("read_file", {"path": path, **args, **following}).to_dict()
        assert page["success"], page
        text += str(page["content"])
        pages += 1
        if "next_offset" not in page:
            return text, pages
        assert str(page["notice"]).startswith("cut: go on with offset=")
        following = {"offset": page["next_offset"]}
        if "next_column" in page:
            following["column"] = page["next_column"]


def test_ten_megabytes_are_paged_to_the_end(world: World) -> None:
    sandbox = world.sandbox()
    text = "".join(f"line {number:07}: {'x' * 84}\n" for number in range(100_000))
    assert len(text) > 10_000_000 * 0.98
    sandbox.write("big.txt", text)
    tools = SandboxToolset(sandbox, limits=ToolLimits(result_bytes=1 << 20))
    first = tools.execute("read_file", {"path": "big.txt"}).to_dict()
    assert (first["total_lines"], first["next_offset"]) == (100_000, 2_001)
    assert first["notice"] == "cut: go on with offset=2001"
    assert read_all(tools, "big.txt", limit=1_000_000) == (text, 10)


def test_a_page_ends_with_a_whole_line_below_the_byte_limit(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("a", "12345678\n" * 10)
    tools = SandboxToolset(sandbox, limits=ToolLimits(result_bytes=30))
    page = tools.execute("read_file", {"path": "a"}).to_dict()
    assert (page["content"], page["next_offset"]) == ("12345678\n" * 3, 4)


def test_a_line_too_long_for_one_page_is_cut_between_characters_and_read_on(world: World) -> None:
    sandbox = world.sandbox()
    text = "a\n" + "é€😀" * 1_000 + "\nend"
    sandbox.write("min.js", text)
    tools = SandboxToolset(sandbox, limits=ToolLimits(result_bytes=1_000))
    assert read_all(tools, "min.js") == (text, 11)


def test_offset_and_limit_choose_lines(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("a", "one\ntwo\nthree\nfour")
    tools = SandboxToolset(sandbox)
    assert tools.execute("read_file", {"path": "a", "offset": 2, "limit": 2}).to_dict() == {
        "success": True,
        "content": "two\nthree\n",
        "total_lines": 4,
        "next_offset": 4,
        "notice": "cut: go on with offset=4",
    }
    assert tools.execute("read_file", {"path": "a", "offset": 4}).to_dict() == {
        "success": True,
        "content": "four",
        "total_lines": 4,
    }


def test_an_offset_behind_the_end_says_how_long_the_file_is(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("a", "one\n")
    result = SandboxToolset(sandbox).execute("read_file", {"path": "a", "offset": 9}).to_dict()
    assert (result["content"], result["total_lines"]) == ("", 1)
    assert result["notice"] == "the file has 1 lines, none from line 9 on"


def test_a_column_the_line_does_not_have_is_refused(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("a", "one\ntwo\n")
    result = SandboxToolset(sandbox).execute("read_file", {"path": "a", "column": 5}).to_dict()
    assert (result["error"], result["code"]) == ("line 1 has no column 5", "INVALID_ARGUMENTS")


def test_line_numbers(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("a", "one\n\nthree")
    tools = SandboxToolset(sandbox)
    shown = tools.execute("read_file", {"path": "a", "line_numbers": True}).to_dict()["content"]
    assert shown == "     1\tone\n     2\t\n     3\tthree"
    assert number_lines("x\n", 41) == "    41\tx\n"


@pytest.mark.parametrize(
    "text", ["", "\n", "a", "a\n", "a\r\nb\r\n", "\ufeffbom\n", "\n\n\n", "ä\u2028b\x0cc\n"]
)
def test_text_comes_back_as_it_was_written(world: World, text: str) -> None:
    tools = world.toolset()
    assert tools.execute("write_file", {"path": "a", "content": text}).success
    assert tools.execute("read_file", {"path": "a"}).to_dict() == {"success": True, "content": text}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\xff\xfea", "`x.bin` is not text: byte 0xff at offset 0"),
        (b"ab\0c", "`x.bin` is not text: byte 0x00 at offset 2"),
    ],
)
def test_what_is_not_text_is_refused_and_can_be_read_as_bytes(world: World, data: bytes, error: str) -> None:
    sandbox = world.sandbox()
    sandbox.write_bytes("x.bin", data)
    tools = SandboxToolset(sandbox)
    assert tools.execute("read_file", {"path": "x.bin"}).to_dict() == {
        "success": False,
        "error": error,
        "hint": "read it with `read_bytes`",
        "code": "EILSEQ",
    }
    assert tools.execute("read_bytes", {"path": "x.bin"}).to_dict() == {
        "success": True,
        "content_base64": base64.b64encode(data).decode(),
        "size": len(data),
    }


def test_the_offset_of_what_is_not_text_counts_from_the_beginning_of_the_file(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write_bytes("x", b"good\nbad\xff\n")
    result = SandboxToolset(sandbox).execute("read_file", {"path": "x", "offset": 2}).to_dict()
    assert str(result["error"]).endswith("byte 0xff at offset 8")


def test_bytes_are_paged(world: World) -> None:
    sandbox = world.sandbox()
    data = bytes(range(256)) * 10
    sandbox.write_bytes("x", data)
    tools = SandboxToolset(sandbox, limits=ToolLimits(result_bytes=1_000))
    got, offset = b"", 0
    while True:
        page = tools.execute("read_bytes", {"path": "x", "offset": offset}).to_dict()
        got += base64.b64decode(str(page["content_base64"]))
        if "next_offset" not in page:
            break
        offset = int(str(page["next_offset"]))
    assert got == data
    assert page["size"] == 2_560
    assert tools.execute("read_bytes", {"path": "x", "offset": 9_999}).to_dict()["content_base64"] == ""


REFUSED = [
    (
        "read_file",
        {"path": "missing"},
        "NOT_FOUND",
        "see what is there with `list_files`, or find it with `glob`",
    ),
    ("read_file", {"path": "/session"}, "EISDIR", "it is a directory: use `list_files`"),
    ("read_file", {"path": ""}, "INVALID_ARGUMENTS", None),
    ("read_file", {"path": "/../etc/passwd"}, "INVALID_PATH", None),
    ("read_file", {"path": "/etc/passwd"}, "INVALID_PATH", None),
    ("read_file", {"path": "a\0b"}, "INVALID_PATH", None),
    ("read_file", {"path": "n" * 256}, "INVALID_PATH", None),
    ("list_files", {"path": "missing"}, "NOT_FOUND", None),
    ("list_files", {"path": "file"}, "ENOTDIR", None),
    ("file_info", {"path": "missing"}, "NOT_FOUND", None),
    ("read_bytes", {"path": "missing"}, "NOT_FOUND", None),
]


@pytest.mark.parametrize(("tool", "args", "code", "hint"), REFUSED)
def test_refusals_carry_error_hint_and_code(
    world: World, tool: str, args: dict[str, Any], code: str, hint: str | None
) -> None:
    sandbox = world.sandbox()
    sandbox.write("file", "x")
    result = SandboxToolset(sandbox).execute(tool, args).to_dict()
    assert list(result) == ["success", "error", "hint", "code"]
    assert (result["success"], result["code"]) == (False, code)
    assert result["error"]
    assert result["hint"] == hint if hint else result["hint"]


def test_a_link_is_followed_inside_its_zone(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("dir/real", "x")
    sandbox.symlink("dir", "link")
    tools = SandboxToolset(sandbox)
    assert tools.execute("read_file", {"path": "link/real"}).to_dict()["content"] == "x"
    assert tools.execute("list_files", {"path": "link"}).to_dict()["files"] == ["real"]


def test_a_bug_is_not_made_a_refusal(world: World) -> None:
    sandbox = world.sandbox()
    tools = SandboxToolset(sandbox)
    tools.get_tools()[0].sandbox = None  # type: ignore[assignment]  # a bug
    with pytest.raises(AttributeError):
        tools.execute("read_file", {"path": "a"})


@given(
    st.text(alphabet="ab\n\ré€😀", max_size=80),
    st.integers(1, 6),
    st.integers(4, 20),
)
def test_pages_joined_are_the_file(text: str, limit: int, max_bytes: int) -> None:
    data = text.encode()
    line, column, joined = 1, 0, b""
    for _ in range(len(data) + 2):
        page = read_page(io.BytesIO(data), line=line, column=column, limit=limit, max_bytes=max_bytes)
        assert page.start == len(joined)
        assert len(page.data) <= max_bytes
        assert page.data.count(b"\n") <= limit
        page.data.decode()
        joined += page.data
        assert page.total_lines == len(data.split(b"\n")) - (data[-1:] in (b"\n", b""))
        if page.next_line is None:
            break
        line, column = page.next_line, page.next_column
    assert joined == data
