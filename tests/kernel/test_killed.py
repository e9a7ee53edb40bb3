"""SIGKILL at any moment: no effect without its row, the chain holds, no torn file, the next start works."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vfs.kernel.audit import AuditFilter
from vfs.project import open_sandbox

ROUNDS = [pytest.param(20, id="short"), pytest.param(400, id="long", marks=pytest.mark.slow)]

_WORK = """
import sys
from vfs.project import open_sandbox
sandbox = open_sandbox(sys.argv[1], session_id="s")
print("ready", flush=True)
number = int(sys.argv[2]) * 1_000_000
while True:
    number += 1
    name = f"f{number % 7}"
    sandbox.write(name, f"{number}:" + "x" * (number % 5000) + ":end")
    sandbox.make_dir(f"d{number}")
    sandbox.move(name, f"d{number}/moved")
    if number % 3 == 0:
        sandbox.delete(f"d{number}", recursive=True)
    with sandbox.open("log", "ab", buffering=0) as file:
        file.write(f"{number}\\n".encode())
"""


@pytest.mark.parametrize("rounds", ROUNDS)
def test_no_effect_without_its_row_and_the_next_start_works(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(20261121)
    seen_names: set[str] = set()
    for number in range(rounds):
        with subprocess.Popen(
            [sys.executable, "-c", _WORK, str(tmp_path), str(number)], stdout=subprocess.PIPE
        ) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
            # The moment is what is drawn by chance here; nothing waits for anything to have happened.
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(timeout=chance.uniform(0.0, 0.12))
            worker.send_signal(signal.SIGKILL)
        assert worker.returncode == -signal.SIGKILL
        working = tmp_path / ".sandbox" / "sessions" / "s" / "working"
        seen_names |= {
            os.path.relpath(os.path.join(directory, name), working)
            for directory, directories, files in os.walk(working)
            for name in [*directories, *files]
            if not name.startswith(".vfs-")
        }
    with open_sandbox(tmp_path, session_id="s") as sandbox:
        report = sandbox.kernel.log.verify()
        assert report.ok, report
        entries = sandbox.kernel.log.get_entries(AuditFilter(session_id="s"))
        assert len(entries) > rounds
        prefix = "/session/working/"
        recorded = {e.path.removeprefix(prefix) for e in entries if e.path and e.operation == "write"}
        assert seen_names <= recorded
        assert not [e for e in entries if e.outcome == "pending"]
        assert any(e.outcome == "interrupted" for e in entries)
        for name in sandbox.list("/session/working"):
            if name.startswith("f"):
                text = sandbox.read(name)
                assert text.endswith(":end"), f"{name} is torn"
        sandbox.write("after", "works")
        assert sandbox.read("after") == "works"
