"""What the options before the command say: which project, settings and workspace."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vfs.kernel.errors import ConfigError

if TYPE_CHECKING:
    from vfs.config import Settings
    from vfs.kernel.kernel import Kernel
    from vfs.kernel.sandbox import Sandbox
    from vfs.kernel.sessions import Session
    from vfs.kernel.trust import TrustLevel
    from vfs.kernel.zones import Zone

__all__ = ["Invocation"]


@dataclass(frozen=True)
class Invocation:
    """One call of the command; None is what was not said."""

    project: Path | None
    config: Path | None
    workspace: str | None

    @cached_property
    def directory(self) -> Path:
        """Return the project's directory. Raises ConfigError if the one named is none."""
        from vfs.layout import find_project

        return find_project(self.project)

    @cached_property
    def settings(self) -> "Settings":
        """Return the settings in force. Raises ConfigError if they are broken."""
        from vfs.config import FILE_NAME, load_settings

        return load_settings(self.config or self.directory / FILE_NAME, required=self.config is not None)

    @property
    def workspace_id(self) -> str:
        """Return the workspace to work in."""
        from vfs.kernel.sessions import DEFAULT_WORKSPACE

        return self.workspace or DEFAULT_WORKSPACE

    def require_project(self) -> None:
        """Raise ConfigError unless the project was made: a command that only looks makes none."""
        if not (self.directory / ".sandbox").is_dir():
            raise ConfigError(
                f"`{self.directory}` is no project yet",
                hint="`vfs init` makes it one; `--project DIR` names another directory",
            )

    @contextlib.contextmanager
    def kernel(self, *, make: bool = False, zones: "dict[Zone, str] | None" = None) -> Iterator["Kernel"]:
        """Open the project's kernel, and close it at the end; `make` makes a project of the directory."""
        from vfs.project import open_project

        if not make:
            self.require_project()
        kernel = open_project(self.directory, settings=self.settings, zones=zones)
        try:
            yield kernel
        finally:
            kernel.close()

    def enter(self, kernel: "Kernel", session_id: str | None, trust: "TrustLevel | None") -> "Session":
        """Resume the session named, or start one at `trust`, else at the level of the settings.

        Raises ConfigError if the session named has another level than the one that was asked for.
        """
        if session_id is None:
            return kernel.start(
                trust_level=trust or self.settings.session.trust, workspace_id=self.workspace_id
            )
        session = kernel.resume(session_id)
        if trust is not None and trust is not session.trust_level:
            raise ConfigError(
                f"session `{session.id}` has trust level `{session.trust_level}`, not `{trust}`",
                hint="`vfs session promote` and `vfs session demote` change it",
            )
        return session

    @contextlib.contextmanager
    def sandbox(self, session_id: str | None, trust: "TrustLevel | None") -> Iterator["Sandbox"]:
        """Open a sandbox for one command: a session that was not named ends with it."""
        from vfs.kernel.sandbox import Sandbox

        with self.kernel() as kernel:
            session = self.enter(kernel, session_id, trust)
            try:
                yield Sandbox(kernel, session, face="cli")
            finally:
                if session_id is None:
                    kernel.end(session.id)
