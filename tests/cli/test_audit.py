"""`vfs audit`: the log read, exported, verified and pruned from the command line."""

import csv
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import VFS, Vfs, rows, start_session
from vfs.project import open_sandbox


@pytest.fixture
def busy(vfs: Vfs) -> Vfs:
    """Return a project whose log holds a write, a read, a refusal and a violation of two sessions."""
    vfs("put", "README.md", "/workspace/data/x")
    vfs("cat", "/workspace/data/x", "--trust", "workspace")
    vfs("cat", "/repo/README.md", code=13)
    vfs("cat", "/session/ses_aaaaaaaaaaaaaaaa/x", code=14)
    return vfs


def test_log_shows_the_newest_last(busy: Vfs) -> None:
    header, *lines = busy("audit", "log").out.splitlines()
    assert header.split() == ["SEQ", "TIME", "VERDICT", "ACTION", "TRUST", "SESSION", "PATH"]
    numbers = [int(line.split()[0]) for line in lines]
    assert numbers == sorted(numbers)
    written = next(line for line in lines if "/workspace/data/x" in line and " write " in line)
    assert "6 B written" in written
    refused = next(line for line in lines if "/repo/README.md" in line)
    assert " denied " in refused
    assert "not permitted in repo zone" in refused
    assert any(" violation " in line for line in lines)


def test_log_as_json_has_the_fields_of_the_seed(busy: Vfs) -> None:
    found = busy("audit", "log", "--json", "--operation", "write").lines
    (row,) = found
    assert {"id", "timestamp", "operation", "path", "zone", "session_id", "trust_level", "allowed"} <= set(
        row
    )
    assert (row["path"], row["zone"], row["allowed"]) == ("/workspace/data/x", "workspace", True)


def test_limit_keeps_the_newest(busy: Vfs) -> None:
    everything = rows(busy)
    newest = busy("audit", "log", "--json", "--limit", "2").lines
    assert newest == everything[-2:]
    assert len(busy("audit", "log", "--limit", "2").out.splitlines()) == 3


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        (("--denied",), lambda row: not row["allowed"]),
        (("--allowed",), lambda row: row["allowed"]),
        (("--zone", "repo"), lambda row: row["zone"] == "repo"),
        (("--trust", "workspace"), lambda row: row["trust_level"] == "workspace"),
        (("--operation", "read"), lambda row: row["operation"] == "read"),
        (("--path", "/workspace/**"), lambda row: (row["path"] or "").startswith("/workspace")),
        (("--face", "cli"), lambda row: row["face"] == "cli"),
        (("--since", "1h"), lambda row: True),
        (("--until", "2020-01-01"), lambda row: False),
        (
            ("--since", "2020-01-01T00:00:00Z", "--denied", "--zone", "repo"),
            lambda row: row["path"] == "/repo/README.md",
        ),
    ],
)
def test_filters_choose(busy: Vfs, filters: tuple[str, ...], wanted: object) -> None:
    everything = rows(busy)
    assert callable(wanted)
    expected = [row["id"] for row in everything if wanted(row)]
    assert [row["id"] for row in rows(busy, *filters)] == expected
    exported = busy("audit", "export", "--format", "jsonl", *filters).lines
    assert [row["id"] for row in exported] == expected


def test_the_filter_by_session(busy: Vfs) -> None:
    session = start_session(busy, "session")
    busy("put", "README.md", "/workspace/data/y", "--session", session)
    assert {row["session_id"] for row in rows(busy, "--session", session)} == {session}
    done = busy("audit", "log", "--session", "nobody")
    assert (done.out, done.err) == ("", "vfs: no entries\n")


def test_violations_shows_what_was_refused_the_newest_first(busy: Vfs) -> None:
    found = busy("audit", "violations", "--json").lines
    assert [row["operation"] for row in found] == ["security_violation", "read"]
    shown = busy("audit", "violations", "--limit", "1").out.splitlines()
    assert len(shown) == 2
    assert " violation " in shown[1]


def test_nothing_refused_is_said(vfs: Vfs) -> None:
    done = vfs("audit", "violations")
    assert (done.out, done.err) == ("", "vfs: nothing was refused\n")


def test_stats_count(busy: Vfs) -> None:
    told = busy("audit", "stats", "--json").json
    assert told["denied"] == 2
    assert told["violations"] == 1
    assert told["operations"]["write"] == 1
    shown = busy("audit", "stats").out
    assert "2, 1 of them violations" in shown
    assert told["chain"] in shown


def test_texts_in_the_log_cannot_steer_a_terminal(busy: Vfs) -> None:
    busy("cat", "/repo/\x1b[2Jgone", "--trust", "workspace", code=4)
    for arguments in (("log",), ("tail",), ("violations",)):
        assert "\x1b" not in busy("audit", *arguments).out
    assert "\\x1b[2Jgone" in busy("audit", "log").out


