"""`vfs init`, settings, and a state that cannot be used."""

import os
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Vfs, rows
from vfs.config import Settings, load_settings
from vfs_tools.cli.commands.init import TEMPLATE


def test_init_makes_a_project_and_says_what_next(bare: Vfs) -> None:
    shown = bare("init").out
    assert f"made {bare.directory}/.sandbox\n" in shown
    assert f"made {bare.directory}/vfs.toml\n" in shown
    assert "vfs exec --trust workspace -- CMD" in shown
    assert (bare.directory / ".sandbox" / ".gitignore").read_text() == "*\n"
    assert bare("ls").out
    assert "nothing to do" in bare("init").out


def test_init_as_json(bare: Vfs) -> None:
    told = bare("init", "--json").json
    assert told["project"] == str(bare.directory)
    assert told["made"] == [f"{bare.directory}/.sandbox", f"{bare.directory}/vfs.toml"]
    again = bare("init", "--json").json
    assert again["made"] == []
    assert again["chain"] == told["chain"]


def test_init_keeps_the_settings_unless_forced(bare: Vfs) -> None:
    settings = bare.directory / "vfs.toml"
    settings.write_text('[session]\ntrust = "workspace"\n')
    bare("init")
    assert settings.read_text() == '[session]\ntrust = "workspace"\n'
    assert "README.md" in bare("ls", "/repo").out, "the level of the settings is what a command starts with"
    bare("init", "--force")
    assert settings.read_text() == TEMPLATE
    assert (bare.directory / "vfs.toml.old").read_text() == '[session]\ntrust = "workspace"\n'


def test_the_template_says_what_holds_without_it_and_its_examples_are_right(tmp_path: Path) -> None:
    file = tmp_path / "vfs.toml"
    file.write_text(TEMPLATE)
    assert load_settings(file) == Settings()
    lines = [
        line.removeprefix("# ") if "=" in line or line == "# [[rules.own]]" else line
        for line in TEMPLATE.splitlines()
    ]
    file.write_text("\n".join(lines))
    filled = load_settings(file)
    assert filled.session.ttl == 14 * 86400
    assert filled.rules.own[0].name == "no-secrets"
    assert filled.exec.environment == ("LANG", "CI=1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[session\n", "is not TOML"),
        ('[session]\ntrust = "root"\n', "`session.trust`"),
        ("[sesion]\n", "there is no key `sesion`"),
        ('[zones]\nworkspace = "gopher://x"\n', "gopher"),
        ('[[rules.own]]\nname = "x"\neffect = "hide"\npaths = ["secrets"]\n', "names no zone"),
    ],
)
def test_broken_settings_are_told_with_their_place(vfs: Vfs, text: str, told: str) -> None:
    (vfs.directory / "vfs.toml").write_text(text)
    done = vfs("ls", code=17)
    assert told in done.err
    assert "hint: " in done.err
    assert vfs("ls", "--json", code=17).error["code"] == "INVALID_CONFIG"


def test_settings_that_are_named_must_be_there(vfs: Vfs, tmp_path: Path) -> None:
    done = vfs("--config", str(tmp_path / "none.toml"), "ls", code=17)
    assert "there is no settings file" in done.err
    (tmp_path / "other.toml").write_text('[session]\ntrust = "workspace"\n')
    assert "README.md" in vfs("--config", str(tmp_path / "other.toml"), "ls", "/repo").out


def test_workspaces_see_nothing_of_each_other(vfs: Vfs) -> None:
    vfs("--workspace", "one", "put", "README.md", "/workspace/data/x")
    assert vfs("--workspace", "one", "ls", "/workspace/data").out == "x\n"
    assert vfs("--workspace", "two", "ls", "/workspace/data").out == ""
    assert vfs("ls", "/workspace/data").out == ""
    assert "is not a workspace id" in vfs("--workspace", "../x", "ls", code=11).err


