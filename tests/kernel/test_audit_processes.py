"""Many processes, one chain: appended to at once, killed at any moment, forked."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.auditing import AuditWorld, bind, read, write
from vfs.kernel.audit import AuditFilter, AuditLog
from vfs.kernel.keys import SigningKey
from vfs.kernel.zones import Zone

WRITER = """
import sys
from vfs.kernel.audit import AuditLog
from vfs.kernel.keys import SigningKey
from vfs.kernel.zones import Zone

directory, key, heads, name, count, ingest_every = sys.argv[1:]
log = AuditLog.open(directory, signer=SigningKey.load(key), heads=heads, heads_every=100)
recorder = log.bind(session_id=name, trust_level="session", face="api")
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(count)):
    path = f"/session/working/{name}-{number}"
    if number % 2:
        recorder.entry("read", "read", path, Zone.SESSION, True, outcome="ok")
        print(number, flush=True)
    else:
        sequence = recorder.entry("write", "write", path, Zone.SESSION, True, pending=True)
        print(number, flush=True)
        recorder.outcome(sequence, "ok", 0, number)
    if int(ingest_every) and not number % int(ingest_every):
        log._store.ingest(rotate_beyond=0)
log.close()
"""


@pytest.fixture
def world(tmp_path: Path) -> AuditWorld:
    return AuditWorld(tmp_path)


def start(world: AuditWorld, name: str, count: int, ingest_every: int = 0) -> "subprocess.Popen[str]":
    arguments = [
        str(world.directory),
        str(world.root / "outside/key"),
        str(world.heads),
        name,
        str(count),
        str(ingest_every),
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def numbers(process: "subprocess.Popen[str]") -> Iterator[int]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith("\n"):
            yield int(line)


def test_processes_append_while_others_query_and_rotate_and_no_row_is_lost(world: AuditWorld) -> None:
    count, names = 3000, ["a", "b", "c"]
    processes = [start(world, name, count) for name in names]
    readers = [
        threading.Thread(target=lambda process=process: list(numbers(process))) for process in processes
    ]
    for thread, process in zip(readers, processes, strict=True):
        thread.start()
        go(process)
    seen = 0
    with world.open() as log:
        while any(process.poll() is None for process in processes):
            entries = log.get_entries(AuditFilter(after=seen, session_id="b"))
            seen = entries[-1].sequence if entries else seen
            log._store.ingest(rotate_beyond=0)
            assert log.verify().ok
    for thread, process in zip(readers, processes, strict=True):
        thread.join()
        process.communicate()
        assert process.returncode == 0
    with world.open() as log:
        for name in names:
            entries = log.get_session_entries(name)
            assert [entry.path for entry in entries] == [f"/session/working/{name}-{n}" for n in range(count)]
            assert {entry.outcome for entry in entries} == {"ok"}
        assert log.stats().entries == count * len(names)
    report = world.verify()
    assert (report.ok, report.unsigned_rows) == (True, 0)
    # One head per hundred rows, whoever wrote them, and one per close.
    assert report.heads_checked <= report.rows // 100 + len(names) + 2


@pytest.mark.parametrize("ingest_every", [0, 3])
def test_a_killed_writer_leaves_every_row_it_had_acknowledged_and_what_it_left_is_interrupted(
    world: AuditWorld, ingest_every: int
) -> None:
    dice = random.Random(7)
    interrupted = 0
    for round_ in range(15):
        process = start(world, f"r{round_}", 100_000, ingest_every)
        go(process)
        last = -1
        stop = dice.randrange(1, 200)
        for last in numbers(process):
            if last >= stop:
                break
        process.kill()
        last = max([last, *numbers(process)])
        process.communicate()
        with world.open() as log:
            entries = log.get_session_entries(f"r{round_}")
            # One more may have been recorded than the process lived to tell.
            assert len(entries) in (last + 1, last + 2)
            unfinished = [entry for entry in entries if entry.outcome != "ok"]
            assert [entry.outcome for entry in unfinished] in ([], ["interrupted"])
            assert unfinished in ([], entries[-1:])
            interrupted += len(unfinished)
        report = world.verify()
        assert report.ok, report
    assert interrupted > 0 or ingest_every
    with world.open() as log:
        rows = log.stats().rows
    assert world.verify().rows == rows
    assert os.listdir(world.directory / "writers") == []


def test_pending_becomes_interrupted_when_its_writer_dies(world: AuditWorld) -> None:
    process = start(world, "w", 2)
    with world.open() as log:
        go(process)
        lines = numbers(process)
        next(lines)
        process.send_signal(signal.SIGSTOP)
        process.kill()
        process.communicate()
        stopped = log.get_entries()[0]
        assert stopped.outcome in ("ok", "interrupted")
        mine = write(bind(log))
        assert log.get_entries(AuditFilter(after=mine - 1))[0].outcome == "pending"


def test_what_is_left_open_at_close_is_interrupted_and_recorded_once(world: AuditWorld) -> None:
    with world.open() as log:
        sequence = write(bind(log))
    for _ in range(2):
        with world.open() as log:
            (entry,) = log.get_entries()
            assert (entry.sequence, entry.outcome) == (sequence, "interrupted")
            assert log.stats().rows == 3
    assert world.verify().ok


def test_what_a_living_writer_has_open_is_left_alone(world: AuditWorld) -> None:
    with world.open() as first:
        recorder = bind(first)
        sequence = write(recorder)
        with world.open() as second:
            assert second.get_entries()[0].outcome == "pending"
        recorder.outcome(sequence, "ok")
        assert [entry.outcome for entry in first.get_entries()] == ["ok"]


def test_a_torn_tail_is_cut_off_kept_and_reported(world: AuditWorld) -> None:
    world.fill(3, stored=False)
    whole = world.journal.read_bytes()
    torn = whole.splitlines(keepends=True)[-1][:100]
    world.journal.write_bytes(whole + torn)
    with world.open() as log:
        read(bind(log), "/repo/after")
        entries = log.get_entries()
        recovery, after = entries[-2:]
        assert (recovery.operation, recovery.action) == ("recovery", "cut_torn_tail")
        assert recovery.metadata is not None
        assert recovery.metadata["bytes"] == len(torn)
        assert after.path == "/repo/after"
        assert log.verify().ok
    assert (world.directory / "torn-5").read_bytes() == torn


@pytest.mark.parametrize("hole", [b"\0" * 4096, b"x\n" + b"\0" * 10 + b"\n", b"\n", b"rota"])
def test_pages_that_never_reached_the_disk_are_a_torn_tail(world: AuditWorld, hole: bytes) -> None:
    world.fill(3, stored=False)
    with world.journal.open("ab") as file:
        file.write(hole)
    with world.open() as log:
        assert [entry.operation for entry in log.get_entries()] == ["read", "read", "read", "recovery"]
    assert world.verify().ok


def test_a_tail_torn_under_an_open_log_is_cut_off_by_the_next_append(world: AuditWorld) -> None:
    with world.open() as log:
        recorder = bind(log)
        read(recorder)
        with world.journal.open("ab") as file:
            file.write(b"half a row")
        read(recorder)
        assert [entry.operation for entry in log.get_entries()] == ["read", "recovery", "read"]
        assert log.verify().ok


def test_a_rotation_that_was_cut_short_is_no_damage(world: AuditWorld) -> None:
    world.fill(3, stored=False)
    with world.journal.open("ab") as file:
        file.write(b"rotated\n")
    assert world.verify().ok
    with world.open() as log:
        read(bind(log))
        assert [entry.operation for entry in log.get_entries()] == ["read"] * 4
    assert world.verify().ok


def append_in_child(log: AuditLog, name: str, count: int) -> None:
    recorder = bind(log, name)
    for number in range(count):
        recorder.outcome(write(recorder, f"/session/working/{number}"), "ok")
    assert len(log.get_session_entries(name)) == count
    log.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_children_are_writers_of_their_own(world: AuditWorld) -> None:
    context = multiprocessing.get_context("fork")
    with world.open() as log:
        recorder = bind(log, "parent")
        held = write(recorder)
        log.get_entries()  # with a connection open
        children = [context.Process(target=append_in_child, args=(log, f"child{n}", 200)) for n in range(3)]
        for child in children:
            child.start()
        for number in range(200):
            read(recorder, f"/repo/{number}")
        for child in children:
            child.join(60)
            assert child.exitcode == 0
        # A child's end is not its parent's.
        assert log.get_entries(AuditFilter(after=held - 1, limit=1))[0].outcome == "pending"
        recorder.outcome(held, "ok")
        for number in range(3):
            assert len(log.get_session_entries(f"child{number}")) == 200
        assert len(log.get_session_entries("parent")) == 201
    assert world.verify().ok


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_what_a_forked_child_leaves_is_interrupted_though_its_parent_lives(world: AuditWorld) -> None:
    with world.open() as log:
        pid = os.fork()
        if pid == 0:
            write(bind(log, "child"))
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        (entry,) = log.get_session_entries("child")
        assert entry.outcome == "interrupted"
    assert world.verify().ok


@pytest.mark.parametrize("durability", ["os", "disk"])
def test_threads_share_one_log(world: AuditWorld, durability: str) -> None:
    count = 300 if durability == "os" else 30

    def work(name: str) -> None:
        recorder = bind(log, name)
        for number in range(count):
            recorder.outcome(
                recorder.entry("write", "write", f"/repo/{number}", Zone.REPO, True, pending=True), "ok"
            )

    with world.open(durability=durability) as log:
        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            log._store.ingest(rotate_beyond=0)
        for thread in threads:
            thread.join()
        for number in range(8):
            paths = [entry.path for entry in log.get_session_entries(f"t{number}")]
            assert paths == [f"/repo/{n}" for n in range(count)]
    assert world.verify().ok


def test_a_large_journal_moves_to_the_database_by_itself(world: AuditWorld) -> None:
    with world.open() as log:
        log._journal._alarm = 200_000
        recorder = bind(log)
        count = 0
        while log._ingesting is None:
            read(recorder, f"/repo/{count}")
            count += 1
        log._ingesting.join()
        assert count > 500
        assert world.journal.stat().st_size < 1000
        assert log.stats().entries == count
    assert world.verify().ok


def test_two_that_begin_a_log_at_once_begin_one(world: AuditWorld) -> None:
    logs: list[AuditLog] = []
    threads = [threading.Thread(target=lambda: logs.append(world.open())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in logs:
        read(bind(log))
    assert len({log.chain for log in logs}) == 1
    assert len(logs[0].get_entries()) == 8
    for log in logs:
        log.close()
    assert world.verify().ok


def test_a_log_made_elsewhere_may_be_moved(world: AuditWorld, tmp_path: Path) -> None:
    world.fill(5)
    moved = tmp_path / "moved"
    world.directory.rename(moved)
    with AuditLog.open(moved, signer=SigningKey.load(tmp_path / "outside/key"), heads=world.heads) as log:
        read(bind(log))
        assert len(log.get_entries()) == 6
        assert log.verify().ok