def test_tail_begins_with_the_newest(busy: Vfs) -> None:
    everything = rows(busy)
    assert busy("audit", "tail", "-n", "3", "--json").lines == everything[-3:]
    assert len(busy("audit", "tail").out.splitlines()) == min(20, len(everything)) + 1


def test_tail_follows_until_ctrl_c(busy: Vfs) -> None:
    process = busy.start("audit", "tail", "-f", "-n", "1", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        json.loads(process.stdout.readline())
        busy("put", "README.md", "/workspace/data/fresh")
        seen: list[dict[str, object]] = []
        while not seen or seen[-1]["path"] != "/workspace/data/fresh":
            seen.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert b"Traceback" not in process.stderr.read()


def test_export_in_each_form(busy: Vfs, tmp_path: Path) -> None:
    everything = rows(busy)
    assert busy("audit", "export").json == everything
    assert busy("audit", "export", "--format", "jsonl").lines == everything
    table = list(csv.DictReader(io.StringIO(busy("audit", "export", "--format", "csv").out)))
    assert [row["id"] for row in table] == [row["id"] for row in everything]
    assert len(busy("audit", "export", "--limit", "2").json) == 2
    done = busy("audit", "export", "-o", str(tmp_path / "log.json"))
    assert done.out == ""
    assert done.err == f"vfs: {len(everything)} entries written to `{tmp_path / 'log.json'}`\n"
    assert json.loads((tmp_path / "log.json").read_text()) == everything
    told = json.loads(busy("audit", "export", "-o", str(tmp_path / "log.json"), "--json").err)
    assert told == {"entries": len(everything), "format": "json", "file": str(tmp_path / "log.json")}


def test_an_export_that_cannot_be_written_says_so(busy: Vfs, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "log.json"
    done = busy("audit", "export", "-o", str(target), code=3)
    assert done.err.startswith("vfs: no such file or directory: ")
    assert "no space left on device" in busy("audit", "export", "-o", "/dev/full", code=3).err


def test_an_export_broken_off_leaves_what_was_there(busy: Vfs, tmp_path: Path) -> None:
    """Ctrl-C in the middle: the module that writes is stopped at a row, as a long export would be."""
    target = tmp_path / "out" / "log.json"
    target.parent.mkdir()
    target.write_text("what was there")
    script = (
        "import os, signal, sys\n"
        "import vfs.kernel.audit.export as export\n"
        "whole = export._json_text\n"
        "def stopped(*row):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return whole(*row)\n"
        "export._json_text = stopped\n"
        "from vfs_tools.cli.app import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "audit", "export", "-o", str(target)],
        cwd=busy.directory,
        env=busy.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert done.stderr == "vfs: interrupted\n"
    assert target.read_text() == "what was there"
    assert os.listdir(target.parent) == ["log.json"]


def test_an_export_may_go_to_a_device(busy: Vfs) -> None:
    busy("audit", "export", "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_verify_says_that_the_log_is_intact(busy: Vfs) -> None:
    told = busy("audit", "verify", "--json").json
    assert told["ok"]
    assert told["heads_checked"] > 0
    shown = busy("audit", "verify").out
    assert shown.startswith("intact: ")
    assert f"(1 to {told['last_sequence'] + 0})" in shown


def evidence(vfs: Vfs, tmp_path: Path) -> tuple[Path, Path, Path]:
    """Copy log, public key and heads to where there is neither project nor private key."""
    away = tmp_path / "away"
    shutil.copytree(vfs.directory / ".sandbox" / "audit", away / "audit")
    shutil.copy(vfs.directory / ".sandbox" / "public.pem", away / "key.pem")
    (heads,) = tmp_path.glob("home/projects/*/heads.jsonl")
    shutil.copy(heads, away / "heads.jsonl")
    return away / "audit", away / "key.pem", away / "heads.jsonl"


def test_verify_works_on_a_copy_with_the_public_key_alone(busy: Vfs, tmp_path: Path) -> None:
    busy("audit", "stats")
    log, key, heads = evidence(busy, tmp_path)
    shutil.rmtree(busy.directory)
    arguments = ("audit", "verify", "--dir", str(log), "--key", str(key))
    elsewhere = {"cwd": tmp_path, "VFS_HOME": str(tmp_path / "nowhere")}
    told = busy(*arguments, "--heads", str(heads), "--json", **elsewhere).json  # type: ignore[arg-type]  # options by name
    assert told["ok"]
    assert told["unsigned_rows"] == 0
    without = busy(*arguments, **elsewhere)  # type: ignore[arg-type]  # options by name
    assert without.out.startswith("intact")
    assert "without signed heads" in without.err


def test_verify_names_the_first_bad_row_and_ends_with_20(busy: Vfs, tmp_path: Path) -> None:
    busy("audit", "stats")
    log, key, heads = evidence(busy, tmp_path)
    with sqlite3.connect(log / "audit.db") as database:
        (sequence,) = database.execute(
            "SELECT seq FROM audit WHERE json_extract(record, '$.path') = '/repo/README.md' ORDER BY seq LIMIT 1"
        ).fetchone()
        database.execute("DROP TRIGGER audit_no_update")
        database.execute(
            "UPDATE audit SET record = replace(record, '/repo/README.md', '/repo/HARMLESS.m') WHERE seq = ?",
            (sequence,),
        )
    database.close()
    arguments = ("audit", "verify", "--dir", str(log), "--key", str(key), "--heads", str(heads))
    told = busy(*arguments, "--json", code=20).json
    assert not told["ok"]
    assert (told["problem"], told["sequence"]) == ("changed", sequence)
    shown = busy(*arguments, code=20).out
    assert shown.startswith("NOT INTACT: ")
    assert f"first bad row   {sequence}\n" in shown


def test_verify_with_another_key_does_not_hold(busy: Vfs, bare: Vfs, tmp_path: Path) -> None:
    log, _, heads = evidence(busy, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    busy("--project", str(other), "init")
    key = str(other / ".sandbox" / "public.pem")
    told = busy(
        "audit", "verify", "--dir", str(log), "--key", key, "--heads", str(heads), "--json", code=20
    ).json
    assert told["problem"] in ("replaced", "bad_signature")


def test_verify_says_what_it_lacks(busy: Vfs, tmp_path: Path) -> None:
    log, key, heads = evidence(busy, tmp_path)
    assert "needs the `--key`" in busy("audit", "verify", "--dir", str(log), code=2).err
    nowhere = str(tmp_path / "nowhere")
    told = busy("audit", "verify", "--dir", nowhere, "--key", str(key), code=17)
    assert f"there is no audit log in `{nowhere}`" in told.err
    assert (
        "cannot read the public key"
        in busy("audit", "verify", "--dir", str(log), "--key", nowhere, code=17).err
    )
    assert (
        "is not an Ed25519 public key"
        in busy("audit", "verify", "--dir", str(log), "--key", str(heads), code=17).err
    )
    missing = busy("audit", "verify", "--dir", str(log), "--key", str(key), "--heads", nowhere, code=17)
    assert "there are no signed heads" in missing.err


def test_prune_asks_removes_and_leaves_a_chain_that_verifies(busy: Vfs) -> None:
    before = busy("audit", "stats", "--json").json["rows"]
    assert "there is no terminal to ask at" in busy("audit", "prune", "--older-than", "30d", code=2).err
    assert busy("audit", "prune", "--older-than", "30d", "--yes").out == "no row is that old\n"
    told = busy("audit", "prune", "--older-than", "0.001", "--yes", "--reason", "spring", "--json").json
    assert 0 < told["rows"] <= before
    (row,) = rows(busy, "--operation", "prune")
    assert row["reason"] == "spring"
    assert busy("audit", "verify", "--json").json["ok"]


def test_progress_is_for_terminals_only(busy: Vfs, tmp_path: Path) -> None:
    shown = busy.at_terminal("audit", "export", "-o", str(tmp_path / "out.json"))
    assert shown.code == 0
    assert "━" in shown.out
    piped = busy("audit", "export", "-o", str(tmp_path / "out.json"))
    assert "━" not in piped.err


def test_colour_is_for_terminals_that_want_it(busy: Vfs) -> None:
    assert "\x1b[31mdenied" in busy.at_terminal("audit", "log").out
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[3" not in busy.at_terminal("audit", "log", **more).out
        assert "\x1b[3" not in busy.at_terminal("session", "list", "--all", **more).out


def test_tables_at_a_terminal_have_lines_and_escape_as_well(busy: Vfs) -> None:
    (busy.directory / "evil\x1b[31m[bold]name").write_text("x")
    shown = busy.at_terminal("ls", "-l", "/repo", "--trust", "workspace", NO_COLOR="1").out
    assert "───" in shown
    assert "evil\\x1b[31m[bold]name" in shown


def test_a_thousand_entries_come_in_order(busy: Vfs) -> None:
    with open_sandbox(
        busy.directory, trust_level="session", home=Path(busy.environment["VFS_HOME"])
    ) as sandbox:
        for number in range(500):
            sandbox.write(f"file-{number}", "x")
        session = sandbox.session.id
    found = rows(busy, "--session", session)
    assert [row["path"] for row in found if row["operation"] == "write"] == [
        f"/session/working/file-{number}" for number in range(500)
    ]


def test_the_installed_command_reads_the_log(busy: Vfs) -> None:
    done = subprocess.run(
        [VFS, "audit", "log", "--json"],
        cwd=busy.directory,
        env=busy.environment,
        capture_output=True,
        check=True,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == rows(busy)
