"""The summary: what a command did, told from the audit log alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from vfs.exec.changes import net_changes
from vfs.exec.summary import Summary, render, summarize
from vfs.kernel.audit import AuditFilter
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.trust import TrustLevel
from vfs.project import memory_sandbox

from .conftest import Project, git

ABOUT: dict[str, Any] = {
    "session_id": "ses_x", "trust_level": TrustLevel.WORKSPACE, "argv": ("make", "all"), "provider": "bubblewrap",
    "isolated": True, "network": "none", "exit_code": 0, "seconds": 1.25,
}  # fmt: skip


@pytest.fixture
def sandbox() -> Any:
    with memory_sandbox(trust_level="workspace", repo={"README.md": "read me", ".env": "KEY=1"}) as sandbox:
        yield sandbox


def summary_of(sandbox: Sandbox) -> Summary:
    log = sandbox.kernel.log
    entries = log.get_entries(AuditFilter(session_id=sandbox.session.id))
    return summarize(entries, rules=sandbox.kernel.policy.rules, **ABOUT)


def changes(sandbox: Sandbox) -> dict[str, str]:
    return net_changes(sandbox.kernel.log.get_entries(AuditFilter(session_id=sandbox.session.id)))


def make(sandbox: Sandbox, path: str, text: str = "x") -> None:
    with sandbox.open(path, "w") as file:
        file.write(text)


def test_a_file_that_came_and_went_has_not_changed(sandbox: Sandbox) -> None:
    make(sandbox, "/workspace/data/temporary")
    sandbox.delete("/workspace/data/temporary")
    assert changes(sandbox) == {}


def test_a_file_that_was_replaced_has_been_updated(sandbox: Sandbox) -> None:
    make(sandbox, "/workspace/data/a")
    assert changes(sandbox) == {"/workspace/data/a": "created"}
    before = sandbox.kernel.log.get_entries()[-1].sequence
    make(sandbox, "/workspace/data/new")
    sandbox.move("/workspace/data/new", "/workspace/data/a")
    log = sandbox.kernel.log
    assert net_changes(log.get_entries(AuditFilter(session_id=sandbox.session.id, after=before))) == {
        "/workspace/data/a": "updated"
    }
    assert changes(sandbox) == {"/workspace/data/a": "created"}


def test_what_is_moved_has_gone_and_come(sandbox: Sandbox) -> None:
    make(sandbox, "/workspace/data/a")
    make(sandbox, "/workspace/data/dir1")
    sandbox.delete("/workspace/data/dir1")
    sandbox.make_dir("/workspace/data/old")
    make(sandbox, "/workspace/data/old/inner")
    before = sandbox.kernel.log.get_entries()[-1].sequence
    sandbox.move("/workspace/data/a", "/workspace/data/b")
    log = sandbox.kernel.log
    assert net_changes(log.get_entries(AuditFilter(session_id=sandbox.session.id, after=before))) == {
        "/workspace/data/a": "deleted", "/workspace/data/b": "created",
    }  # fmt: skip
    sandbox.move("/workspace/data/old", "/workspace/data/renamed")
    assert "/workspace/data/renamed/inner" in changes(sandbox)
    assert "/workspace/data/old/inner" not in changes(sandbox)


def test_reading_and_refused_writing_change_nothing(sandbox: Sandbox) -> None:
    sandbox.read("/repo/README.md")
    with pytest.raises(PermissionError):
        sandbox.write("/repo/README.md", "no")
    assert changes(sandbox) == {}


def test_refusals_of_one_reason_are_one_line_with_what_would_allow_them(sandbox: Sandbox) -> None:
    for name in ("src/a.py", "src/b.py", "src/b.py"):
        with pytest.raises(PermissionError):
            sandbox.write(f"/repo/{name}", "no")
    (refusal,) = summary_of(sandbox).refusals
    assert (refusal.operation, refusal.place, refusal.count) == ("write", "/repo/src/", 3)
    assert refusal.reason == "write not permitted in repo zone"
    assert refusal.hint == "files under /staged/ID wait for a review; trust level `full` writes at once"


def test_a_hidden_file_names_the_rule_to_lift(sandbox: Sandbox) -> None:
    with pytest.raises(FileNotFoundError):
        sandbox.read("/repo/.env")
    (refusal,) = summary_of(sandbox).refusals
    assert (refusal.place, refusal.rule) == ("/repo/.env", "env-files")
    assert refusal.hint == '`lift = ["env-files"]` under `[rules]` in vfs.toml, or trust level `full`'


def test_what_nothing_allows_has_no_hint(sandbox: Sandbox) -> None:
    with pytest.raises(FileNotFoundError):
        sandbox.read("/repo/.sandbox/state.db")
    assert [refusal.hint for refusal in summary_of(sandbox).refusals] == [None]


def test_homes_of_programs_are_left_out(sandbox: Sandbox) -> None:
    sandbox.make_dir("/session/.home/.cache", parents=True)
    make(sandbox, "/session/.home/.cache/x")
    make(sandbox, "/session/note")
    (zone,) = summary_of(sandbox).changes
    assert (zone.zone, zone.created) == ("session", ("note",))


def test_it_is_readable_in_and_without_colour(sandbox: Sandbox) -> None:
    make(sandbox, "/workspace/data/a")
    sandbox.make_dir("/staged/c1")
    make(sandbox, "/staged/c1/b")
    make(sandbox, "/staged/c1/odd\x1b[31mname")
    with pytest.raises(PermissionError):
        sandbox.write("/repo/README.md", "no")
    summary = summary_of(sandbox)
    text = render(summary)
    head, *rest = text.splitlines()
    assert head == (
        "vfs: `make all` ended with exit code 0 after 1.2 s"
        " (session ses_x, trust workspace, bubblewrap, network none)"
    )
    assert rest == [
        "  changed  /workspace: 1 created (data/a)",
        "           /staged: 2 created (c1/b, c1/odd\\x1b[31mname)",
        "  refused  write /repo/README.md: write not permitted in repo zone",
        "           → files under /staged/ID wait for a review; trust level `full` writes at once",
        "  staged   c1: waits for a review",
        "  resume   vfs exec --session ses_x -- …",
    ]
    assert "\x1b[31m" in render(summary, colour=True)
    assert json.loads(json.dumps(summary.to_dict()))["staged"] == ["c1"]


def test_a_command_on_the_mount(project: Project) -> None:
    summary = project.summary(
        "sh", "-c",
        "cat README.md .env; echo x > README.md; echo x > new; echo d > /workspace/data/found;"
        " echo r > /session/outputs/report; echo more >> /session/outputs/report; mkdir -p /staged/fix/src;"
        " echo s > /staged/fix/src/s.py; touch /tmp/unseen; exit 3",
        trust_level="workspace",
    )  # fmt: skip
    assert summary["exit_code"] == 3
    assert [(zone["zone"], zone["created"]) for zone in summary["changes"]] == [
        ("session", ["outputs/report"]), ("workspace", ["data/found"]), ("staged", ["fix/src/s.py"]),
    ]  # fmt: skip
    assert summary["staged"] == ["fix"]
    assert {(one["operation"], one["rule"]) for one in summary["refusals"]} == {
        ("write", "matrix"), ("list", "env-files"),
    }  # fmt: skip
    assert (Path(summary["outputs"]) / "report").read_text() == "r\nmore\n"
    assert git("status", "--short", cwd=project.path) == "?? .env\n"
    again = project.summary(
        "sh", "-c", "sed -i s/r/R/ /session/outputs/report", session_id=summary["session_id"]
    )
    (zone,) = again["changes"]
    assert (zone["updated"], zone["created"]) == (["outputs/report"], [])
