"""Sandboxes in memory, and the audit rows that tools leave."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from vfs.config import Settings
from vfs.kernel.audit import AuditEntry, AuditFilter
from vfs.kernel.sandbox import Sandbox
from vfs.project import memory_sandbox
from vfs_tools.functions import SandboxToolset, ToolLimits


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VFS_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("VFS_WORKERS_PATH", raising=False)


class World:
    """Makes sandboxes that are closed at the end, and toolsets over them."""

    def __init__(self) -> None:
        self.open: list[Sandbox] = []

    def sandbox(
        self,
        level: str = "workspace",
        *,
        repo: Mapping[str, str | bytes] | None = None,
        workers: Mapping[str, str | bytes] | None = None,
        settings: Settings | None = None,
    ) -> Sandbox:
        made = memory_sandbox(trust_level=level, repo=repo, workers=workers, settings=settings)
        self.open.append(made)
        return made

    def toolset(
        self, level: str = "workspace", *, limits: ToolLimits | None = None, **options: Any
    ) -> SandboxToolset:
        return SandboxToolset(self.sandbox(level, **options), limits=limits)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    for sandbox in made.open:
        sandbox.close()


def rows(sandbox: Sandbox, **wanted: Any) -> list[AuditEntry]:
    """Return the session's audit entries, oldest first."""
    entries = sandbox.kernel.log.get_entries(AuditFilter(session_id=sandbox.session.id, **wanted))
    return sorted(entries, key=lambda entry: entry.sequence)
