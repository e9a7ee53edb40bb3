"""How long it takes to be there: the command, the import, an empty command in the jail."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.rows import Row, compared, interleave


def run(*, short: bool) -> list[Row]:
    rounds = 5 if short else 15
    with tempfile.TemporaryDirectory(prefix="vfs-bench-") as directory:
        base = Path(directory)
        project = base / "project"
        project.mkdir()
        environment = {**os.environ, "VFS_HOME": str(base / "home")}
        # As installed: with compiled modules kept.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        vfs = str(Path(sys.executable).with_name("vfs"))

        def timed(argv: Sequence[str]) -> float:
            started = time.perf_counter()
            subprocess.run(
                argv, check=True, cwd=project, env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            return time.perf_counter() - started

        def subject(workload: str, *argv: str) -> Callable[[int], Mapping[str, float]]:
            return lambda _: {workload: timed(argv)}

        command = interleave(
            {
                "python -c pass": subject("start", sys.executable, "-c", "pass"),
                "vfs --version": subject("start", vfs, "--version"),
                "import vfs": subject("start", sys.executable, "-c", "import vfs"),
                "open a sandbox": subject(
                    "start", sys.executable, "-c", "import vfs; vfs.open_sandbox('.').close()"
                ),
            },
            rounds,
        )
        jail = interleave(
            {
                "bwrap … true": subject(
                    "empty command",
                    "bwrap",
                    "--ro-bind",
                    "/",
                    "/",
                    "--unshare-all",
                    "--die-with-parent",
                    "true",
                ),
                "vfs exec -- true": subject("empty command", vfs, "exec", "--quiet", "--", "true"),
            },
            rounds,
        )
    return [
        *compared("startup", command, native="python -c pass", unit="ms", scale=1000),
        *compared("startup", jail, native="bwrap … true", unit="ms", scale=1000),
    ]