def test_a_state_database_that_is_damaged(vfs: Vfs) -> None:
    state = vfs.directory / ".sandbox" / "state.db"
    state.write_bytes(b"not a database at all, whatever its name says" * 100)
    done = vfs("ls", code=10)
    assert "is damaged" in done.err
    assert "hint: " in done.err
    assert vfs("session", "list", "--json", code=10).error["code"] == "BACKEND_UNAVAILABLE"
    told = vfs("audit", "verify", "--json").json
    assert told["ok"], "the log is checked without the state"


def test_a_state_database_that_another_process_holds(vfs: Vfs) -> None:
    state = sqlite3.connect(vfs.directory / ".sandbox" / "state.db", isolation_level=None)
    state.execute("BEGIN EXCLUSIVE")
    try:
        done = vfs("ls", code=10)
    finally:
        state.execute("ROLLBACK")
        state.close()
    assert "is locked by another process" in done.err
    assert vfs("ls").out


@pytest.mark.skipif(os.geteuid() == 0, reason="by design: root may write what is read-only")
def test_a_state_database_that_is_read_only(vfs: Vfs) -> None:
    state = vfs.directory / ".sandbox"
    for file in state.glob("state.db*"):
        file.chmod(0o400)
    state.chmod(0o500)
    try:
        assert "read-only" in vfs("ls", code=10).err
    finally:
        state.chmod(0o700)


def test_an_audit_log_that_cannot_be_written_stops_everything(vfs: Vfs, tmp_path: Path) -> None:
    vfs("put", "README.md", "/workspace/data/x")
    (heads,) = tmp_path.glob("home/projects/*/heads.jsonl")
    heads.unlink()
    heads.mkdir()
    done = vfs("cat", "/workspace/data/x", code=9)
    assert done.out == ""
    assert "cannot record" in done.err
    assert "hint: " in done.err
    vfs("rm", "/workspace/data/x", code=9)
    assert (vfs.directory / ".sandbox/data/x").exists()


def test_a_lost_key_is_told_and_replaced_on_request(vfs: Vfs, tmp_path: Path) -> None:
    vfs("put", "README.md", "/workspace/data/x")
    home = tmp_path / "home"
    (signing,) = home.glob("projects/*/signing.pem")
    signing.unlink()
    done = vfs("ls", code=17)
    assert "is missing" in done.err
    assert "vfs init --new-key" in done.err
    assert "there is no terminal to ask at" in vfs("init", "--new-key", code=2).err
    told = vfs("init", "--new-key", "--yes", "--json").json
    aside = told["put_aside"]
    assert vfs("cat", "/workspace/data/x").out == "hello\n"
    (row,) = rows(vfs, "--operation", "rekey")
    assert row["metadata"]["old_key"] == aside["key_id"]
    assert vfs("audit", "verify", "--json").json["ok"]
    old = vfs(
        "audit", "verify", "--dir", aside["log"], "--key", aside["key"], "--heads", aside["heads"], "--json"
    ).json
    assert old["ok"]
    assert old["chain"] != told["chain"]


def test_a_key_that_is_not_lost_is_not_replaced(vfs: Vfs, bare: Vfs) -> None:
    done = vfs("init", "--new-key", "--yes", code=8)
    assert "only a key that is lost is replaced" in done.err
    assert vfs("audit", "verify").out.startswith("intact")


def test_gc_removes_what_sessions_that_are_over_left(vfs: Vfs, session: str) -> None:
    vfs("put", "README.md", "x", "--session", session)
    over = vfs("put", "README.md", "x", "--json").json["session_id"]
    files = vfs.directory / ".sandbox" / "sessions"
    planned = vfs("gc", "--dry-run", "--json").json
    assert planned == {"dry_run": True, "sessions": [over], "staged": []}
    assert (files / over).exists()
    assert vfs("gc").out == f"removed session {over}\n"
    assert not (files / over).exists()
    assert (files / session).exists()
    assert vfs("gc").out == "nothing to remove\n"
