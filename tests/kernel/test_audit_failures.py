"""What cannot be recorded does not happen: every failure refuses, says why, and leaves nothing half done."""

import contextlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.auditing import AuditWorld, bind, read, write
from vfs.kernel.audit import AuditLog
from vfs.kernel.audit.journal import Journal
from vfs.kernel.errors import AuditUnavailableError


@pytest.fixture
def world(tmp_path: Path) -> AuditWorld:
    return AuditWorld(tmp_path)


@contextlib.contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Let no file of this process grow beyond `limit` bytes: what a full disk does, to one process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def record_until_refused(log: AuditLog, written: list[int]) -> None:
    recorder = bind(log)
    written.extend(read(recorder, f"/repo/{number}") for number in range(100_000))


@pytest.mark.parametrize("spare", [0, 1, 100, 300])
def test_a_row_that_does_not_fit_is_refused_whole(world: AuditWorld, spare: int) -> None:
    with world.open() as log:
        recorder = bind(log)
        read(recorder, "/repo/before")
        size = world.journal.stat().st_size
        with file_size_limit(size + spare):
            for _ in range(3):
                with pytest.raises(AuditUnavailableError, match="cannot record: ") as caught:
                    read(recorder, "/repo/" + "x" * 200)
                assert "ulimit -f" in (caught.value.hint or "")
                assert str(world.journal) in caught.value.message
            assert world.journal.stat().st_size == size
        read(recorder, "/repo/after")
        assert [entry.path for entry in log.get_entries()] == ["/repo/before", "/repo/after"]
    assert world.verify().ok


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("mount") is None, reason="by design: only root can make a small disk"
)
def test_a_full_disk_refuses_and_is_forgotten_once_there_is_room(world: AuditWorld) -> None:
    world.directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(world.directory)], check=True)
    try:
        with world.open() as log:
            recorder = bind(log)
            written: list[int] = []
            with pytest.raises(AuditUnavailableError, match=r"no space left|only part of a row") as caught:
                record_until_refused(log, written)
            count = len(written)
            assert "free space" in (caught.value.hint or "")
            with pytest.raises(AuditUnavailableError):
                log.get_entries()
            subprocess.run(["mount", "-o", "remount,size=8m", str(world.directory)], check=True)
            read(recorder, "/repo/after")
            entries = log.get_entries()
            assert [entry.sequence for entry in entries] == list(range(2, count + 3))
            assert entries[-1].path == "/repo/after"
        assert world.verify().ok
    finally:
        subprocess.run(["umount", str(world.directory)], check=True)


def test_a_database_that_cannot_grow_leaves_the_rows_in_the_journal(world: AuditWorld) -> None:
    with world.open() as log:
        log.stats()
        recorder = bind(log)
        for number in range(500):
            read(recorder, f"/repo/{number}")
        with file_size_limit(world.database.stat().st_size + 8192), pytest.raises(AuditUnavailableError):
            log.get_entries()
        assert len(log.get_entries()) == 500
    assert world.verify().ok


def test_heads_that_cannot_be_written_stop_recording_before_the_row_that_is_due(world: AuditWorld) -> None:
    with world.open(heads_every=10) as log:
        recorder = bind(log)
        sequence = 0
        while sequence < 9:
            sequence = read(recorder)
        world.heads.unlink()
        world.heads.mkdir()
        for _ in range(2):
            with pytest.raises(AuditUnavailableError, match="heads`: is a directory"):
                read(recorder)
        world.heads.rmdir()
        assert read(recorder) == 10
    assert world.verify().ok


def test_opening_fails_if_heads_cannot_be_written(world: AuditWorld) -> None:
    world.heads.mkdir()
    with pytest.raises(AuditUnavailableError, match="is a directory"):
        world.open()


OPEN_AS_NOBODY = """
import os, sys
from vfs.kernel.audit import AuditLog
from vfs.kernel.errors import AuditUnavailableError
from vfs.kernel.keys import SigningKey

signer = SigningKey.load(sys.argv[1])
os.chdir(sys.argv[2])
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    AuditLog.open(".", signer=signer, heads="/dev/null")
except AuditUnavailableError as error:
    sys.exit(f"{error.message}; {error.hint}")
"""


def test_a_directory_that_may_not_be_written_refuses_to_open(world: AuditWorld) -> None:
    world.directory.mkdir(mode=0o555)
    for parent in world.root.parents:
        if parent.stat().st_uid == os.getuid() and parent.name.startswith("pytest-"):
            parent.chmod(0o711)  # pytest lets nobody else in
    world.root.chmod(0o711)
    arguments = [str(world.root / "outside/key"), str(world.directory)]
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AS_NOBODY, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "permission denied; give this user write access to it" in done.stderr
    assert list(world.directory.iterdir()) == []


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_database_refuses_queries_and_keeps_recording(world: AuditWorld, damage: bytes) -> None:
    world.fill(5)
    for suffix in ("-wal", "-shm"):
        Path(f"{world.database}{suffix}").unlink(missing_ok=True)
    world.database.write_bytes(damage)
    with world.open() as log:
        read(bind(log))
        for query in (log.get_entries, log.stats):
            with pytest.raises(AuditUnavailableError, match="the audit database") as caught:
                query()
            assert caught.value.hint is not None
        report = log.verify()
        assert (report.ok, report.problem) == (False, "unreadable")


