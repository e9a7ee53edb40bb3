"""`vfs session` and `vfs staged`: trust, and what waits for a decision."""

import base64
import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli.conftest import Vfs, rows, start_session
from vfs.project import open_sandbox


def token_for(vfs: Vfs, session: str, level: str, *options: str) -> str:
    return vfs(
        "session", "promote", session, "--to", level, "--reason", "r", "--print-token", *options
    ).out.strip()


def test_list_shows_open_sessions_and_with_all_those_that_ended(vfs: Vfs, session: str) -> None:
    assert [one["id"] for one in vfs("session", "list", "--json").json] == [session]
    header, line = vfs("session", "list").out.splitlines()
    assert header.split() == ["SESSION", "TRUST", "STATUS", "WORKSPACE", "CREATED", "EXPIRES"]
    assert line.split()[:4] == [session, "session", "active", "cli"]
    vfs("session", "end", session)
    done = vfs("session", "list")
    assert done.out == ""
    assert "no session is open" in done.err
    (ended,) = vfs("session", "list", "--all", "--json").json
    assert ended["status"] == "ended"
    assert datetime.fromisoformat(ended["ended_at"]) >= datetime.fromisoformat(ended["created_at"])


def test_list_of_one_workspace(vfs: Vfs, session: str) -> None:
    assert [one["id"] for one in vfs("--workspace", "cli", "session", "list", "--json").json] == [session]
    assert vfs("--workspace", "other", "session", "list", "--json").json == []


def test_show_tells_trust_and_what_the_session_did(vfs: Vfs, session: str) -> None:
    vfs("put", "README.md", "x", "--session", session)
    vfs("cat", "/repo/README.md", "--session", session, code=13)
    told = vfs("session", "show", session, "--json").json
    assert (told["trust_level"], told["status"]) == ("session", "active")
    assert told["accesses"] >= 2
    assert told["refusals"] == 1
    shown = vfs("session", "show", session).out
    assert f"vfs audit log --session {session} --denied" in shown
    assert "1 of them refused" in shown
    assert "never" in shown


@pytest.mark.parametrize("command", ["show", "end"])
def test_a_session_that_there_is_not(vfs: Vfs, command: str) -> None:
    done = vfs("session", command, "ses_\x1b[31mx", code=11)
    assert done.err.splitlines()[0] == "vfs: no session `ses_\\x1b[31mx`"
    assert vfs("session", command, "nope", "--json", code=11).error["code"] == "INVALID_SESSION"


def test_promote_takes_effect_and_is_recorded(vfs: Vfs, session: str) -> None:
    vfs("cat", "/repo/README.md", "--session", session, code=13)
    done = vfs(
        "session", "promote", session, "--to", "workspace", "--reason", "has to read the code", "--yes"
    )
    assert done.out.startswith(f"{session}: session -> workspace, by ")
    assert vfs("cat", "/repo/README.md", "--session", session).out == "hello\n"
    (row,) = rows(vfs, "--operation", "promote")
    assert (row["allowed"], row["outcome"], row["face"]) == (True, "ok", "cli")
    assert row["metadata"]["reason"] == "has to read the code"
    told = vfs("session", "show", session, "--json").json
    assert told["trust_by"] == row["metadata"]["who"]
    assert "session -> workspace" in vfs("audit", "log", "--operation", "promote").out


def test_promote_asks_at_a_terminal(vfs: Vfs, session: str) -> None:
    arguments = ("session", "promote", session, "--to", "full", "--reason", "trusted")
    refused = vfs.at_terminal(*arguments, answer="n\n")
    assert refused.code == 1
    assert f"raise {session} from `session` to `full`?" in refused.out
    assert "repo (list read write delete)" in refused.out
    assert "nothing was changed" in refused.out
    assert vfs("session", "show", session, "--json").json["trust_level"] == "session"
    assert vfs.at_terminal(*arguments, answer="y\n").code == 0
    assert vfs("session", "show", session, "--json").json["trust_level"] == "full"


def test_ctrl_c_at_the_question_changes_nothing(vfs: Vfs, session: str) -> None:
    done = vfs.at_terminal("session", "promote", session, "--to", "full", "--reason", "x", answer="\x03")
    assert done.code == 130
    assert "vfs: interrupted" in done.out
    assert vfs("session", "show", session, "--json").json["trust_level"] == "session"


def test_promote_without_terminal_needs_yes_and_always_a_reason(vfs: Vfs, session: str) -> None:
    done = vfs("session", "promote", session, "--to", "full", "--reason", "x", code=2)
    assert "`--yes` does it without asking" in done.err
    assert "with `--reason` why" in vfs("session", "promote", session, "--to", "full", "--yes", code=2).err
    assert "with `--reason` why" in vfs("session", "promote", session, code=2).err
    assert vfs("session", "show", session, "--json").json["trust_level"] == "session"


def test_promote_to_what_it_has_is_a_conflict(vfs: Vfs, session: str) -> None:
    done = vfs("session", "promote", session, "--to", "untrusted", "--reason", "x", "--yes", code=8)
    assert "`vfs session demote` lowers it" in done.err
    vfs("session", "promote", session, "--to", "session", "--reason", "x", "--yes", code=8)


def test_a_printed_token_is_for_a_program(vfs: Vfs, session: str) -> None:
    token = token_for(vfs, session, "workspace")
    assert vfs("session", "show", session, "--json").json["trust_level"] == "session"
    home = Path(vfs.environment["VFS_HOME"])
    with open_sandbox(vfs.directory, session_id=session, home=home) as sandbox:
        sandbox.promote(token)
        assert sandbox.read("/repo/README.md") == "hello\n"
    told = vfs("session", "promote", session, "--to", "full", "--reason", "r", "--print-token", "--json").json
    assert (told["session_id"], told["trust_level"]) == (session, "full")


