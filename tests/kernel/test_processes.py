"""Several processes at work on one project at once: one log, one state, nothing lost."""

import subprocess
import sys
from pathlib import Path

import pytest

from vfs.kernel.audit import AuditFilter
from vfs.kernel.errors import SessionError
from vfs.kernel.trust import TrustLevel
from vfs.project import open_project, open_sandbox

WRITERS, FILES = 4, 40

_WORK = """
import sys
from vfs.project import open_sandbox
project, name, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open_sandbox(project, trust_level="workspace", session_id=name) as sandbox:
    for number in range(files):
        sandbox.write(f"/workspace/data/{name}-{number}", name)
        sandbox.write("/workspace/data/shared", name * 1000)
        text = sandbox.read("/workspace/data/shared")
        assert text == text[:2] * 1000, "a torn file was read"
        with sandbox.open("/workspace/data/log", "ab", buffering=0) as file:
            file.write(f"{name} {number}\\n".encode())
    sandbox.stage([{"repo_path": f"{name}.md", "content": name}], name)
"""


def test_writers_in_several_processes_lose_nothing_and_share_one_chain(tmp_path: Path) -> None:
    names = [f"w{number}" for number in range(WRITERS)]
    workers = [
        subprocess.Popen([sys.executable, "-c", _WORK, str(tmp_path), name, str(FILES)]) for name in names
    ]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * WRITERS
    with open_sandbox(tmp_path, trust_level="workspace") as sandbox:
        log = sandbox.kernel.log
        assert log.verify().ok
        for name in names:
            entries = log.get_entries(AuditFilter(session_id=name, operation="write"))
            assert sum(entry.action == "write" for entry in entries) == 2 * FILES + 1
            assert all(entry.outcome == "ok" for entry in entries)
        lines = sandbox.read("/workspace/data/log").splitlines()
        assert sorted(lines) == sorted(f"{name} {number}" for name in names for number in range(FILES))
        assert sorted(commit.message for commit in sandbox.staged_commits()) == names


def test_a_project_first_opened_by_many_processes_at_once_has_one_key(tmp_path: Path) -> None:
    opens = "import sys; from vfs.project import open_project; open_project(sys.argv[1]).close()"
    workers = [subprocess.Popen([sys.executable, "-c", opens, str(tmp_path)]) for _ in range(8)]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * 8
    with open_project(tmp_path) as kernel:
        assert kernel.log.verify().ok


def test_what_one_process_decides_the_others_see(tmp_path: Path) -> None:
    with open_sandbox(tmp_path, trust_level="workspace") as sandbox, open_project(tmp_path) as other:
        commit_id = sandbox.stage([{"repo_path": "a", "content": "1"}])
        assert [commit.id for commit in other.staging().commits()] == [commit_id]
        session_id = sandbox.session.id
        token = other.promotions.issue(session_id, TrustLevel.FULL, who="ada", reason="r")
        other.promote(session_id, token)
        sandbox.write("/repo/x", "now")
        other.end(session_id)
        with pytest.raises(SessionError, match="has ended"):
            sandbox.write("/repo/x", "later")
        assert (tmp_path / "x").read_text() == "now"
