"""Seed 001's verification tests, through the Python API, on a project directory and in memory.

The same tests through a real mount are in tests/mount/test_seed_verification.py.
"""

import pytest

from tests.kernel.worlds import World
from vfs.kernel.audit import AuditFilter
from vfs.kernel.errors import NotFoundError, PermissionError
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone


class TestUntrustedContentIsolation:
    def test_blocks_untrusted_session_from_reading_repo_content(self, world: World) -> None:
        world.put_repo({"secrets.md": "secret"})
        sandbox = world.sandbox("untrusted")
        with pytest.raises(PermissionError):
            sandbox.read("/repo/secrets.md")
        entries = sandbox.kernel.log.get_entries(AuditFilter(operation="read"))
        assert [(e.path, e.allowed, e.trust_level) for e in entries] == [
            ("/repo/secrets.md", False, "untrusted")
        ]

    def test_blocks_untrusted_session_from_reading_workspace_data(self, world: World) -> None:
        with pytest.raises(PermissionError):
            world.sandbox("untrusted").read("/workspace/data/previous-analysis.md")

    def test_allows_untrusted_to_stage_new_files_but_not_overwrite(self, world: World) -> None:
        sandbox = world.sandbox("untrusted")
        sandbox.write("/staged/commit-1/new-file.md", "content")
        with pytest.raises(PermissionError, match="cannot overwrite staged files"):
            sandbox.write("/staged/commit-1/new-file.md", "malicious")
        assert world.sandbox("session").read("/staged/commit-1/new-file.md") == "content"

    def test_exposes_trust_level_via_security_context(self, world: World) -> None:
        context = world.sandbox("untrusted").security_context
        assert context.trust_level == "untrusted"
        assert context.permissions[Zone.REPO].readable is False


class TestSessionIsolation:
    def test_isolates_sessions_from_each_other(self, world: World) -> None:
        first, second = world.sandbox(), world.sandbox()
        first.write("/session/working/secret.md", "session1 data")
        path = f"/session/{first.session.id}/working/secret.md"
        with pytest.raises(PermissionError):
            second.read(path)
        assert first.read(path) == "session1 data"

    def test_another_sessions_path_is_a_violation_whether_or_not_it_exists(self, world: World) -> None:
        sandbox = world.sandbox()
        world.sandbox(session_id="other-one")
        for other in ("ses_aaaaaaaaaaaaaaaa", "other-one"):
            with pytest.raises(PermissionError):
                sandbox.read(f"/session/{other}/working/x")
        rows = sandbox.kernel.log.get_entries(AuditFilter(operation="security_violation"))
        assert [row.allowed for row in rows] == [False, False]


class TestAuditLogging:
    def test_logs_all_file_operations(self, world: World) -> None:
        sandbox = world.sandbox()
        sandbox.write("/session/working/file.md", "content")
        sandbox.read("/session/working/file.md")
        sandbox.list("/session/working")
        entries = sandbox.kernel.log.get_entries(AuditFilter(session_id=sandbox.session.id))
        assert [entry.operation for entry in entries] == ["write", "read", "list"]
        assert [entry.outcome for entry in entries] == ["ok", "ok", "ok"]
        assert entries[0].bytes_written == 7
        assert entries[1].bytes_read == 7


class TestPdfAnalysisWorkflow:
    def test_supports_caching_downloaded_pdfs(self, world: World) -> None:
        sandbox = world.sandbox()
        sandbox.write_bytes("/workspace/cache/pdfs/report.pdf", b"%PDF")
        assert sandbox.exists("/workspace/cache/pdfs/report.pdf")
        sandbox.write("/session/working/analysis.md", "# Analysis\n...")
        sandbox.stage([{"repo_path": "analyses/report-analysis.md", "content": "# Analysis\n..."}])
        assert len(sandbox.staged_commits()) == 1

    def test_stages_files_for_git_sync(self, world: World) -> None:
        sandbox = world.sandbox()
        commit_id = sandbox.stage(
            [
                {"repo_path": "docs/analysis.md", "content": "# Analysis"},
                {"repo_path": "docs/summary.md", "content": "# Summary"},
            ]
        )
        commit = sandbox.staged_commit(commit_id)
        assert len(commit.files) == 2
        assert commit.status == "pending"


class TestWorkspaces:
    def test_persists_workspace_data_across_sessions(self, world: World) -> None:
        world.sandbox(workspace_id="test-workspace").write("/workspace/data/notes.md", "My notes")
        assert world.sandbox(workspace_id="test-workspace").read("/workspace/data/notes.md") == "My notes"

    def test_isolates_workspaces_from_each_other(self, world: World) -> None:
        world.sandbox(workspace_id="project-a").write("/workspace/data/secret.md", "project-a secret")
        with pytest.raises(NotFoundError):
            world.sandbox(workspace_id="project-b").read("/workspace/data/secret.md")

    def test_isolates_staged_commits_of_workspaces_from_each_other(self, world: World) -> None:
        commit_id = world.sandbox(workspace_id="a").stage([{"repo_path": "x", "content": "1"}])
        other = world.sandbox(workspace_id="b")
        assert other.staged_commits() == []
        with pytest.raises(NotFoundError):
            other.staged_commit(commit_id)


class TestBackendParity:
    def test_maps_virtual_paths_correctly(self, world: World) -> None:
        sandbox = world.sandbox()
        sandbox.write("/session/working/test.md", "content")
        assert sandbox.read("/session/working/test.md") == "content"
        assert sandbox.read("test.md") == "content"

    def test_enforces_same_permission_model(self, world: World) -> None:
        with pytest.raises(PermissionError):
            world.sandbox("untrusted").read("/repo/file.md")


class TestTrustLevelTransitions:
    def test_workspace_trust_enables_repo_reading(self, world: World) -> None:
        world.put_repo({"data.md": "data"})
        with pytest.raises(PermissionError):
            world.sandbox("untrusted").read("/repo/data.md")
        assert world.sandbox("workspace").read("/repo/data.md") == "data"

    def test_full_trust_enables_repo_writing(self, world: World) -> None:
        sandbox = world.sandbox("full")
        sandbox.write("/repo/new-file.md", "content")
        assert sandbox.exists("/repo/new-file.md")

    def test_a_token_promotes_a_living_session(self, world: World) -> None:
        world.put_repo({"data.md": "data"})
        sandbox = world.sandbox("untrusted")
        token = sandbox.kernel.promotions.issue(
            sandbox.session.id, TrustLevel.WORKSPACE, who="ada", reason="looked at the page"
        )
        sandbox.promote(token)
        assert sandbox.read("/repo/data.md") == "data"
        (row,) = sandbox.kernel.log.get_entries(AuditFilter(operation="promote"))
        assert row.metadata is not None
        assert (row.metadata["who"], row.metadata["reason"]) == ("ada", "looked at the page")


class TestErrorRecovery:
    def test_preserves_staged_files_after_failed_operations(self, world: World) -> None:
        sandbox = world.sandbox()
        commit_id = sandbox.stage([{"repo_path": "file.md", "content": "important content"}])
        with pytest.raises(PermissionError):
            sandbox.write("/repo/file.md", "a push that fails")
        commit = sandbox.staged_commit(commit_id)
        assert commit.status == "pending"
        assert len(commit.files) == 1

    def test_persists_session_data_for_crash_recovery(self, world: World) -> None:
        world.sandbox(session_id="recovery-test-session").write("/session/working/draft.md", "in progress")
        again = world.sandbox(session_id="recovery-test-session")
        assert again.read("/session/working/draft.md") == "in progress"
