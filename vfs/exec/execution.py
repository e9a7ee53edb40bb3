"""One command, on the log from before its start to its end."""

import time
from collections.abc import Generator
from typing import Any

from vfs.exec.attend import Ending, Output, attend
from vfs.exec.ports import Command, Provider
from vfs.exec.signals import Signals
from vfs.exec.terminal import Terminal
from vfs.kernel.errors import BackendUnavailableError
from vfs.kernel.kernel import Kernel, me
from vfs.kernel.sessions import Session

__all__ = ["Execution"]


class Execution:
    """A command that is ready to run, once.

    `row` is the sequence number of its entry on the log, 0 before it runs; `seconds` is how long it took.
    `lost` is a descriptor that becomes readable when the mount has ended.
    """

    def __init__(
        self, provider: Provider, command: Command, kernel: Kernel, session: Session, *, lost: int | None
    ) -> None:
        self.command = command
        self.row = 0
        self.seconds = 0.0
        self._provider = provider
        self._kernel = kernel
        self._session = session
        self._lost = lost

    def run(
        self, timeout: float | None, *, signals: Signals | None = None, terminal: Terminal | None = None
    ) -> Generator[Output, None, Ending]:
        """Start the command, yield what it writes to its pipes, and return how it ended (see `attend`).

        Raises what the provider's `start` does, and BackendUnavailableError if the mount ended first.
        """
        session = self._session
        record = self._kernel.log.bind(
            session_id=session.id,
            workspace_id=session.workspace_id,
            trust_level=session.trust_level,
            face="exec",
        )
        self.row = record.entry(
            "exec", "exec", None, None, True, actor=me(), pending=True, metadata=self._told(timeout)
        )
        began = time.monotonic()
        try:
            process = self._provider.start(self.command)
            if terminal is not None:
                terminal.started()
            ending = yield from attend(
                process, timeout=timeout, signals=signals, terminal=terminal, lost=self._lost
            )
            self.seconds = time.monotonic() - began
            if ending.lost:
                raise BackendUnavailableError(
                    "the mount ended while the command ran, and the command with it",
                    hint=f"what it did until then is on the log; resume with `--session {session.id}`",
                )
        except BaseException as error:
            record.outcome(self.row, getattr(error, "code", "INTERRUPTED"))
            raise
        record.outcome(
            self.row, "ok", metadata={"exit_code": ending.exit_code, "seconds": round(self.seconds, 3)}
        )
        return ending

    def _told(self, timeout: float | None) -> dict[str, Any]:
        """Return what the log says of the command: the names of variables, and none of their values."""
        command = self.command
        return {
            "argv": list(command.argv),
            "cwd": command.cwd,
            "provider": self._provider.name,
            "isolated": self._provider.isolated,
            "network": command.network,
            "env": sorted(command.env),
            "read_only": [str(path) for path in command.read_only],
            "timeout": timeout,
        }
