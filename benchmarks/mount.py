"""The mount beside bindfs and the bare directory: what programs do with files, and the server's memory."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.rows import Audit, Row, compared, interleave
from vfs.kernel.trust import TrustLevel
from vfs.mount import MountServer
from vfs.project import open_project

FILES = 1000
DIRECTORIES = 20
DATA = os.urandom(4096)
BIG = 64 << 20
_GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "b", "GIT_AUTHOR_EMAIL": "b@example.org",
    "GIT_COMMITTER_NAME": "b", "GIT_COMMITTER_EMAIL": "b@example.org",
}  # fmt: skip


def run(*, short: bool) -> list[Row]:
    base = Path(tempfile.mkdtemp(prefix="vfs-bench-", dir=Path.cwd()))
    try:
        return [*_workloads(base, rounds=1 if short else 5), _memory(base, files=5_000 if short else 100_000)]
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _workloads(base: Path, rounds: int) -> list[Row]:
    template = _repository(base / "template")
    with contextlib.ExitStack() as stack:
        native = base / "native"
        native.mkdir()
        places = {
            "native": native,
            "bindfs": stack.enter_context(_bindfs(base)),
            "vfs": stack.enter_context(_ours(base, "on")),
            "vfs unrecorded": stack.enter_context(_ours(base, "off")),
        }
        subjects: Mapping[str, Callable[[int], Mapping[str, float]]] = {
            name: lambda number, place=place: _round(place / f"r{number}", template)  # type: ignore[misc]  # mypy infers no lambda with a default
            for name, place in places.items()
        }
        medians = interleave(subjects, rounds)
    audit: dict[str, Audit] = {"vfs": "on", "vfs unrecorded": "off"}
    return compared("mount", medians, native="native", bindfs="bindfs", audit=audit, unit="ms", scale=1000)


def _round(place: Path, template: Path) -> Mapping[str, float]:
    """Every workload once, in a fresh directory."""
    place.mkdir()
    taken: dict[str, float] = {}

    @contextlib.contextmanager
    def timed(workload: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        taken[workload] = time.perf_counter() - started

    paths = [f"{place}/d{n % DIRECTORIES}/f{n}" for n in range(FILES)]
    for number in range(DIRECTORIES):
        os.mkdir(f"{place}/d{number}")
    with timed("create 1,000 × 4 KiB"):
        for path in paths:
            with open(path, "wb") as file:
                file.write(DATA)
    with timed("stat 1,000"):
        for path in paths:
            os.stat(path)
    with timed("read 1,000 × 4 KiB"):
        for path in paths:
            with open(path, "rb") as source:
                source.read()
    with timed("list 20 directories"):
        for number in range(DIRECTORIES):
            for entry in os.scandir(f"{place}/d{number}"):
                entry.stat()
    with timed("grep -r"):
        _run("grep", "-rc", "needle", str(place), check=False)
    with timed("rename 1,000"):
        for path in paths:
            os.rename(path, path + "x")
    with timed("remove 1,000"):
        for path in paths:
            os.unlink(path + "x")
    block = bytes(1 << 20)
    with timed("write 64 MiB"), open(place / "big", "wb", buffering=0) as big:
        big.writelines(block for _ in range(BIG >> 20))
        os.fsync(big.fileno())
    _drop_cache(place / "big")
    with timed("read 64 MiB"), open(place / "big", "rb", buffering=0) as whole:
        while whole.read(1 << 20):
            pass
    with timed("git clone"):
        _run("git", "clone", "-q", "--no-hardlinks", str(template), str(place / "clone"))
    with timed("git status"):
        _run("git", "-C", str(place / "clone"), "status", "--short")
    shutil.rmtree(place)
    return taken


def _run(*command: str, check: bool = True) -> None:
    subprocess.run(
        command, check=check, env={**os.environ, **_GIT}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def _drop_cache(path: Path) -> None:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _repository(path: Path) -> Path:
    """A git repository of 162 files."""
    path.mkdir()
    for number in range(162):
        file = path / f"package{number % 9}" / f"module{number}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"# module {number}\n" + "def function(argument):\n    return argument\n\n\n" * 60)
    _run("git", "init", "-q", str(path))
    _run("git", "-C", str(path), "add", "-A")
    _run("git", "-C", str(path), "commit", "-q", "-m", "first")
    return path


@contextlib.contextmanager
def _bindfs(base: Path) -> Iterator[Path]:
    below, point = base / "bindfs-below", base / "bindfs"
    below.mkdir()
    point.mkdir()
    _run("bindfs", str(below), str(point))
    try:
        yield point
    finally:
        _run("fusermount3", "-u", "-z", str(point))


@contextlib.contextmanager
def _ours(base: Path, audit: str) -> Iterator[Path]:
    project, point = base / f"project-{audit}", base / f"vfs-{audit}"
    project.mkdir()
    point.mkdir()
    with _session(project, base / "home") as session_id, contextlib.ExitStack() as stack:
        if audit == "on":
            stack.enter_context(MountServer.start(project, session_id, point, home=base / "home"))
        else:
            stack.enter_context(_unrecorded(project, session_id, point, base / "home"))
        yield point / "workspace" / "data"


@contextlib.contextmanager
def _session(project: Path, home: Path) -> Iterator[str]:
    with open_project(project, home=home) as kernel:
        yield kernel.start(trust_level=TrustLevel.WORKSPACE).id


_SERVE = """
import sys
from pathlib import Path
from benchmarks.unrecorded import open_unrecorded
from vfs.mount import serve
project, session_id, point, home = sys.argv[1:]
kernel = open_unrecorded(project, home=Path(home))
serve(kernel, kernel.sessions.get(session_id), point, ready=lambda: print("ready", flush=True))
"""


@contextlib.contextmanager
def _unrecorded(project: Path, session_id: str, point: Path, home: Path) -> Iterator[None]:
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(project), session_id, str(point), str(home)],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    with server.stdout:
        if server.stdout.readline() != b"ready\n":
            raise RuntimeError("the unrecorded mount did not start")
        try:
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)


def _memory(base: Path, files: int) -> Row:
    """The server's peak memory after a walk over many files."""
    project, point = base / "project-many", base / "vfs-many"
    project.mkdir()
    point.mkdir()
    with _session(project, base / "home") as session_id:
        data = project / ".sandbox" / "data"
        for number in range(files):
            if number % 1000 == 0:
                (data / f"d{number // 1000}").mkdir()
            (data / f"d{number // 1000}" / f"f{number}").touch()
        with MountServer.start(project, session_id, point, home=base / "home") as server:
            seen = sum(
                os.stat(os.path.join(directory, name)).st_nlink
                for directory, _, names in os.walk(point / "workspace" / "data")
                for name in names
            )
            if seen != files:
                raise RuntimeError(f"{seen} of {files} files were seen")
            peak = _peak_mib(server.pid)
    return Row("mount", f"server memory after a walk of {files:,}", "vfs", peak, "MiB", "on")


def _peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not tell the peak")
