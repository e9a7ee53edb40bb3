"""Real agents in the jail on the mount: what each may do is done, what it may not is refused, all is recorded."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.agents.drivers import AgentDriver
from tests.agents.model_server import Say, ScriptedModel, Step
from vfs.kernel.audit import AuditEntry
from vfs.kernel.trust import TrustLevel

from .conftest import ROOT, Project, git


def run_agent(
    project: Project, driver: AgentDriver, model: ScriptedModel, prompt: str, session: str
) -> "subprocess.CompletedProcess[str]":
    options = {
        "session_id": session,
        "network": "host",
        "env": [f"{name}={value}" for name, value in driver.env(model.url).items()],
        "read_only": [str(directory) for directory in driver.directories],
        "timeout": 120,
        "report": str(project.home.parent / "report.json"),
    }
    argv = [*driver.command(prompt)]
    return subprocess.run(
        project.argv(*argv, **options), cwd=ROOT, env=project.env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=240, check=False,
    )  # fmt: skip


def prepare(project: Project, driver: AgentDriver, url: str) -> str:
    """Start a session and give the agent the HOME it needs; return the session's id."""
    kernel = project.kernel()
    try:
        session = kernel.start(trust_level=TrustLevel.WORKSPACE)
    finally:
        kernel.close()
    home = project.path / ".sandbox" / "sessions" / session.id / ".home"
    home.mkdir()
    driver.prepare_home(home, url)
    return session.id


def state_of(project: Project) -> tuple[str, dict[str, str]]:
    """The host's repository: what git says, and every file outside of git and sandbox."""
    files = {
        str(path.relative_to(project.path)): path.read_text()
        for path in project.path.rglob("*")
        if path.is_file() and not {".git", ".sandbox"} & set(path.relative_to(project.path).parts)
    }
    return git("status", "--porcelain", cwd=project.path) + git("rev-list", "--all", cwd=project.path), files


@pytest.mark.xdist_group("agents")  # each takes several hundred MiB
def test_an_agent_at_workspace_trust(project: Project, agent: AgentDriver) -> None:
    before = state_of(project)
    steps: list[Step] = [
        agent.read("/repo/README.md"),
        agent.write("/workspace/data/found.txt", "found by the agent\n"),
        agent.write("/session/outputs/report.md", "# Report\n"),
        agent.write("/staged/c1/src/hello.py", "print('hello')\n"),
        agent.shell("echo overwritten > /repo/README.md"),
        agent.write("/repo/new.txt", "no\n"),
        agent.shell("cat /repo/.env"),
        agent.shell("echo fine > /tmp/mine && cat /tmp/mine"),
        Say("all of it is done"),
    ]
    with ScriptedModel(steps) as model:
        session = prepare(project, agent, model.url)
        done = run_agent(project, agent, model, "do it", session)
    outcome = agent.outcome(done.stdout)
    assert (done.returncode, outcome.text, outcome.is_error) == (0, "all of it is done", False), done

    # The agent saw what it may see, and the errors.
    results = model.tool_results
    assert [agent.failed(result) for result in results] == [
        False,
        False,
        False,
        False,
        True,
        True,
        True,
        False,
    ]
    assert "# A project" in results[0].text
    assert "Permission denied" in results[4].text
    assert "No such file" in results[6].text
    assert "fine" in results[7].text

    # What it wrote is there, and the host's repository is as it was.
    sandbox = project.path / ".sandbox"
    assert (sandbox / "data" / "found.txt").read_text() == "found by the agent\n"
    assert (sandbox / "sessions" / session / "outputs" / "report.md").read_text() == "# Report\n"
    assert (sandbox / "staged" / "c1" / "src" / "hello.py").read_text() == "print('hello')\n"
    assert state_of(project) == before
    assert not Path("/tmp/mine").exists()

    # Each of these is on the log, through the mount, with the process that did it.
    def recorded(operation: str, path: str, *, allowed: bool) -> list[AuditEntry]:
        found = project.entries(
            session_id=session, operation=operation, allowed=allowed, path=path, face="fuse"
        )
        assert found, (operation, path)
        assert all(entry.pid and entry.uid == os.getuid() and entry.command for entry in found)
        return found

    assert all(entry.outcome == "ok" for entry in recorded("read", "/repo/README.md", allowed=True))
    for path in ("/workspace/data/found.txt", "/session/outputs/report.md", "/staged/c1/src/hello.py"):
        # An agent may write beside and rename: the name it ends with is on the log either way.
        assert {entry.outcome for entry in recorded("write", path, allowed=True)} == {"ok"}
    refused = recorded("write", "/repo/README.md", allowed=False)
    assert {entry.reason for entry in refused} == {"write not permitted in repo zone"}
    assert refused[0].command in ("bash", "sh", "zsh")
    assert recorded("write", "/repo/**", allowed=False)
    assert recorded("list", "/repo/.env", allowed=False)[0].rule == "env-files"

    kernel = project.kernel()
    try:
        assert kernel.log.verify().ok
        (commit,) = kernel.staging().commits()
        assert (commit.id, commit.session_id, commit.status) == ("c1", session, "pending")
        assert [file.repo_path for file in commit.files] == ["src/hello.py"]
    finally:
        kernel.close()

    summary = json.loads((project.home.parent / "report.json").read_text())
    assert summary["staged"] == ["c1"]
    created = {zone["zone"]: zone["created"] for zone in summary["changes"]}
    assert created["workspace"] == ["data/found.txt"]
    assert created["session"] == ["outputs/report.md"]
    assert "write" in {refusal["operation"] for refusal in summary["refusals"]}


@pytest.mark.xdist_group("agents")
def test_an_agent_commits_in_its_own_clone(project: Project, agent: AgentDriver) -> None:
    """What /repo refuses, a clone in the session allows; the host's repository never hears of it."""
    before = state_of(project)
    commit = "git -C clone -c user.name=A -c user.email=a@example.invalid commit -qam work"
    steps: list[Step] = [
        agent.shell("cd /session/working && git clone -q /repo clone && echo more >> clone/README.md"),
        agent.shell(f"cd /session/working && {commit} && git -C clone log --oneline | wc -l"),
        agent.shell("git -C /repo -c user.name=A -c user.email=a@example.invalid commit --allow-empty -m no"),
        Say("committed"),
    ]
    with ScriptedModel(steps) as model:
        session = prepare(project, agent, model.url)
        done = run_agent(project, agent, model, "do it", session)
    assert agent.outcome(done.stdout).text == "committed", done
    assert [agent.failed(result) for result in model.tool_results] == [False, False, True], model.tool_results
    clone = project.path / ".sandbox" / "sessions" / session / "working" / "clone"
    assert git("log", "--format=%s", cwd=clone).split() == ["work", "first"]
    assert git("fsck", "--full", cwd=clone) == ""
    assert state_of(project) == before