def test_a_locked_database_refuses_queries_keeps_recording_and_loses_nothing(
    world: AuditWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vfs.kernel.audit.store.BUSY_SECONDS", 0.05)
    world.fill(5)
    with (
        world.open() as log,
        contextlib.closing(sqlite3.connect(world.database, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        recorder = bind(log)
        for number in range(2000):
            read(recorder, f"/repo/{number}")
        with pytest.raises(AuditUnavailableError, match="locked") as caught:
            log.get_entries()
        assert "another program holds it" in (caught.value.hint or "")
        other.execute("COMMIT")
        assert len(log.get_entries()) == 2005
    assert world.verify().ok


def test_a_journal_that_nobody_empties_stops_recording_at_its_limit(tmp_path: Path) -> None:
    journal = Journal(
        str(tmp_path),
        durability="os",
        head_every=1000,
        sign_head=lambda _sequence, _hash: None,
        on_growth=lambda: None,
        size_limit=10_000,
    )
    journal.open(lambda: ("chain", "key", "pem"), may_begin=lambda: True)
    body = f',"kind":"entry","op":"read","meta":"{"x" * 500}"}}'
    with pytest.raises(AuditUnavailableError, match="has grown beyond 9 KiB"):
        list(map(journal.append, [body] * 100))
    assert 10_000 < journal.size < 11_000
    journal.close()


def test_a_journal_removed_or_replaced_while_in_use_stops_recording(world: AuditWorld) -> None:
    for replace in (False, True):
        shutil.rmtree(world.directory, ignore_errors=True)
        world.heads.unlink(missing_ok=True)
        log = world.open()
        recorder = bind(log)
        read(recorder)
        content = world.journal.read_bytes()
        world.journal.unlink()
        if replace:
            world.journal.write_bytes(content)
        with pytest.raises(AuditUnavailableError, match="while in use"):
            record_until_refused(log, [])
        with contextlib.suppress(AuditUnavailableError):
            log.close()


def test_a_journal_cut_shorter_stops_recording(world: AuditWorld) -> None:
    log = world.open()
    recorder = bind(log)
    for _ in range(3):
        read(recorder)
    os.truncate(world.journal, world.journal.stat().st_size - 10)
    for _ in range(2):
        with pytest.raises(AuditUnavailableError, match="is shorter than it was"):
            read(recorder)
    with pytest.raises(AuditUnavailableError):
        log.close()


def test_a_missing_journal_beside_a_database_is_a_loss_and_not_a_beginning(world: AuditWorld) -> None:
    world.fill(5)
    world.journal.unlink()
    with pytest.raises(AuditUnavailableError, match="is missing, though there are older rows") as caught:
        world.open()
    assert "vfs audit verify" in (caught.value.hint or "")
    assert not world.journal.exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"garbage\n", b"0" * 64 + b" {}\n"])
def test_a_journal_without_its_first_line_refuses_to_open(world: AuditWorld, content: bytes) -> None:
    world.fill(2)
    world.journal.write_bytes(content)
    with pytest.raises(AuditUnavailableError, match="has no valid first line"):
        world.open()


def test_a_line_that_is_no_row_in_the_middle_refuses_queries(world: AuditWorld) -> None:
    world.fill(5, stored=False)
    lines = world.journal.read_bytes().splitlines(keepends=True)
    world.journal.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    with world.open() as log:
        read(bind(log))
        with pytest.raises(AuditUnavailableError, match="holds no row"):
            log.get_entries()
        assert log.verify().problem == "changed"


def test_a_link_in_the_place_of_the_journal_is_not_followed(world: AuditWorld, tmp_path: Path) -> None:
    world.fill(2)
    world.journal.rename(tmp_path / "elsewhere")
    world.journal.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditUnavailableError):
        world.open()


def test_a_closed_log_records_nothing(world: AuditWorld) -> None:
    log = world.open()
    recorder = bind(log)
    log.close()
    for record in (read, write):
        with pytest.raises(AuditUnavailableError, match="is closed"):
            record(recorder)
    with pytest.raises(AuditUnavailableError, match="is closed"):
        recorder.outcome(1, "ok")


def descriptors(place: Path) -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {path for path in found if path.startswith(str(place))}


def test_no_descriptor_is_left_open_whatever_happens(world: AuditWorld) -> None:
    world.fill(5)
    with world.open() as log:
        read(bind(log))
        log.get_entries()
        log.verify()
        log.flush()
    kept = world.journal.read_bytes()
    world.journal.write_bytes(b"garbage\n")
    for _ in range(3):
        with pytest.raises(AuditUnavailableError):
            world.open()
        world.verify()
    world.journal.write_bytes(kept)
    assert descriptors(world.root) == set()


def test_disk_durability_records_like_any_other(world: AuditWorld) -> None:
    with world.open(durability="disk") as log:
        recorder = bind(log)
        recorder.outcome(write(recorder), "ok")
        log.flush()
        assert world.verify().unsigned_rows == 0
        assert log.get_entries()[0].outcome == "ok"
    assert world.verify().ok


def test_there_is_no_way_to_open_a_log_that_does_not_record() -> None:
    with pytest.raises(TypeError):
        AuditLog.open("somewhere")  # type: ignore[call-arg]  # that is the test
