"""`vfs ls cat put rm stat tree`: the zones from the command line."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Vfs, rows, start_session

NASTY = "evil\x1b[31m\nname"


def test_ls_shows_the_zones_and_what_is_in_them(vfs: Vfs) -> None:
    assert vfs("ls").out.split() == ["repo/", "session/", "staged/", "workers/", "workspace/"]
    assert vfs("ls", "/session").out.split() == ["inputs/", "outputs/", "working/"]
    assert vfs("ls", "/repo", "--trust", "workspace").out.split() == ["README.md", "src/", "vfs.toml"]
    assert vfs("ls", "/repo/README.md", "--trust", "workspace").out.split() == ["README.md"]


def test_ls_long_tells_mode_size_and_time(vfs: Vfs) -> None:
    header, *lines = vfs("ls", "-l", "/repo", "--trust", "workspace").out.splitlines()
    assert header.split() == ["MODE", "SIZE", "MODIFIED", "NAME"]
    assert lines[0].startswith("-rw-r--r--")
    assert lines[0].split()[1:3] == ["6", "B"]
    assert lines[0].endswith("README.md")
    assert lines[1].startswith("drwxr-xr-x")


def test_ls_as_json(vfs: Vfs) -> None:
    told = vfs("ls", "/repo", "--trust", "workspace", "--json").json
    assert told["path"] == "/repo"
    first = told["entries"][0]
    assert (first["name"], first["type"], first["size"], first["mode"]) == ("README.md", "file", 6, "0o644")
    assert first["modified_at"].endswith("Z")


def test_a_link_is_shown_with_what_it_says(vfs: Vfs) -> None:
    (vfs.directory / "link").symlink_to("README.md")
    assert "link@" in vfs("ls", "/repo", "--trust", "workspace").out
    assert "link -> README.md" in vfs("ls", "-l", "/repo", "--trust", "workspace").out
    assert vfs("cat", "/repo/link", "--trust", "workspace").out == "hello\n"


def test_cat_writes_bytes_as_they_are(vfs: Vfs) -> None:
    (vfs.directory / "binary").write_bytes(bytes(range(256)))
    done = vfs("cat", "/repo/binary", "/repo/README.md", "--trust", "workspace")
    assert done.out.encode("utf-8", "surrogateescape") == bytes(range(256)) + b"hello\n"
    first, second = vfs("cat", "/repo/binary", "/repo/README.md", "--trust", "workspace", "--json").lines
    assert (first["encoding"], first["size"]) == ("base64", 256)
    assert second == {"path": "/repo/README.md", "size": 6, "encoding": "utf-8", "content": "hello\n"}


def test_put_takes_files_and_standard_input(vfs: Vfs) -> None:
    done = vfs("put", "README.md", "/workspace/data/deep/er/copy.md")
    assert done.out == "/workspace/data/deep/er/copy.md: 6 B\n"
    assert (vfs.directory / ".sandbox/data/deep/er/copy.md").read_text() == "hello\n"
    told = vfs("put", "-", "/workspace/data/in", "--json", stdin=b"\x00\xff").json
    assert (told["path"], told["bytes"]) == ("/workspace/data/in", 2)
    assert (vfs.directory / ".sandbox/data/in").read_bytes() == b"\x00\xff"


def test_a_large_file_goes_in_and_out_whole(vfs: Vfs, tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 9
    (tmp_path / "large").write_bytes(data)
    vfs("put", str(tmp_path / "large"), "/workspace/data/new/large")
    assert (vfs.directory / ".sandbox/data/new/large").read_bytes() == data
    assert vfs("cat", "/workspace/data/new/large").out.encode("utf-8", "surrogateescape") == data


def test_a_named_session_keeps_its_files_and_an_unnamed_one_says_that_it_is_over(
    vfs: Vfs, session: str
) -> None:
    done = vfs("put", "README.md", "notes.md", "--session", session)
    assert done.out == "/session/working/notes.md: 6 B\n"
    assert done.err == ""
    assert vfs("cat", "notes.md", "--session", session).out == "hello\n"
    assert "that session ended with this command" in vfs("put", "README.md", "notes.md").err
    vfs("cat", "notes.md", code=4)


def test_rm_removes_files_and_with_r_directories(vfs: Vfs) -> None:
    vfs("put", "README.md", "/workspace/data/a/b/c")
    vfs("put", "README.md", "/workspace/data/x")
    assert vfs("rm", "/workspace/data/x").out == "removed /workspace/data/x\n"
    done = vfs("rm", "/workspace/data/a", code=3)
    assert "not empty" in done.err
    assert vfs("rm", "-r", "/workspace/data/a", "--json").lines == [
        {"path": "/workspace/data/a", "removed": True}
    ]
    assert vfs("ls", "/workspace/data").out == ""


def test_rm_of_a_link_leaves_what_it_leads_to(vfs: Vfs) -> None:
    (vfs.directory / "link").symlink_to("src")
    vfs("rm", "-r", "/repo/link", "--trust", "full")
    assert not (vfs.directory / "link").is_symlink()
    assert (vfs.directory / "src" / "main.py").exists()


def test_stat_tells_what_is_permitted(vfs: Vfs) -> None:
    told = vfs("stat", "/repo/README.md", "--trust", "workspace", "--json").lines[0]
    assert told["zone"] == "repo"
    assert told["size"] == 6
    assert told["permitted"] == ["read", "list"]
    full = vfs("stat", "/repo/README.md", "--trust", "full", "--json").lines[0]
    assert full["permitted"] == ["read", "write", "delete", "list"]
    shown = vfs("stat", "/repo/README.md", "/session", "--trust", "workspace").out
    assert "permitted    read, list\n" in shown
    assert "type         directory\n" in shown


def test_tree_shows_what_lies_below(vfs: Vfs) -> None:
    shown = vfs("tree", "/repo", "--trust", "workspace").out
    assert shown.splitlines() == [
        "/repo",
        "├── README.md",
        "├── src/",
        "│   └── main.py",
        "└── vfs.toml",
        "",
        "1 directory, 3 files",
    ]
    assert "main.py" not in vfs("tree", "-L", "1", "/repo", "--trust", "workspace").out
    lines = vfs("tree", "/repo", "--trust", "workspace", "--json").lines
    assert {"path": "/repo/src/main.py", "type": "file"} in lines


def test_tree_says_where_it_may_not_look(vfs: Vfs) -> None:
    shown = vfs("tree", "/", "--trust", "untrusted").out
    assert "└── [list not permitted in repo zone]" in shown.replace("│   ", "")
    vfs("tree", "/repo", "--trust", "untrusted", code=13)


def test_names_cannot_steer_a_terminal(vfs: Vfs) -> None:
    (vfs.directory / NASTY).write_text("x")
    (vfs.directory / os.fsdecode(b"caf\xe9")).write_text("x")
    for arguments in (("ls", "/repo"), ("ls", "-l", "/repo"), ("tree", "/repo")):
        shown = vfs(*arguments, "--trust", "workspace").out
        assert "evil\\x1b[31m\\nname" in shown
        assert "caf\\xe9" in shown
        assert "\x1b" not in shown
    names = [entry["name"] for entry in vfs("ls", "/repo", "--trust", "workspace", "--json").json["entries"]]
    assert NASTY in names
    assert "caf\udce9" in names
    done = vfs("cat", f"/repo/{NASTY}x", "--trust", "workspace", code=4)
    assert "\x1b" not in done.err
    assert "evil\\x1b[31m\\nname" in done.err


@pytest.mark.parametrize(
    ("path", "code", "told"),
    [
        ("/../etc/passwd", 5, "climbs above the root"),
        ("/session/../../x", 5, "climbs above the root"),
        ("/etc/passwd", 5, "unknown zone: `etc`"),
        ("/workspace/" + "n" * 256, 5, "longer than 255 bytes"),
        ("/workspace/" + "é" * 128, 5, "longer than 255 bytes"),
        ("/workspace/data" + "/n" * 2100, 5, "longer than 4095 bytes"),
        ("/workspace/data/nothing", 4, "not found"),
        ("/session/ses_aaaaaaaaaaaaaaaa/working/x", 14, "another session"),
        ("/repo/README.md", 13, "not permitted in repo zone"),
        ("/repo/README.md/x", 13, "not permitted in repo zone"),
    ],
)
def test_a_path_that_is_none_is_refused_and_recorded(vfs: Vfs, path: str, code: int, told: str) -> None:
    done = vfs("cat", path, code=code)
    assert told in done.err
    assert done.out == ""
    refused = [row for row in rows(vfs) if row["session_id"]]
    assert refused, "every refusal has its row"
    assert refused[-1]["outcome"] not in ("ok", "pending")


def test_another_session_s_path_is_a_violation_that_exists_or_not(vfs: Vfs, session: str) -> None:
    vfs("put", "README.md", "secret", "--session", session)
    done = vfs("cat", f"/session/{session}/working/secret", code=14)
    missing = vfs("cat", "/session/ses_aaaaaaaaaaaaaaaa/working/secret", code=14)
    assert done.err.replace(session, "ID") == missing.err.replace("ses_aaaaaaaaaaaaaaaa", "ID")
    found = rows(vfs, "--operation", "security_violation")
    assert len(found) == 2
    assert vfs("audit", "violations", "--json").lines[0]["operation"] == "security_violation"


def test_a_link_out_of_its_zone_is_a_violation(vfs: Vfs) -> None:
    (vfs.directory / "out").symlink_to("/etc/passwd")
    (vfs.directory / "up").symlink_to("../../etc/passwd")
    assert vfs("cat", "/repo/out", "--trust", "full", code=14).out == ""
    assert vfs("cat", "/repo/up", "--trust", "full", code=14).out == ""
    assert len(rows(vfs, "--operation", "security_violation")) == 2


def test_put_of_a_host_file_that_is_not_there_touches_nothing(vfs: Vfs) -> None:
    done = vfs("put", "nothing-here", "/workspace/data/x", code=3)
    assert done.err == "vfs: no such file or directory: `nothing-here`\n"
    vfs("cat", "/workspace/data/x", code=4)


def test_what_a_level_may_not_do_leaves_no_trace_in_the_zone(vfs: Vfs) -> None:
    assert vfs("put", "README.md", "/repo/new.md", "--trust", "workspace", code=13).out == ""
    assert not (vfs.directory / "new.md").exists()
    vfs("rm", "/repo/README.md", "--trust", "workspace", code=13)
    assert (vfs.directory / "README.md").exists()
    vfs("ls", "/repo/.sandbox", "--trust", "full", code=4)
    vfs("put", "README.md", "/repo/.git/hooks/pre-commit", "--trust", "full", code=13)
    assert not (vfs.directory / ".git").exists()


def test_untrusted_may_stage_once_and_not_overwrite(vfs: Vfs) -> None:
    session = start_session(vfs, "untrusted")
    vfs("put", "README.md", "/staged/mine/a.md", "--session", session)
    vfs("put", "-", "/staged/mine/a.md", "--session", session, stdin=b"other", code=13)
    told = vfs("staged", "show", "mine", "--json").json
    assert [file["size"] for file in told["files"]] == [6]


@pytest.mark.parametrize("identity", ["no-such", "../x", "a b", "inputs", "x" * 65, "", "ses_\x1b[31m"])
def test_a_session_id_that_is_none(vfs: Vfs, identity: str) -> None:
    done = vfs("ls", "--session", identity, code=11)
    assert "\x1b" not in done.err
    assert "hint: `vfs session list` shows those there are" in done.err


def test_a_session_has_the_level_it_has(vfs: Vfs, session: str) -> None:
    done = vfs("ls", "--session", session, "--trust", "full", code=17)
    assert f"session `{session}` has trust level `session`, not `full`" in done.err
    assert "vfs session promote" in done.err


def test_a_session_that_has_ended_may_do_nothing(vfs: Vfs, session: str) -> None:
    vfs("session", "end", session)
    assert "has ended" in vfs("ls", "--session", session, code=11).err


def test_accesses_are_recorded_under_the_face_cli(vfs: Vfs) -> None:
    vfs("put", "README.md", "/workspace/data/x")
    (row,) = rows(vfs, "--operation", "write", "--path", "/workspace/data/x")
    assert (row["face"], row["outcome"], row["bytes_written"]) == ("cli", "ok", 6)
