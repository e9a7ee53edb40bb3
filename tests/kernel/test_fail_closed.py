"""What cannot be recorded does not happen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vfs.kernel.errors import AuditUnavailableError, SandboxError
from vfs.kernel.state import Generation
from vfs.project import open_sandbox


def test_no_operation_takes_effect_once_the_log_is_closed(tmp_path: Path) -> None:
    sandbox = open_sandbox(tmp_path, trust_level="full")
    sandbox.write("x", "before")
    sandbox.write("y", "before")
    file = sandbox.open("y", "rb+", buffering=0)
    sandbox.kernel.log.close()
    session = tmp_path / ".sandbox" / "sessions" / sandbox.session.id / "working"
    before = sorted(os.listdir(session))
    for act in (
        lambda: sandbox.read("x"),
        lambda: sandbox.write("x", "after"),
        lambda: sandbox.write("new", "after"),
        lambda: sandbox.delete("x"),
        lambda: sandbox.list("/session/working"),
        lambda: sandbox.move("x", "z"),
        lambda: sandbox.make_dir("d"),
        lambda: sandbox.symlink("x", "link"),
        lambda: sandbox.link("x", "hard"),
        lambda: sandbox.set_mode("x", 0o777),
        lambda: sandbox.set_times("x", modified_ns=1),
        lambda: sandbox.open("x", "w"),
        lambda: sandbox.open("x"),
        lambda: file.write(b"after"),
        lambda: sandbox.stage([{"repo_path": "a", "content": "1"}]),
        lambda: sandbox.demote("session", who="a", reason="b"),
    ):
        with pytest.raises(AuditUnavailableError):
            act()
    assert sorted(os.listdir(session)) == before
    assert (session / "x").read_text() == "before"
    assert (session / "y").read_text() == "before"
    sandbox.kernel.close()


_FULL_DISK = """
import os, resource, signal, sys
from vfs.kernel.errors import AuditUnavailableError, SandboxError
from vfs.project import open_sandbox
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
project = sys.argv[1]
sandbox = open_sandbox(project, session_id="s")
size = os.stat(os.path.join(project, ".sandbox/audit/journal")).st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 3000, resource.RLIM_INFINITY))
done = refused = 0
for number in range(40):
    try:
        sandbox.write(f"f{number}", "x")
        done += 1
    except AuditUnavailableError:
        refused += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(done, refused, len(sandbox.list("/session/working")))
sandbox.close()
"""


def test_a_full_disk_refuses_and_the_chain_holds(tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(tmp_path)], check=True, capture_output=True, text=True
    ).stdout
    done, refused, files = map(int, out.split())
    assert done > 0
    assert refused > 0
    assert done + refused == 40
    with open_sandbox(tmp_path, session_id="s") as sandbox:
        assert sandbox.kernel.log.verify().ok
        assert files == done
        assert len(sandbox.list("/session/working")) == done


def test_a_session_that_lost_its_counter_is_refused(tmp_path: Path) -> None:
    generation = Generation(tmp_path / "generation")
    generation.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        generation.read()


@pytest.mark.parametrize("damage", ["corrupt", "directory"])
def test_a_damaged_state_database_is_named(tmp_path: Path, damage: str) -> None:
    open_sandbox(tmp_path).close()
    state = tmp_path / ".sandbox" / "state.db"
    for extra in state.parent.glob("state.db-*"):
        extra.unlink()
    state.unlink()
    if damage == "corrupt":
        state.write_bytes(b"this is no database" * 1000)
    else:
        state.mkdir()
    with pytest.raises(SandboxError, match="state database") as caught:
        open_sandbox(tmp_path)
    assert caught.value.hint


def test_a_locked_state_database_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    from vfs.kernel import state

    monkeypatch.setattr(state, "BUSY_SECONDS", 0.2)
    sandbox = open_sandbox(tmp_path)
    other = sqlite3.connect(tmp_path / ".sandbox" / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SandboxError, match="is locked by another process") as caught:
        sandbox.kernel.start()
    assert caught.value.hint
    other.close()
    sandbox.close()


def test_a_lost_signing_key_is_named_and_not_made_again(tmp_path: Path) -> None:
    open_sandbox(tmp_path).close()
    (key,) = Path(os.environ["VFS_HOME"]).rglob("signing.pem")
    key.unlink()
    with pytest.raises(SandboxError, match=r"signing key .* is missing") as caught:
        open_sandbox(tmp_path)
    assert caught.value.hint
    assert not key.exists()
