"""Path rules: what a path means is settled before anything is decided on it."""

import os
import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vfs.kernel.errors import InvalidPathError
from vfs.kernel.paths import ROOT, VirtualPath, join, parse, printable
from vfs.kernel.zones import Zone

names = st.one_of(
    st.sampled_from(["..", ".", "", "a", "b", "session", "repo", "é", "\udcff", ".git", "a b"]),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8),
)
paths = st.lists(names, max_size=8).map("/".join)


@pytest.mark.parametrize(
    ("path", "zone", "rest"),
    [
        ("/session/../repo/x", Zone.REPO, "x"),
        ("/repo//a/./b/", Zone.REPO, "a/b"),
        ("notes.md", Zone.SESSION, "working/notes.md"),
        ("../outputs/r.md", Zone.SESSION, "outputs/r.md"),
        ("../../repo/x", Zone.REPO, "x"),
        ("/workspace", Zone.WORKSPACE, ""),
        ("/", None, ""),
        ("//repo", Zone.REPO, ""),
        ("/repo/..", None, ""),
        ("/repo/\udcff", Zone.REPO, "\udcff"),
    ],
)
def test_a_path_has_one_meaning(path: str, zone: Zone | None, rest: str) -> None:
    assert parse(path) == VirtualPath(zone, rest)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/..", "climbs above the root"),
        ("/repo/../..", "climbs above the root"),
        ("../../../etc/passwd", "climbs above the root"),
        ("/repo/\0", "NUL"),
        ("", "empty"),
        ("/etc/passwd", "unknown zone: `etc`"),
        ("/Repo/x", "unknown zone: `Repo`"),
        ("/repo/" + "x" * 256, "longer than 255 bytes"),
        ("/repo/" + "é" * 128, "longer than 255 bytes"),
        ("/repo/" + "a/" * 2100, "longer than 4095 bytes"),
        ("/repo/\ud800" + "x" * 70, "no byte and no text"),
    ],
)
def test_what_is_no_path_is_refused_and_never_repaired(path: str, words: str) -> None:
    with pytest.raises(InvalidPathError, match=words):
        parse(path)


def test_a_name_of_255_bytes_is_a_name() -> None:
    assert parse("/repo/" + "é" * 127 + "x").rest == "é" * 127 + "x"


@given(paths)
@example("/session/../repo")
def test_parsing_agrees_with_posix_normalisation_or_refuses(path: str) -> None:
    try:
        found = parse(path)
    except InvalidPathError:
        return
    absolute = path if path.startswith("/") else f"/session/working/{path}"
    expected = posixpath.normpath(absolute)
    assert str(found) == ("/" + expected.lstrip("/"))


@given(paths)
def test_parsing_what_was_parsed_changes_nothing(path: str) -> None:
    try:
        found = parse(path)
    except InvalidPathError:
        return
    assert parse(str(found)) == found
    assert ".." not in found.rest.split("/")
    assert found.parent == ROOT or str(found).startswith(f"{found.parent}/")


@given(
    st.lists(st.sampled_from(["a", "b", "..", "."]), max_size=6), st.lists(st.sampled_from("ab"), max_size=4)
)
def test_a_link_that_leaves_its_root_leads_nowhere(target: list[str], directory: list[str]) -> None:
    depth, leaves, down = len(directory), False, False
    for name in target:
        depth += {"..": -1, ".": 0}.get(name, 1)
        # Climbing after going down may leave through a link on the way.
        leaves = leaves or depth < 0 or (name == ".." and down)
        down = down or name not in ("..", ".")
    led = join("/".join(directory), "/".join(target) or ".")
    assert (led is None) == leaves
    if led is not None:
        assert led == posixpath.normpath("/" + "/".join([*directory, *target])).strip("/")


def test_an_absolute_link_leads_out() -> None:
    assert join("a", "/etc/passwd") is None
    assert join("", "") is None


@given(st.binary(max_size=20))
def test_what_is_shown_holds_no_control_character(raw: bytes) -> None:
    assert printable(os.fsdecode(raw)).isprintable()
