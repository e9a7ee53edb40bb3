"""The provider `local`: runs commands in the mount, as the caller, without any isolation (seed 000, SandboxLocal).

The command sees the whole host. What it does in the zones goes through the kernel as everywhere; what it does
elsewhere nobody checks and nobody records.
"""

import contextlib
import os
import shutil
import signal
from pathlib import Path

from vfs.exec.child import Child
from vfs.exec.errors import CommandNotExecutableError
from vfs.exec.lookup import View, find_program
from vfs.exec.ports import MARK, Command
from vfs.kernel.errors import UnavailableError

__all__ = ["Local", "LocalProcess"]


class LocalProcess(Child):
    """A command of this host, and all that carries its mark."""

    def __init__(self, command: Command, argv: list[str], *, env: dict[str, str], cwd: str) -> None:
        """Start `argv`; `env` has the mark."""
        self._mark = f"{MARK}={env[MARK]}".encode()
        super().__init__(
            argv, env=env, cwd=cwd, stdin=command.stdin, stdout=command.stdout, stderr=command.stderr,
            own_session=not command.terminal,
        )  # fmt: skip

    def kill(self) -> None:
        """Kill the command, and what it has started that still carries its mark."""
        super().kill()
        killed: set[int] = set()
        while fresh := {pid for pid in _processes() if pid not in killed and self._kill_marked(pid)}:
            killed |= fresh  # one that was being forked meanwhile is found in the next round

    def _kill_marked(self, pid: int) -> bool:
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            # The descriptor is the process's, so what is read between is about the one that is killed.
            if self._mark not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True


def _processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    return []


class HostView(View):
    """The host as it is."""

    def on_host(self, path: str) -> str | None:
        """Return the path itself."""
        return path

    def hint(self, program: str) -> str | None:  # noqa: ARG002 (the host has no other place to look)
        """Know nothing more."""
        return None


class Local:
    """Runs commands on the host itself. Thread-safe."""

    name = "local"
    # Seed 000: this must stay False. Whoever routes by it would otherwise take the host for a sandbox.
    isolated = False

    def prepare(self) -> None:
        """Need to know nothing."""

    def start(self, command: Command) -> LocalProcess:
        """Start a command in the mount (see `vfs.exec.ports.Provider`)."""
        env = {"HOME": f"{command.mount_point}{command.home}", **command.env}
        env.setdefault("PATH", os.environ.get("PATH", os.defpath))
        env[MARK] = command.mark or str(command.mount_point)
        cwd = f"{command.mount_point}{command.cwd}"
        find_program(command.argv[0], cwd, HostView(env["PATH"]))
        argv = [*_own_session(), *command.argv] if command.terminal else [*command.argv]
        try:
            return LocalProcess(command, argv, env=env, cwd=cwd)
        except OSError as error:
            raise CommandNotExecutableError(
                f"`{command.argv[0]}` cannot be executed: {(error.strerror or 'failed').lower()}"
            ) from error


def _own_session() -> list[str]:
    found = shutil.which("setsid")
    if found is None:
        raise UnavailableError(
            "an interactive command needs `setsid`, which is not installed", hint="install util-linux"
        )
    return [found, "--ctty", "--"]
