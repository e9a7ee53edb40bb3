"""Commands in a session: seed 000's SandboxService.

with SandboxService.open("path/to/project", ExecOptions(trust_level=TrustLevel.WORKSPACE)) as service:
    result = service.exec(["grep", "-r", "TODO", "/repo"])
    print(result.exit_code, result.stdout)
"""

import os
import subprocess
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self

from vfs.config import FILE_NAME, Settings, load_settings
from vfs.exec.attend import Ending, Output
from vfs.exec.environment import build_environment, chosen
from vfs.exec.execution import Execution
from vfs.exec.mounted import MountedSession, read_permitted
from vfs.exec.ports import Command, Network, Provider
from vfs.exec.providers import provider as provider_named
from vfs.kernel.errors import ConfigError, NotFoundError
from vfs.kernel.kernel import Kernel
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.sessions import DEFAULT_WORKSPACE, Session
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs.layout import Layout, vfs_home
from vfs.project import open_project

__all__ = ["ExecOptions", "ExecResult", "SandboxService"]


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


class SandboxService:
    """A place where one session's commands run (seed 000, SandboxService); made by `open`.

    The zones are mounted at the first command and stay so until `destroy`, or until it is left as a context
    manager. Commands may run at the same time, from several threads; each ends with the thread it was started
    by, and with the service.
    """

    def __init__(
        self, project: Path, kernel: Kernel, session: Session, options: ExecOptions, settings: Settings
    ) -> None:
        self.sandbox = Sandbox(kernel, session, face="exec")
        self.project = project
        self.kernel = kernel
        self.options = options
        self.settings = settings.exec
        self._elsewhere = settings.zones
        self._session = session
        self._lock = threading.Lock()
        self._provider: Provider = provider_named(options.provider or settings.exec.provider)
        self._mounted: MountedSession | None = None

    @classmethod
    def open(cls, project: str | os.PathLike[str], options: ExecOptions | None = None) -> Self:
        """Open or resume a session of a project. Raises what `vfs.project.open_sandbox` raises, and ConfigError."""
        options = options or ExecOptions()
        directory = Path(project).absolute()
        own = load_settings(directory / FILE_NAME)
        settings = options.settings or own
        if settings != own:
            # The mount's server reads the project's own; it would enforce other rules than were asked for.
            raise ConfigError(
                "commands run under the settings in the project's vfs.toml, and others were given",
                hint=f"write them to `{directory / FILE_NAME}`",
            )
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
    def zones(self) -> frozenset[Zone]:
        """The zones that are not in their usual place under the project."""
        return frozenset({*self._elsewhere, *self.options.zones})

    @property
    def network(self) -> Network:
        """The network that commands have."""
        return (self.options.network or self.settings.network) if self.isolated else "host"

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
            execution = self.execution(argv, env=env or {}, cwd=cwd, streams=streams)
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
        try:
            self.unmount()
        finally:
            self.kernel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    # What these are made of

    def mount(self) -> MountedSession:
        """Mount the zones, if they are not, and return where they are."""
        with self._lock:
            if self._mounted is None:
                mounted = MountedSession(
                    self.project, self.kernel, self._session, zones=self.options.zones, home=self.options.home
                )
                try:
                    mounted.mount(self._provider.prepare)
                except BaseException:
                    mounted.close()
                    raise
                self._mounted = mounted
            return self._mounted

    def unmount(self) -> None:
        """Unmount the zones until the next command; then all that commands did is on the log."""
        with self._lock:
            mounted, self._mounted = self._mounted, None
            if mounted is not None:
                mounted.close()

    def execution(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] = MappingProxyType({}),
        cwd: str | None = None,
        streams: Mapping[str, int] = MappingProxyType({}),
        terminal: bool = False,
    ) -> Execution:
        """Return a command that is ready to run; `streams` are descriptors by name, else this process's own."""
        settings, options = self.settings, self.options
        mounted = self.mount()
        added = {
            **chosen(settings.environment, os.environ, optional=True),
            **chosen(options.env, os.environ),
            **env,
        }
        command = Command(
            argv=tuple(argv),
            mount_point=mounted.point,
            cwd=self._directory(cwd or options.cwd),
            env=build_environment(os.environ, added, session_id=self.session_id, terminal=terminal),
            network=self.network,
            read_only=(
                *(self.project / Path(path).expanduser() for path in settings.read_only),
                *(Path(path).expanduser() for path in options.read_only),
            ),
            hidden=(self.project,),
            secret=(Layout(self.project).root, options.home or vfs_home(), mounted.point.parent),
            terminal=terminal,
            mark=mounted.mark,
            stdin=streams.get("stdin"),
            stdout=streams.get("stdout"),
            stderr=streams.get("stderr"),
        )
        return Execution(self._provider, command, self.kernel, self.sandbox.session, lost=mounted.end)

    def _directory(self, wanted: str | None) -> str:
        if wanted is None:
            return "/repo" if read_permitted(self.sandbox, "/repo") else self.sandbox.session_path
        path = self.sandbox.resolve(wanted)
        if path != "/" and not self.sandbox.stat(path).is_directory:
            raise NotFoundError(f"the working directory `{wanted}` is not a directory", path)
        return path


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
