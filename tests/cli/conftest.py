"""The real command, in a process of its own, on a project of its own."""

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vfs.project import open_sandbox

ROOT = Path(__file__).resolve().parents[2]
VFS = str(Path(sys.executable).with_name("vfs"))


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return its output as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Return its output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        """Return the JSON error object on standard error."""
        found: dict[str, Any] = json.loads(self.err)["error"]
        return found


class Warm:
    """A process that has everything imported and runs each command in a fork of itself (see warm.py)."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.warm"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(
        self, arguments: Sequence[str], stdin: bytes, directory: Path, environment: dict[str, str]
    ) -> tuple[int, bytes, bytes]:
        """Run one command; return its exit code and what it wrote."""
        files = {name: self._directory / name for name in ("in", "out", "err")}
        files["in"].write_bytes(stdin)
        for name in ("out", "err"):
            files[name].unlink(missing_ok=True)
        request = {"arguments": list(arguments), "directory": str(directory), "environment": environment}
        line = json.dumps({**request, **{name: str(path) for name, path in files.items()}})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return code, files["out"].read_bytes(), files["err"].read_bytes()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@dataclass(frozen=True)
class Vfs:
    """Runs `vfs` in a directory: each time in a process of its own."""

    directory: Path
    environment: dict[str, str]
    warm: Warm

    def __call__(
        self, *arguments: str, code: int | None = 0, stdin: bytes = b"", cwd: Path | None = None, **more: str
    ) -> Done:
        """Run to the end; `code` is the exit code that is right (None: any), `more` is environment."""
        environment = {**self.environment, **more}
        return _checked(code, *self.warm.run(arguments, stdin, cwd or self.directory, environment))

    def real(
        self, *arguments: str, code: int | None = 0, stdin: bytes = b"", cwd: Path | None = None, **more: str
    ) -> Done:
        """Run the installed command itself, interpreter and all; otherwise as when called."""
        done = subprocess.run(
            [VFS, *arguments],
            cwd=cwd or self.directory,
            env={**self.environment, **more},
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return _checked(code, done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start it in the background, with pipes for its output."""
        return subprocess.Popen(
            [VFS, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def at_terminal(self, *arguments: str, answer: str = "", **more: str) -> Done:
        """Run it on a terminal; both its streams are in `out`. `answer` is typed once it asks."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execve(VFS, [VFS, *arguments], {**self.environment, "TERM": "xterm-256color", **more})
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        shown = b""
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                if not select.select([terminal], [], [], 1)[0]:
                    continue
                try:
                    data = os.read(terminal, 65536)
                except OSError:
                    break
                if not data:
                    break
                shown += data
                if answer and b"[y/N]" in shown:
                    os.write(terminal, answer.encode())
                    answer = ""
        finally:
            os.close(terminal)
        _, status = os.waitpid(pid, 0)
        return Done(os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n"), "")


def _checked(wanted: int | None, code: int, out: bytes, err: bytes) -> Done:
    found = Done(code, out.decode("utf-8", "surrogateescape"), err.decode())
    assert wanted is None or found.code == wanted, f"exit code {found.code}\n{found.out}\n{found.err}"
    assert "Traceback" not in found.err
    return found


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """Return the process that runs most commands."""
    process = Warm(tmp_path_factory.mktemp("warm"))
    yield process
    process.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return where the commands of all tests keep compiled modules, as an installed command has them."""
    return str(tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def environment(tmp_path: Path, compiled: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VFS_", "PYTHON", "NO_COLOR"))
    }
    home = tmp_path / "home"
    return {**kept, "VFS_HOME": str(home), "PYTHONPYCACHEPREFIX": compiled, "LANG": "C.UTF-8"}


@pytest.fixture
def bare(tmp_path: Path, environment: dict[str, str], warm: Warm) -> Vfs:
    """Return the command in a directory that is no project yet."""
    directory = tmp_path / "project"
    (directory / "src").mkdir(parents=True)
    (directory / "README.md").write_text("hello\n")
    (directory / "src" / "main.py").write_text("print('hello')\n")
    return Vfs(directory, environment, warm)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Path:
    """Return a directory with a project that `vfs init` has made, and its keys, to be copied."""
    directory = tmp_path_factory.mktemp("made")
    (directory / "project").mkdir()
    Vfs(directory / "project", {**os.environ, "VFS_HOME": str(directory / "home")}, warm)("init")
    return directory


@pytest.fixture
def vfs(bare: Vfs, made: Path, tmp_path: Path) -> Vfs:
    """Return the command in a project."""
    for name in ("project", "home"):
        shutil.copytree(made / name, tmp_path / name, dirs_exist_ok=True)
    return bare


@pytest.fixture
def session(vfs: Vfs) -> str:
    """Return the id of an open session at trust level `session`."""
    return start_session(vfs, "session")


def start_session(vfs: Vfs, trust: str) -> str:
    """Start a session as a program would, and leave it open."""
    with open_sandbox(vfs.directory, trust_level=trust, home=Path(vfs.environment["VFS_HOME"])) as sandbox:
        return sandbox.session.id


def rows(vfs: Vfs, *filters: str) -> list[dict[str, Any]]:
    """Return entries of the audit log."""
    return vfs("audit", "log", "--json", "--limit", "0", *filters).lines
