"""A project to work on, and ways to run commands in it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import agent, claude, codex  # noqa: F401 (fixtures are found by their names)
from vfs.exec.attend import Ending, attend
from vfs.exec.bubblewrap import Bubblewrap
from vfs.exec.ports import ZONES, Command, Provider
from vfs.exec.service import ExecResult
from vfs.kernel.audit import AuditEntry, AuditFilter
from vfs.kernel.kernel import Kernel
from vfs.project import open_project

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def bwrap() -> str:
    """The installed bubblewrap."""
    found = shutil.which("bwrap")
    if found is None:
        pytest.skip("`bwrap` is not installed: install bubblewrap")
    return found


@pytest.fixture(scope="session")
def fuse() -> None:
    """Ask for a machine that can mount."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened: see `vfs doctor`")


def collect(provider: Provider, command: Command, timeout: float | None = 60) -> ExecResult:
    """Run a command to its end and return what it wrote."""
    written: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    events = attend(provider.start(command), timeout=timeout)
    while True:
        try:
            stream, data = next(events)
        except StopIteration as end:
            ending: Ending = end.value
            return ExecResult(written["stdout"].decode(), written["stderr"].decode(), ending.exit_code)
        written[stream] += data


@dataclass(frozen=True)
class Jail:
    """A jail over plain directories instead of a mount."""

    provider: Bubblewrap
    zones: Path

    def command(self, *argv: str, **options: Any) -> Command:
        options = {"cwd": "/session", "env": {"LANG": "C.UTF-8"}, "stdin": subprocess.DEVNULL, **options}
        return Command(
            argv=argv, mount_point=self.zones, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        )

    def run(self, *argv: str, **options: Any) -> ExecResult:
        return collect(self.provider, self.command(*argv, **options))

    def sh(self, script: str, **options: Any) -> ExecResult:
        return self.run("sh", "-c", script, **options)


@pytest.fixture
def zones(tmp_path: Path) -> Path:
    """A plain directory for each zone."""
    for zone in ZONES:
        (tmp_path / "zones" / zone).mkdir(parents=True)
    (tmp_path / "zones" / "session" / ".home").mkdir()
    return tmp_path / "zones"


@pytest.fixture
def jail(bwrap: str, zones: Path) -> Jail:
    return Jail(Bubblewrap(bwrap), zones)


@dataclass(frozen=True)
class Project:
    """A git repository with a `vfs exec` to run in it, as a process of its own."""

    path: Path
    home: Path
    reports: list[Path] = field(default_factory=list)
    started: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def argv(self, *argv: str, **options: Any) -> list[str]:
        return [sys.executable, "-m", "tests.exec.command", str(self.path), json.dumps(options), *argv]

    @property
    def env(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        return {
            **env,
            "VFS_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "KEY_OF_THE_CALLER": "secret-value",
        }

    def exec(self, *argv: str, input: str = "", **options: Any) -> "subprocess.CompletedProcess[str]":  # noqa: A002 (subprocess.run's own name)
        return subprocess.run(
            self.argv(*argv, **options), cwd=ROOT, env=self.env, input=input, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip

    def sh(self, script: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        return self.exec("sh", "-c", script, **options)

    def summary(self, *argv: str, **options: Any) -> Mapping[str, Any]:
        """Run a command and return its summary."""
        report = self.home.parent / f"report-{len(self.reports)}.json"
        self.reports.append(report)
        done = self.exec(*argv, report=str(report), **options)
        assert report.exists(), done
        found: Mapping[str, Any] = json.loads(report.read_text())
        return found

    def start(self, *argv: str, **options: Any) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.argv(*argv, **options), cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def kernel(self) -> Kernel:
        return open_project(self.path, home=self.home)

    def entries(self, **wanted: Any) -> list[AuditEntry]:
        with self.kernel().log as log:
            return log.get_entries(AuditFilter(**wanted))

    def mounts(self) -> list[str]:
        """What is mounted below the project now."""
        lines = Path("/proc/mounts").read_text().splitlines()
        return [line.split()[1] for line in lines if line.split()[1].startswith(f"{self.path}/")]

    def processes(self) -> list[str]:
        """The processes that have to do with the project: its servers, jails and commands."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = (
                    Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                continue
            if str(self.path) in words and int(pid) != os.getpid():
                found.append(f"{pid} {words}")
        return found


@pytest.fixture
def project(tmp_path: Path, bwrap: str, fuse: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A small repository; at the end nothing of it is mounted, nor at work."""
    path = tmp_path / "project"
    path.mkdir()
    git("init", "-q", "-b", "main", cwd=path)
    (path / "README.md").write_text("# A project\n")
    (path / ".env").write_text("TOKEN=do-not-show\n")
    git("add", "README.md", cwd=path)
    git("commit", "-q", "-m", "first", cwd=path)
    monkeypatch.setenv("VFS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    made = Project(path, tmp_path / "home")
    yield made
    for process in made.started:
        if process.poll() is None:  # the test failed
            process.terminate()
        process.communicate(timeout=60)
    assert made.mounts() == []
    assert made.processes() == []
    assert list((path / ".sandbox" / "mounts").glob("*")) == []


def git(*arguments: str, cwd: Path) -> str:
    """Run git with an identity and return what it prints."""
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]
    words: Sequence[str] = ["git", *identity, *arguments]
    return subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True).stdout
