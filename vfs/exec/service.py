"""Commands in a session: seed 000's SandboxService, and the one command of `vfs exec`.

    with SandboxService.open("path/to/project", ExecOptions(trust_level=TrustLevel.WORKSPACE)) as service:
        result = service.exec(["grep", "-r", "TODO", "/repo"])
        print(result.exit_code, result.stdout)
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

from vfs.config import FILE_NAME, Settings, load_settings
from vfs.exec.attend import Ending, Output, attend
from vfs.exec.environment import build_environment, chosen
from vfs.exec.mounted import MountedSession, read_permitted
from vfs.exec.ports import Command, Network, Provider
from vfs.exec.providers import provider as provider_named
from vfs.exec.signals import Signals
from vfs.exec.summary import Summary, summarize
from vfs.exec.terminal import Terminal, is_interactive
from vfs.kernel.audit import AuditFilter
from vfs.kernel.errors import BackendUnavailableError, ConfigError, NotFoundError
from vfs.kernel.kernel import Kernel, me
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.sessions import DEFAULT_WORKSPACE, Session
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs.project import Layout, open_project, vfs_home

__all__ = ["ExecOptions", "ExecResult", "Report", "SandboxService", "run"]

_ENDING_SIGNALS = frozenset({1, 2, 3, 15})


class ExecResult(NamedTuple):
    """What a command wrote and how it ended (seed 000, ExecResult); text that is not UTF-8 is marked as such."""

    stdout: str
    stderr: str
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOptions:
    """Where and how commands run; None is what the project's settings say.

    `session_id` resumes a session, or names the new one. `env` holds `NAME=VALUE` and `NAME`, the caller's
    value. `read_only` are further host paths that commands may read. `timeout` is in seconds; `cwd` is a
    virtual path, by default `/repo` where the session may read it. `settings`, `zones` and `home` are those
    of `vfs.project.open_project`.
    """

    trust_level: TrustLevel | None = None
    session_id: str | None = None
    workspace_id: str = DEFAULT_WORKSPACE
    provider: str | None = None
    network: Network | None = None
    env: tuple[str, ...] = ()
    read_only: tuple[str | os.PathLike[str], ...] = ()
    timeout: float | None = None
    cwd: str | None = None
    settings: Settings | None = None
    zones: Mapping[Zone, str] = field(default_factory=lambda: MappingProxyType({}))
    home: Path | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """How `run` ended: what to exit with, and what to tell."""

    exit_code: int
    summary: Summary


class SandboxService:
    """A place where one session's commands run (seed 000, SandboxService); made by `open`.

    The zones are mounted at the first command and stay so until `destroy`, or until it is left as a context
    manager. Commands may run at the same time, from several threads; each ends with the thread it was started
    by, and with the service.
    """

    def __init__(self, project: Path, kernel: Kernel, session: Session, options: ExecOptions, settings: Settings) -> None:
        self.sandbox = Sandbox(kernel, session, face="exec")
        self._project = project
        self._kernel = kernel
        self._session = session
        self._options = options
        self._settings = settings.exec
        self._home = options.home or vfs_home()
        self._provider: Provider = provider_named(options.provider or settings.exec.provider)
        self._mounted: MountedSession | None = None

    @classmethod
    def open(cls, project: str | os.PathLike[str], options: ExecOptions | None = None) -> Self:
        """Open or resume a session of a project. Raises what `vfs.project.open_sandbox` raises, and ConfigError."""
        options = options or ExecOptions()
        directory = Path(project).absolute()
        settings = options.settings or load_settings(directory / FILE_NAME)
        kernel = open_project(directory, settings=settings, zones=options.zones, home=options.home)
        try:
            return cls(directory, kernel, _session(kernel, options, settings), options, settings)
        except BaseException:
            kernel.close()
            raise

    @property
    def provider(self) -> str:
        """The name of the provider at work."""
        return self._provider.name

    @property
    def isolated(self) -> bool:
        """Whether commands are confined to the zones; False for the provider `local`, always."""
        return self._provider.isolated

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._session.id

    @property
    def network(self) -> Network:
        """The network that commands have."""
        return (self._options.network or self._settings.network) if self.isolated else "host"

    # Seed 000

    def exec(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",  # noqa: A002 (as in `subprocess.run`)
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> ExecResult:
        """Run a command to its end and return what it wrote.

        Its arguments go through no shell. A command that takes longer than `timeout` seconds is ended with
        exit code 124. Raises CommandNotFoundError, CommandNotExecutableError, UnavailableError.
        """
        written: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        events = self.exec_stream(argv, input=input, env=env, cwd=cwd, timeout=timeout)
        while True:
            try:
                stream, data = next(events)
            except StopIteration as end:
                ending: Ending = end.value
                break
            written[stream].append(data)
        out, err = (b"".join(parts).decode(errors="replace") for parts in written.values())
        return ExecResult(out, err, ending.exit_code)

    def exec_stream(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",  # noqa: A002 (as above)
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> Generator[Output, None, Ending]:
        """Run a command and yield what it writes as it does; the generator returns how it ended.

        The command starts with the first `next` and does not outlive the generator.
        """
        with tempfile.TemporaryFile() as file:
            file.write(input)
            file.seek(0)
            streams = {"stdin": file.fileno(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            execution = _Execution(self, self._command(argv, env or {}, cwd, streams))
            return (yield from execution.run(timeout))

    def read_file(self, path: str) -> str:
        """Return a file of the zones as text, through the kernel."""
        return self.sandbox.read(path)

    def write_file(self, path: str, content: str) -> None:
        """Write a file of the zones, through the kernel."""
        self.sandbox.write(path, content)

    def run_agent(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Generator[Output, None, Ending]:
        """Run an agent's command line, prompt included, and yield what it writes (seed 000, runAgent)."""
        return self.exec_stream(argv, env=env, timeout=timeout)

    def destroy(self) -> None:
        """Unmount and release everything; the session stays and can be resumed. A second call does nothing."""
        mounted, self._mounted = self._mounted, None
        try:
            if mounted is not None:
                mounted.close()
        finally:
            self._kernel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    # What an execution needs

    def mount(self) -> MountedSession:
        """Mount the zones, if they are not; return where."""
        if self._mounted is None:
            mounted = MountedSession(
                self._project, self._kernel, self._session, zones=self._options.zones, home=self._options.home
            )
            try:
                mounted.mount(self._provider.prepare)
            except BaseException:
                mounted.close()
                raise
            self._mounted = mounted
        return self._mounted

    def unmount(self) -> None:
        """Unmount the zones until the next command."""
        mounted, self._mounted = self._mounted, None
        if mounted is not None:
            mounted.close()

    def _command(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        streams: Mapping[str, int],
        *,
        terminal: bool = False,
    ) -> Command:
        settings, options = self._settings, self._options
        point = self.mount().point
        added = {
            **chosen(settings.environment, os.environ, optional=True),
            **chosen(options.env, os.environ),
            **env,
        }
        state = Layout(self._project).root
        return Command(
            argv=tuple(argv),
            mount_point=point,
            cwd=self._directory(cwd or options.cwd),
            env=build_environment(os.environ, added, session_id=self.session_id, terminal=terminal),
            network=self.network,
            read_only=tuple(Path(path) for path in (*settings.read_only, *options.read_only)),
            hidden=(self._project,),
            secret=(state, self._home, point.parent),
            terminal=terminal,
            **streams,
        )

    def _directory(self, wanted: str | None) -> str:
        if wanted is None:
            return "/repo" if read_permitted(self.sandbox, "/repo") else self.sandbox.session_path
        path = self.sandbox.resolve(wanted)
        if path != "/" and not self.sandbox.stat(path).is_directory:
            raise NotFoundError(f"the working directory `{wanted}` is not a directory", path)
        return path


