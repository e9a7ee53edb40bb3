"""The Python API on 500 files of 4 KiB, beside plain `os` calls and AgentFS."""

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.rows import Audit, Row, compared, interleave
from benchmarks.unrecorded import open_unrecorded
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.trust import Operation, TrustLevel
from vfs.project import open_project

FILES = 500
DATA = os.urandom(4096)


def plain_os(directory: Path) -> Mapping[str, float]:
    """`os.open`, `os.write` or `os.read`, `os.close`: the least a program can do."""
    directory.mkdir()
    started = time.perf_counter()
    for number in range(FILES):
        fd = os.open(f"{directory}/f{number}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        os.write(fd, DATA)
        os.close(fd)
    written = time.perf_counter()
    for number in range(FILES):
        fd = os.open(f"{directory}/f{number}", os.O_RDONLY)
        os.read(fd, 1 << 16)
        os.close(fd)
    return {"write": written - started, "read": time.perf_counter() - written}


def plain_open(directory: Path) -> Mapping[str, float]:
    """`open()`, what most Python programs do."""
    directory.mkdir()
    started = time.perf_counter()
    for number in range(FILES):
        with open(f"{directory}/f{number}", "wb") as file:
            file.write(DATA)
    written = time.perf_counter()
    for number in range(FILES):
        with open(f"{directory}/f{number}", "rb") as file:
            file.read()
    return {"write": written - started, "read": time.perf_counter() - written}


def ours(sandbox: Sandbox, directory: str) -> Mapping[str, float]:
    sandbox.make_dir(directory)
    started = time.perf_counter()
    for number in range(FILES):
        sandbox.write_bytes(f"{directory}/f{number}", DATA)
    written = time.perf_counter()
    for number in range(FILES):
        sandbox.read_bytes(f"{directory}/f{number}")
    return {"write": written - started, "read": time.perf_counter() - written}


async def agentfs(database: Path) -> Mapping[str, float]:
    """AgentFS with its own record of each call, which the caller has to make."""
    from agentfs_sdk import AgentFS, AgentFSOptions

    agent = await AgentFS.open(AgentFSOptions(path=str(database)))
    started = time.perf_counter()
    for number in range(FILES):
        at = time.time()
        await agent.fs.write_file(f"/f{number}", DATA)
        await agent.tools.record(
            "write_file", int(at), int(time.time()), {"path": f"/f{number}"}, {"bytes": 4096}
        )
    written = time.perf_counter()
    for number in range(FILES):
        at = time.time()
        await agent.fs.read_file(f"/f{number}", encoding=None)
        await agent.tools.record(
            "read_file", int(at), int(time.time()), {"path": f"/f{number}"}, {"bytes": 4096}
        )
    taken = {"write": written - started, "read": time.perf_counter() - written}
    await agent.close()
    return taken


def run(*, short: bool) -> list[Row]:
    rounds = 3 if short else 9
    base = Path(tempfile.mkdtemp(prefix="vfs-bench-", dir=Path.cwd()))
    try:
        return [*_files(base, rounds), *_access(base)]
    finally:
        shutil.rmtree(base)


def _files(base: Path, rounds: int) -> list[Row]:
    homes = base / "home"
    kernels = {
        "vfs": open_project(_made(base / "on"), home=homes),
        "vfs unrecorded": open_unrecorded(str(_made(base / "off")), home=homes),
        "vfs unrecorded, no rules": open_unrecorded(str(_made(base / "bare")), home=homes, rules=False),
    }
    sandboxes = {
        name: Sandbox(kernel, kernel.start(trust_level=TrustLevel.WORKSPACE))
        for name, kernel in kernels.items()
    }
    subjects = {
        "os.open/read/write": lambda n: plain_os(base / f"os-{n}"),
        "open()": lambda n: plain_open(base / f"open-{n}"),
        **{
            name: lambda n, s=sandbox: ours(s, f"/workspace/data/{n}")  # type: ignore[misc]  # mypy infers no lambda with a default
            for name, sandbox in sandboxes.items()
        },
        "agentfs-sdk + record": lambda n: asyncio.run(agentfs(base / f"agent-{n}.db")),
    }
    medians = interleave(subjects, rounds)
    for kernel in kernels.values():
        kernel.close()
    audit: dict[str, Audit] = {"vfs": "on", "vfs unrecorded": "off", "vfs unrecorded, no rules": "off"}
    return compared(
        "api",
        medians,
        native="os.open/read/write",
        audit=audit,
        unit="µs/file",
        scale=1e6 / FILES,
    )


def _access(base: Path) -> list[Row]:
    """Decide and record one access, without acting."""
    kernel = open_project(_made(base / "access"), home=base / "home")
    sandbox = Sandbox(kernel, kernel.start(trust_level=TrustLevel.WORKSPACE))
    door, taken = sandbox.files.door, []
    for number in range(20_000):
        path = f"/workspace/data/d{number % 97}/f{number % 1013}"
        started = time.perf_counter()
        with door.reading("read", door.admit(Operation.READ, "read", path)):
            pass
        taken.append(time.perf_counter() - started)
    kernel.close()
    return [Row("api", "decide + record one access", "vfs", statistics.median(taken) * 1e6, "µs", "on")]


def _made(path: Path) -> Path:
    path.mkdir()
    return path
