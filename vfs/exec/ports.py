"""The provider protocol: where commands run, and how one is started there (seed 000, SandboxService).

`bubblewrap` and `local` implement it here; containers and cloud sandboxes fit behind the same few names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Literal, Protocol

from vfs.kernel.errors import ConfigError

__all__ = ["HOME", "MARK", "ZONES", "Command", "Network", "Process", "Provider"]

Network = Literal["none", "host"]

ZONES = ("session", "workspace", "repo", "staged", "workers")
"""The directories of the mount, each of which a command has before it under the root."""

MARK = "VFS_EXEC"
"""The variable by which what a command has started is found again, in whatever session or group it hides."""

HOME = "/session/.home"
"""Where HOME is, as a virtual path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command to start.

    `argv` is never empty, and never goes through a shell. `mount_point` is the host's directory that holds
    the zones. `cwd` and `home` are virtual paths. `env` is all of the environment that the caller wants; a
    provider adds what only it can know (HOME, PATH). `read_only` are host paths to show at the same place;
    `hidden` are not to be seen through any other that is shown, `secret` not even if they are named. With
    `terminal` the standard streams are a terminal of the command's own. `mark` is the value of the variable
    MARK. `stdin`, `stdout`, `stderr` are as for `subprocess.Popen`: a descriptor, PIPE, DEVNULL or None for
    the caller's.
    """

    argv: tuple[str, ...]
    mount_point: Path
    cwd: str
    home: str = HOME
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    network: Network = "none"
    read_only: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    secret: tuple[Path, ...] = ()
    terminal: bool = False
    mark: str = ""
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ConfigError("no command was given", hint="name it after `--`, e.g. `vfs exec -- ls /repo`")
        for text in (*self.argv, *self.env.values()):
            if "\0" in text:
                raise ConfigError("a command's arguments and environment cannot hold NUL")
        for name in self.env:
            if not name or "=" in name or "\0" in name:
                raise ConfigError(f"`{name}` cannot name an environment variable")


class Process(Protocol):
    """A command that was started. Thread-safe."""

    @property
    def pid(self) -> int:
        """The process on this host that stands for the command; ending it ends the command."""
        ...

    @property
    def stdin(self) -> IO[bytes] | None:
        """Where to write what the command reads, if that was asked to be a pipe."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """Where to read what the command writes, if that was asked to be a pipe."""
        ...

    @property
    def stderr(self) -> IO[bytes] | None:
        """Where to read the command's messages, if that was asked to be a pipe."""
        ...

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the command has ended."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, 128 and the signal's number for a command that a signal ended.

        Raises TimeoutError after `timeout` seconds; UnavailableError if the provider could not start the
        command after all.
        """
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the command and what runs with it; nothing happens if it has ended."""
        ...

    def kill(self) -> None:
        """End the command and everything it has started, at once and without asking."""
        ...

    def close(self) -> None:
        """End whatever is left and release what the process held; a second call does nothing."""
        ...


class Provider(Protocol):
    """A place where commands run."""

    @property
    def name(self) -> str:
        """What it is called in settings and on the command line."""
        ...

    @property
    def isolated(self) -> bool:
        """Whether a command can reach nothing of the host but what it is shown (seed 000)."""
        ...

    def prepare(self) -> None:
        """Find out what `start` will have to know, while the caller waits for something else anyway."""
        ...

    def start(self, command: Command) -> Process:
        """Start a command and return at once; it does not outlive the thread that called.

        Raises CommandNotFoundError and CommandNotExecutableError for a program that is not there or cannot
        be executed, ConfigError for what contradicts itself, UnavailableError if this machine lacks what
        the provider needs.
        """
        ...
