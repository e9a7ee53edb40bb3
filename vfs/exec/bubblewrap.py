"""The provider `bubblewrap`: a jail of namespaces in which the zones are all there is to write to.

Where the command sees what:

| path | what it is |
|---|---|
| `/session` `/workspace` `/repo` `/staged` `/workers` | the mount, so every access goes through the kernel |
| `/usr` `/bin` `/lib` … `/etc` | the host's, read-only, without what is not for everyone to read |
| `/tmp` `/var/tmp` `/run` `/dev/shm` | memory of its own, gone with the command |
| `/proc` `/dev` | its own processes and the harmless devices |
| what `read_only` names | the host's, read-only, at the same path |
| all else | not there |

No capability, no host process, no network unless asked for; the host's network is all of it, sockets without
a file (abstract ones) too. Its first process dies with the thread that started it, and everything in the jail
with its first process.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from vfs.exec.child import Child
from vfs.exec.errors import CommandNotExecutableError
from vfs.exec.host import SYSTEM, Host, is_within
from vfs.exec.lookup import View, find_program, missing_interpreter
from vfs.exec.ports import MARK, ZONES, Command
from vfs.kernel.errors import ConfigError, SandboxError, UnavailableError

__all__ = ["Bubblewrap", "JailProcess", "jail_arguments", "jail_path"]

PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_CANNOT, _NOT_FOUND = 126, 127
_PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 (the jail's own, not the host's)


def jail_arguments(command: Command, host: Host) -> list[str]:
    """Return bubblewrap's options for a command, without the program and its arguments.

    Pure. The environment is not among them: it is bubblewrap's own, because an argument can be read by every
    user of the machine, and what bubblewrap was started with by the jail. Raises ConfigError for a
    `read_only` path that would take a zone's place or show what is hidden.
    """
    arguments = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]
    if host.user_namespaces:
        arguments.append("--unshare-user")
        if "--disable-userns" in host.options:
            arguments.append("--disable-userns")
    if command.network == "host":
        arguments.append("--share-net")
    if not command.terminal:
        # With a terminal the command gets one of its own in a session of its own instead.
        arguments.append("--new-session")
    arguments += _system(host)
    arguments += _read_only(command, host)
    if command.network == "host" and host.resolver is not None and not host.shows(host.resolver):
        arguments += ["--ro-bind", host.resolver, host.resolver]
    for zone in ZONES:
        arguments += ["--bind", str(command.mount_point / zone), f"/{zone}"]
    return [*arguments, "--remount-ro", "/", "--chdir", command.cwd]


def _system(host: Host) -> Iterator[str]:
    memory = ("--perms", "1777", "--tmpfs") if "--perms" in host.options else ("--tmpfs",)
    for path in host.directories:
        yield from ("--ro-bind", path, path)
    for path, target in host.links:
        yield from ("--symlink", target, path)
    for path in host.secret_files:
        yield from ("--ro-bind", "/dev/null", path)
    for path in host.secret_directories:
        yield from ("--tmpfs", path, "--remount-ro", path)
    yield from ("--proc", "/proc")
    for path in host.kernel_settings:
        yield from ("--ro-bind", path, path)
    yield from ("--dev", "/dev", *memory, "/dev/shm", "--remount-ro", "/dev")  # noqa: S108 (the jail's own)
    for path in _PRIVATE:
        yield from (*memory, path)


def _read_only(command: Command, host: Host) -> Iterator[str]:
    """Yield binds and covers, what lies above first, so that a cover is never laid bare again."""
    secret = [os.path.realpath(path) for path in command.secret]
    covered = [os.path.realpath(path) for path in (*command.hidden, *command.secret)]
    shown = {directory: directory for directory in host.directories}
    steps: dict[str, list[str]] = {}
    for path in dict.fromkeys(os.path.abspath(path) for path in command.read_only):
        real = os.path.realpath(path)
        _check_read_only(path, real, secret)
        shown[path] = real
        steps[path] = ["--ro-bind", real, path]
    for path, real in shown.items():
        for place in covered:
            if is_within(place, real) and place != real:
                steps.setdefault(path + place[len(real) :], ["--tmpfs", path + place[len(real) :]])
    for path in sorted(steps, key=lambda path: path.count("/")):
        yield from steps[path]
    for path, step in steps.items():
        if step[0] == "--tmpfs":
            yield from ("--remount-ro", path)


def _check_read_only(path: str, real: str, secret: list[str]) -> None:
    taken = ["/", "/proc", "/dev", *(f"/{zone}" for zone in ZONES)]
    if path in taken or any(is_within(path, place) for place in taken[1:]):
        raise ConfigError(
            f"`{path}` cannot be shown in the jail: the place is taken", hint="name a directory below it"
        )
    if not os.path.exists(real):
        raise ConfigError(f"`{path}` cannot be shown in the jail: it does not exist", hint="mend `--ro`")
    for place in secret:
        if is_within(real, place):
            raise ConfigError(
                f"`{path}` cannot be shown in the jail: keys, records and other sessions lie there",
                hint="copy what the command needs to another place",
            )


def jail_path(command: Command, host_path: str) -> str:
    """Return PATH in the jail: the system's, then those of the host's that `read_only` shows."""
    shown = [os.path.abspath(path) for path in command.read_only]
    more = [
        entry
        for entry in host_path.split(os.pathsep)
        if entry not in PATH and any(is_within(os.path.normpath(entry), directory) for directory in shown)
    ]
    return os.pathsep.join(dict.fromkeys([*PATH, *more]))


class JailProcess(Child):
    """A command in a jail: the child is bubblewrap, and signals go to the command behind it."""

    def __init__(
        self, command: Command, argv: list[str], *, env: dict[str, str], pass_fds: list[int]
    ) -> None:
        """Start bubblewrap, `argv`, with options of its own after the program's name."""
        self._status = b""
        self._report, report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._command = command
        self._env = env
        try:
            super().__init__(
                [argv[0], "--json-status-fd", str(report), *argv[1:]],
                env=env, stdin=command.stdin, stdout=command.stdout, stderr=command.stderr,
                pass_fds=[report, *pass_fds],
            )  # fmt: skip
        except BaseException:
            os.close(self._report)
            raise
        finally:
            os.close(report)

    def wait(self, timeout: float | None = None) -> int:
        """Return the command's exit code. Raises UnavailableError, or what the program lacks, if it never ran."""
        code = super().wait(timeout)
        if self._told("exit-code") is None and code == 1:
            raise self._not_started()
        if code in (_CANNOT, _NOT_FOUND) and self._command.terminal and (why := self._no_interpreter()):
            raise why  # said by what begins the command's session
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group, or end bubblewrap if it has not come so far yet."""
        group = self._group()
        if group is None:
            self.kill()
        else:
            self.send(group, number)

    def kill(self) -> None:
        """End the jail's first process, and with it everything in the jail."""
        super().signal(signal.SIGKILL)

    def close(self) -> None:
        """End the jail and release what it held; a second call does nothing."""
        super().close()
        if self._report >= 0:
            os.close(self._report)
            self._report = -1

    def _group(self) -> int | None:
        """Return the command's process group; None while it is still bubblewrap's own."""
        first = self._told("child-pid")
        if first is None or self.has_ended:
            return None
        try:
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            group = os.getpgid(int(children[0]))
        except (OSError, IndexError, ValueError):
            return None
        return None if group == self.pid else group

    def _told(self, key: str) -> int | None:
        """Return a number from what bubblewrap has reported so far, one JSON document a line."""
        if self._report >= 0:
            with contextlib.suppress(BlockingIOError):
                while data := os.read(self._report, 4096):
                    self._status += data
        for line in self._status.splitlines():
            with contextlib.suppress(ValueError):
                document = json.loads(line)
                if key in document:
                    return int(document[key])
        return None

    def _not_started(self) -> SandboxError:
        return self._no_interpreter() or UnavailableError(
            "bubblewrap could not start the command", hint="it says why; `vfs doctor` checks what it needs"
        )

    def _no_interpreter(self) -> SandboxError | None:
        program = self._command.argv[0]
        view = JailView(self._command, self._env["PATH"])
        interpreter = missing_interpreter(program, self._command.cwd, view)
        if interpreter is None:
            return None
        return CommandNotExecutableError(
            f"`{program}` needs `{interpreter}`, which is not in the jail", hint=view.hint(interpreter)
        )