def test_a_token_counts_once(vfs: Vfs, session: str) -> None:
    token = token_for(vfs, session, "workspace")
    assert "session -> workspace" in vfs("session", "promote", session, "--token", token).out
    done = vfs("session", "promote", session, "--token", token, code=12)
    assert "the token was used before" in done.err
    assert [row["allowed"] for row in rows(vfs, "--operation", "promote")] == [True, False]


def test_a_token_may_come_on_standard_input(vfs: Vfs, session: str) -> None:
    token = token_for(vfs, session, "workspace")
    told = vfs("session", "promote", session, "--token", "-", "--json", stdin=f"{token}\n".encode()).json
    assert (told["trust_before"], told["trust_level"]) == ("session", "workspace")


def test_a_token_for_another_session_does_not_hold(vfs: Vfs, session: str) -> None:
    other = start_session(vfs, "untrusted")
    done = vfs("session", "promote", other, "--token", token_for(vfs, session, "full"), code=12)
    assert f"the token is for session `{session}`" in done.err
    assert vfs("session", "show", other, "--json").json["trust_level"] == "untrusted"


def test_a_forged_token_does_not_hold(vfs: Vfs, session: str) -> None:
    head, body, signature = token_for(vfs, session, "workspace").split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["level"] = "full"
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    for token in (f"{head}.{forged}.{signature}", "not a token", ""):
        done = vfs("session", "promote", session, "--token", token, code=12)
        assert "the token does not hold" in done.err
    assert vfs("session", "show", session, "--json").json["trust_level"] == "session"
    assert (
        vfs("session", "promote", session, "--token", "x", "--json", code=12).error["code"] == "INVALID_TOKEN"
    )


def test_an_expired_token_does_not_hold(vfs: Vfs, session: str) -> None:
    token = token_for(vfs, session, "workspace", "--seconds", "0.001")
    done = vfs("session", "promote", session, "--token", token, code=12)
    assert "the token has expired" in done.err
    assert "hint: ask for another one" in done.err


def test_demote_needs_no_token_and_never_raises(vfs: Vfs) -> None:
    session = start_session(vfs, "workspace")
    done = vfs("session", "demote", session, "--to", "untrusted", "--reason", "strange output")
    assert done.out.startswith(f"{session}: workspace -> untrusted, by ")
    vfs("cat", "/repo/README.md", "--session", session, code=13)
    assert "needs a token" in vfs("session", "demote", session, "--to", "full", "--reason", "x", code=13).err
    (row,) = rows(vfs, "--operation", "demote")
    assert row["metadata"]["reason"] == "strange output"


def test_an_ended_session_is_not_promoted(vfs: Vfs, session: str) -> None:
    assert vfs("session", "end", session).out == f"{session} has ended; `vfs gc` removes its files\n"
    done = vfs("session", "promote", session, "--to", "full", "--reason", "x", "--yes", code=11)
    assert f"session `{session}` is ended" in done.err


def stage(vfs: Vfs, message: str) -> str:
    home = Path(vfs.environment["VFS_HOME"])
    with open_sandbox(vfs.directory, trust_level="session", home=home) as sandbox:
        files: list[dict[str, str | None]] = [
            {"repo_path": "README.md", "content": "new\n"},
            {"repo_path": "docs/a.md", "content": "a"},
            {"repo_path": "old.md", "content": None},
        ]
        return sandbox.stage(files, message)


def test_staged_commits_are_listed_and_shown(vfs: Vfs) -> None:
    assert "nothing is staged" in vfs("staged", "list").err
    commit = stage(vfs, "Say \x1b[31mmore\n\nin detail")
    header, line = vfs("staged", "list").out.splitlines()
    assert header.split()[:2] == ["STAGED", "COMMIT"]
    assert line.split()[:3] == [commit, "pending", "3"]
    assert line.endswith("Say \\x1b[31mmore")
    shown = vfs("staged", "show", commit).out
    assert "    in detail\n" in shown
    assert "\x1b" not in shown
    (told,) = vfs("staged", "list", "--json").json
    assert told == vfs("staged", "show", commit, "--json").json
    assert {file["repo_path"]: file["operation"] for file in told["files"]} == {
        "README.md": "update",
        "docs/a.md": "create",
        "old.md": "delete",
    }
    assert told["files"][0]["size"] == 4
    assert len(told["files"][0]["hash"]) == 64


def test_discard_asks_and_removes(vfs: Vfs) -> None:
    commit = stage(vfs, "x")
    assert "there is no terminal to ask at" in vfs("staged", "discard", commit, code=2).err
    assert vfs.at_terminal("staged", "discard", commit, answer="n\n").code == 1
    assert vfs("staged", "discard", commit, "--yes").out == f"{commit} is gone, with 3 files\n"
    assert vfs("staged", "list", "--json").json == []
    assert not (vfs.directory / ".sandbox" / "staged" / commit).exists()
    done = vfs("staged", "discard", commit, "--yes", code=4)
    assert "`vfs staged list` shows those there are" in done.err


@pytest.mark.parametrize("identity", ["nope", "../session", "a/b"])
def test_a_staged_commit_that_there_is_not(vfs: Vfs, identity: str) -> None:
    assert vfs("staged", "show", identity, "--json", code=4).error["code"] == "NOT_FOUND"


def test_gc_keeps_what_nobody_decided_on(vfs: Vfs) -> None:
    commit = stage(vfs, "x")
    (one,) = vfs("session", "list", "--json").json
    vfs("session", "end", one["id"])
    assert vfs("gc", "--json").json["staged"] == []
    assert vfs("staged", "show", commit, "--json").json["status"] == "pending"
