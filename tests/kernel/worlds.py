"""Projects for tests, each in the forms that a test should hold for."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import vfs
from vfs.project import memory_sandbox, open_sandbox

__all__ = ["DiskWorld", "MemoryWorld", "World"]


class World:
    """One project, and the sandboxes on it that a test opened."""

    name: str

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def sandbox(
        self, trust_level: str = "session", session_id: str | None = None, workspace_id: str = "cli"
    ) -> vfs.Sandbox:
        raise NotImplementedError

    def put_repo(self, files: Mapping[str, str]) -> None:
        """Put files into the repository, as the host does."""
        raise NotImplementedError

    def close(self) -> None:
        self._stack.close()


class DiskWorld(World):
    """A project directory."""

    name = "os"

    def __init__(self, project: Path) -> None:
        super().__init__()
        self.project = project

    def sandbox(
        self, trust_level: str = "session", session_id: str | None = None, workspace_id: str = "cli"
    ) -> vfs.Sandbox:
        return self._stack.enter_context(
            open_sandbox(
                self.project, trust_level=trust_level, session_id=session_id, workspace_id=workspace_id
            )
        )

    def put_repo(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            target = self.project / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


class MemoryWorld(World):
    """Every zone in memory; all sandboxes share one kernel."""

    name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self._first = self._stack.enter_context(memory_sandbox())

    def sandbox(
        self, trust_level: str = "session", session_id: str | None = None, workspace_id: str = "cli"
    ) -> vfs.Sandbox:
        kernel = self._first.kernel
        if session_id is not None and kernel.sessions.exists(session_id):
            return vfs.Sandbox(kernel, kernel.resume(session_id))
        session = kernel.start(
            trust_level=vfs.TrustLevel(trust_level), session_id=session_id, workspace_id=workspace_id
        )
        return vfs.Sandbox(kernel, session)

    def put_repo(self, files: Mapping[str, str]) -> None:
        backend = self._first.kernel.storage.backend(vfs.Zone.REPO, "cli", "")
        for path, text in files.items():
            made = ""
            for name in path.split("/")[:-1]:
                made = f"{made}/{name}".lstrip("/")
                with contextlib.suppress(FileExistsError):
                    backend.make_dir(made)
            backend.write_bytes(path, text.encode())