class JailView(View):
    """What a path of the jail is on the host."""

    def __init__(self, command: Command, path: str) -> None:
        super().__init__(path)
        self._command = command
        self._shown = [*SYSTEM, *(os.path.abspath(directory) for directory in command.read_only)]
        self._hidden = [os.path.realpath(directory) for directory in (*command.hidden, *command.secret)]

    def on_host(self, path: str) -> str | None:
        """Return the host's path, or None for what the jail does not show."""
        if path.lstrip("/").partition("/")[0] in ZONES:
            return f"{self._command.mount_point}{path}"
        if path == "/" or any(is_within(place, path) for place in self._shown):
            return path
        # Of what is shown and what is hidden, that which is named more closely prevails.
        shown = max((len(place) for place in self._shown if is_within(path, place)), default=0)
        hidden = max((len(place) for place in self._hidden if is_within(path, place)), default=0)
        return path if shown > hidden else None

    def hint(self, program: str) -> str | None:
        """Say where the host has a program that the jail does not show, and how to show it."""
        found = shutil.which(program)
        if found is None:
            return None
        needed = [
            _installation(os.path.dirname(place))
            for place in dict.fromkeys((os.path.abspath(found), os.path.realpath(found)))
            if self.on_host(place) is None
        ]
        if not needed:
            return None
        options = " ".join(f"--ro {directory}" for directory in dict.fromkeys(needed))
        return f"it exists on the host at `{found}` but is not shown in the jail; add `{options}`"