class _Execution:
    """One command's life, on the log from before its start to its end."""

    def __init__(self, service: SandboxService, command: Command) -> None:
        self._service = service
        self._command = command
        self.row = 0
        self.seconds = 0.0

    def run(
        self,
        timeout: float | None,
        *,
        signals: Signals | None = None,
        terminal: Terminal | None = None,
    ) -> Generator[Output, None, Ending]:
        service, kernel = self._service, self._service._kernel  # noqa: SLF001 (its other half)
        session = service.sandbox.session
        record = kernel.log.bind(
            session_id=session.id, workspace_id=session.workspace_id, trust_level=session.trust_level, face="exec"
        )
        self.row = record.entry(
            "exec", "exec", None, None, True, actor=me(), pending=True, metadata=self._told(timeout)
        )
        began = time.monotonic()
        try:
            process = service._provider.start(self._command)  # noqa: SLF001 (as above)
            if terminal is not None:
                terminal.started()
            ending = yield from attend(
                process, timeout=timeout, signals=signals, terminal=terminal, lost=service.mount().end
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
        command = self._command
        return {
            "argv": list(command.argv),
            "cwd": command.cwd,
            "provider": self._service.provider,
            "isolated": self._service.isolated,
            "network": command.network,
            "env": sorted(command.env),
            "read_only": [str(path) for path in command.read_only],
            "timeout": timeout,
        }


def _session(kernel: Kernel, options: ExecOptions, settings: Settings) -> Session:
    found = kernel.sessions.find(options.session_id) if options.session_id is not None else None
    if found is None:
        return kernel.start(
            trust_level=options.trust_level or settings.session.trust,
            session_id=options.session_id,
            workspace_id=options.workspace_id,
        )
    if options.trust_level not in (None, found.trust_level):
        raise ConfigError(
            f"session `{found.id}` has trust level `{found.trust_level}`, not `{options.trust_level}`",
            hint="`vfs session promote` and `vfs session demote` change it",
        )
    return kernel.resume(found.id)


def run(project: str | os.PathLike[str], argv: Sequence[str], options: ExecOptions | None = None) -> Report:
    """Run one command with this process's streams, as `vfs exec` does, and return how it ended.

    Signals to this process go to the command; on a terminal it gets one of its own. Whatever happens, nothing
    stays mounted or running. Call it from the main thread. Raises what `SandboxService` raises;
    BackendUnavailableError if the mount ended before the command did.
    """
    options = options or ExecOptions()
    with Signals() as signals, SandboxService.open(project, options) as service:
        mounted = service.mount()
        timeout = options.timeout if options.timeout is not None else service._settings.timeout  # noqa: SLF001 (its other half)
        interactive = is_interactive()
        early = [number for number in signals.pending if number in _ENDING_SIGNALS]
        if interactive and not early:
            with Terminal(sys.stdin.fileno(), sys.stdout.fileno()) as terminal:
                streams = dict.fromkeys(("stdin", "stdout"), terminal.inside)
                if os.isatty(2):
                    streams["stderr"] = terminal.inside
                execution = _Execution(service, service._command(argv, {}, None, streams, terminal=True))  # noqa: SLF001
                ending = _to_the_end(execution.run(timeout, signals=signals, terminal=terminal))
        else:
            execution = _Execution(service, service._command(argv, {}, None, {}))  # noqa: SLF001
            ending = (
                Ending(128 + early[0], signal=early[0])
                if early
                else _to_the_end(execution.run(timeout, signals=signals))
            )
        session = service.sandbox.session
        service.unmount()
        summary = _summary(service, execution, ending, tuple(argv))
    return Report(ending.exit_code, summary)