def _installation(directory: str) -> str:
    """Return what a program's directory belongs to: `…/node/bin` needs `…/node/lib` beside it."""
    parent, name = os.path.split(directory)
    if name == "bin" and os.path.isdir(os.path.join(parent, "lib")) and os.path.basename(parent) != ".local":
        return parent
    return directory


class Bubblewrap:
    """Starts each command in a jail of its own. Thread-safe."""

    name = "bubblewrap"
    isolated = True

    def __init__(self, program: str | None = None) -> None:
        """Use the bubblewrap at `program`, else the one on PATH."""
        self._named = program

    def prepare(self) -> None:
        """Look at the host."""
        _ = self.host

    def start(self, command: Command) -> JailProcess:
        """Start a command in a new jail (see `vfs.exec.ports.Provider`)."""
        env = {"HOME": command.home, "TMPDIR": "/tmp", **command.env}  # noqa: S108 (the jail's own)
        env.setdefault("PATH", jail_path(command, os.environ.get("PATH", "")))
        find_program(command.argv[0], command.cwd, JailView(command, env["PATH"]))
        arguments = jail_arguments(command, self.host)
        program = [*_own_session(self.host), *command.argv] if command.terminal else [*command.argv]
        # The arguments name places of the host: the jail could read them from its first process.
        told = os.memfd_create("arguments")
        try:
            os.write(told, b"".join(os.fsencode(text) + b"\0" for text in arguments))
            os.lseek(told, 0, os.SEEK_SET)
            mark = ["--setenv", MARK, command.mark] if command.mark else []
            argv = [self._program, *mark, "--args", str(told), "--", *program]
            return JailProcess(command, argv, env=env, pass_fds=[told])
        finally:
            os.close(told)

    @cached_property
    def host(self) -> Host:
        """What this machine shows in a jail, looked at when first asked for."""
        done = subprocess.run([self._program, "--help"], capture_output=True, text=True, check=False)
        return Host.examine(frozenset(re.findall(r"--[a-z][a-z-]+", done.stdout)))

    @cached_property
    def _program(self) -> str:
        found = self._named or shutil.which("bwrap")
        if found is None:
            raise UnavailableError(
                "the jail needs bubblewrap, and `bwrap` is not installed",
                hint="install the package `bubblewrap`, or run without isolation: `--provider local`",
            )
        return found


def _own_session(host: Host) -> list[str]:
    """Return the program that makes the terminal the command's own, from inside: keys then reach nothing else."""
    for place in ("/usr/bin/setsid", "/bin/setsid"):
        if os.access(place, os.X_OK) and host.shows(os.path.realpath(place)):
            return [place, "--ctty", "--"]
    raise UnavailableError(
        "an interactive command needs `setsid`, which is not installed", hint="install util-linux"
    )
