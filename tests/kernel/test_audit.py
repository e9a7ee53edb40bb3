"""The audit log as the seed describes it: what is recorded is found again, whole and in order."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.auditing import AuditWorld, bind, read, write
from vfs.kernel.audit import OPERATIONS, Actor, AuditEntry, AuditFilter
from vfs.kernel.zones import Zone


@pytest.fixture
def world(tmp_path: Path) -> AuditWorld:
    return AuditWorld(tmp_path)


def sequences(entries: list[AuditEntry]) -> list[int]:
    return [entry.sequence for entry in entries]


def test_an_entry_has_every_field_it_was_recorded_with(world: AuditWorld) -> None:
    before = datetime.now(UTC)
    with world.open() as log:
        recorder = bind(log, "s9", workspace_id="w1", trust_level="untrusted", face="fuse", lease="l1")
        sequence = recorder.entry(
            "delete",
            "unlink",
            "/staged/c/x",
            Zone.STAGED,
            False,
            reason="not yours",
            rule="matrix",
            actor=Actor(12, 34, "rm -rf"),
            metadata={"b": [1, None], "a": "ä"},
        )
        (entry,) = log.get_entries()
        chain = log.chain
    assert before - timedelta(milliseconds=1) <= entry.timestamp <= datetime.now(UTC)
    assert dataclasses.replace(entry, timestamp=before, hash="") == AuditEntry(
        id=f"{chain[:8]}-{sequence}",
        timestamp=before,
        operation="delete",
        path="/staged/c/x",
        zone=Zone.STAGED,
        session_id="s9",
        trust_level="untrusted",
        allowed=False,
        reason="not yours",
        metadata={"b": [1, None], "a": "ä"},
        sequence=sequence,
        action="unlink",
        rule="matrix",
        face="fuse",
        pid=12,
        uid=34,
        command="rm -rf",
        outcome=None,
        bytes_read=None,
        bytes_written=None,
        first_write=None,
        workspace_id="w1",
        lease="l1",
        hash="",
    )
    assert len(bytes.fromhex(entry.hash)) == 32


def test_a_mutation_is_one_entry_from_pending_to_its_outcome(world: AuditWorld) -> None:
    with world.open() as log:
        recorder = bind(log)
        sequence = write(recorder, metadata={"size": 3})
        assert log.get_entries()[0].outcome == "pending"
        recorder.first_write(sequence)
        started = log.get_entries()[0].first_write
        assert started is not None
        recorder.outcome(sequence, "ENOSPC", bytes_read=1, bytes_written=7, metadata={"note": "x"})
        (entry,) = log.get_entries()
    assert (entry.outcome, entry.bytes_read, entry.bytes_written) == ("ENOSPC", 1, 7)
    assert entry.metadata == {"size": 3, "note": "x"}
    assert entry.first_write == started


def test_every_operation_of_the_seed_and_of_the_design_can_be_logged(world: AuditWorld) -> None:
    with world.open() as log:
        for operation in sorted(OPERATIONS):
            log.log(operation, session_id="s", trust_level="full", allowed=True, metadata={"n": 1})
        assert [entry.operation for entry in log.get_entries()] == sorted(OPERATIONS)
        with pytest.raises(ValueError, match="unknown operation `chmod`"):
            log.log("chmod", session_id="s", trust_level="full", allowed=True)
        assert len(log.get_entries()) == len(OPERATIONS)


def test_metadata_that_json_cannot_say_records_nothing(world: AuditWorld) -> None:
    with world.open() as log:
        for bad in ({"x": object()}, {"x": float("nan")}):
            with pytest.raises((TypeError, ValueError)):
                log.log("read", session_id="s", trust_level="full", allowed=True, metadata=bad)
        assert log.get_entries() == []
        assert log.verify().ok


@pytest.fixture
def mixed(world: AuditWorld) -> AuditWorld:
    """Three sessions, every zone, some denied; 300 entries, half of them with an outcome of their own."""
    levels = ["untrusted", "session", "full"]
    with world.open() as log:
        recorders = [
            bind(log, f"s{number}", trust_level=level, face=["api", "fuse", "mcp"][number])
            for number, level in enumerate(levels)
        ]
        for number in range(300):
            recorder = recorders[number % 3]
            zone = list(Zone)[number % 5]
            operation = ["read", "write", "delete", "list"][number % 4]
            path = f"/{zone}/d{number % 7}/f{number}.py"
            if number % 10 == 9:
                recorder.entry(operation, operation, path, zone, False, reason="no")
            elif number % 2:
                recorder.outcome(recorder.entry(operation, operation, path, zone, True, pending=True), "ok")
            else:
                recorder.entry(operation, operation, path, zone, True, outcome="ok")
    return world


FILTERS: list[dict[str, Any]] = [
    {},
    {"session_id": "s1"},
    {"session_id": "nobody"},
    {"session_id": "\udcff"},
    {"operation": "delete"},
    {"zone": Zone.STAGED},
    {"trust_level": "untrusted"},
    {"allowed": False},
    {"allowed": True, "zone": Zone.REPO},
    {"face": "mcp"},
    {"session_id": "s2", "operation": "read", "zone": Zone.WORKERS, "trust_level": "full", "allowed": True},
    {"session_id": "s0", "trust_level": "full"},
    {"path": "/repo/**"},
    {"path": "/*/d3/*.py", "operation": "write"},
    {"after": 200},
    {"after": 200, "face": "api"},
]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [None, 0, 7])
@pytest.mark.parametrize("asked", FILTERS, ids=lambda asked: ",".join(asked) or "all")
def test_a_filter_finds_what_going_through_everything_finds(
    mixed: AuditWorld, asked: dict[str, Any], limit: int | None, newest_first: bool
) -> None:
    wanted = AuditFilter(**asked, limit=limit, newest_first=newest_first)
    with mixed.open() as log:
        everything = log.get_entries()
        found = log.get_entries(wanted)
    names = set(asked) - {"path", "after"}
    expected = [
        entry
        for entry in everything
        if all(getattr(entry, name) == asked[name] for name in names)
        and wanted.matches_path(entry.path)
        and entry.sequence > wanted.after
    ]
    if newest_first:
        expected.reverse()
    assert found == expected[:limit]
    assert len(everything) == 300


def test_times_bound_a_query_on_both_sides_inclusively(mixed: AuditWorld) -> None:
    with mixed.open() as log:
        everything = log.get_entries()
        first, last = everything[100], everything[199]
        found = log.get_entries(AuditFilter(start_time=first.timestamp, end_time=last.timestamp))
        expected = [entry for entry in everything if first.timestamp <= entry.timestamp <= last.timestamp]
        assert found == expected
        assert len(found) >= 100
        denied = log.get_entries(
            AuditFilter(start_time=first.timestamp, allowed=False, newest_first=True, limit=3)
        )
        assert denied == [entry for entry in reversed(everything) if not entry.allowed][:3]
        late = everything[-1].timestamp + timedelta(hours=1)
        assert log.get_entries(AuditFilter(start_time=late)) == []
        assert log.get_entries(AuditFilter(end_time=late, limit=1)) == everything[:1]


def test_a_clock_that_was_set_back_hides_nothing_from_queries_by_time(
    world: AuditWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_000_000_000_000
    moments = [10, 20, 30, 15, 25, 5, 40]
    with world.open() as log:
        recorder = bind(log)
        for moment in moments:
            with monkeypatch.context() as patch:
                patch.setattr(time, "time_ns", lambda moment=moment: now + moment * 1_000_000_000)
                read(recorder, f"/repo/{moment}")
        start = datetime.fromtimestamp(now // 10**9 + 15, UTC)
        found = log.get_entries(AuditFilter(start_time=start, end_time=start + timedelta(seconds=10)))
        newest = log.get_entries(AuditFilter(start_time=start, newest_first=True, limit=2))
        assert log.verify().ok
    assert [entry.path for entry in found] == ["/repo/20", "/repo/15", "/repo/25"]
    assert [entry.path for entry in newest] == ["/repo/40", "/repo/25"]


def test_session_entries_violations_and_tail(mixed: AuditWorld) -> None:
    with mixed.open() as log:
        everything = log.get_entries()
        assert log.get_session_entries("s1") == [entry for entry in everything if entry.session_id == "s1"]
        violations = log.get_violations(4)
        assert violations == [entry for entry in reversed(everything) if not entry.allowed][:4]
        last = everything[-1].sequence
        assert log.tail(last) == []
        sequence = read(bind(log))
        assert sequences(log.tail(last)) == [sequence]


def test_a_filter_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown operation `fly`"):
        AuditFilter(operation="fly")
    with pytest.raises(ValueError, match="negative"):
        AuditFilter(limit=-1)
    with pytest.raises(ValueError, match="has no time zone"):
        AuditFilter(start_time=datetime(2026, 1, 1))  # noqa: DTZ001 (that is what is refused)


@pytest.mark.parametrize(
    ("glob", "taken", "not_taken"),
    [
        ("/repo/*", ["/repo/a", "/repo/.x"], ["/repo", "/repo/a/b"]),
        ("/repo/**", ["/repo", "/repo/a", "/repo/a/b"], ["/repository", "/workspace/repo/a"]),
        ("**/*.py", ["/repo/a.py", "/session/working/b/c.py"], ["/repo/a.pyc"]),
        ("/repo/?[ab]", ["/repo/xa"], ["/repo/xc", "/repo//a"]),
        ("/repo/[!a]", ["/repo/b"], ["/repo/a", "/repo//"]),
        ("/repo/[", ["/repo/["], ["/repo/a"]),
        ("/repo/a.b+c", ["/repo/a.b+c"], ["/repo/axb+c"]),
        ("/repo/\udcff*", ["/repo/\udcffx\n"], ["/repo/x"]),
        ('/repo/"*', ['/repo/"a'], ["/repo/a"]),
    ],
)
def test_path_globs(world: AuditWorld, glob: str, taken: list[str], not_taken: list[str]) -> None:
    with world.open() as log:
        recorder = bind(log)
        for path in taken + not_taken:
            read(recorder, path)
        assert [entry.path for entry in log.get_entries(AuditFilter(path=glob))] == taken


@given(names=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=20), text=st.text())
def test_any_name_comes_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, names: list[bytes], text: str
) -> None:
    world = AuditWorld(tmp_path_factory.mktemp("names"))
    awkward = [b"\xff", b"\n", b'"\\', b"\x00\x01\x1f\x7f", "\u2028ä\U0001f600".encode(), *names]
    with world.open() as log:
        recorder = bind(log, os.fsdecode(names[0]))
        for name in awkward:
            read(recorder, "/repo/" + os.fsdecode(name), reason=text.encode("utf-8", "replace").decode())
        entries = log.get_entries()
        assert log.verify().ok
    assert [os.fsencode(entry.path or "") for entry in entries] == [b"/repo/" + name for name in awkward]
    assert {entry.session_id for entry in entries} == {os.fsdecode(names[0])}
    for line in world.journal.read_bytes().splitlines():
        assert line.isascii()


def test_to_dict_is_ready_for_json(world: AuditWorld) -> None:
    with world.open() as log:
        read(bind(log), "/repo/\udcff", actor=Actor(1, 2, None), bytes_read=5)
        entry = log.get_entries()[0]
    told = json.loads(json.dumps(entry.to_dict()))
    assert told["path"] == "/repo/\udcff"
    assert told["zone"] == "repo"
    assert told["timestamp"] == entry.timestamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert (told["pid"], told["command"], told["bytes_read"]) == (1, None, 5)


def test_stats_count_operations_not_rows(world: AuditWorld) -> None:
    with world.open() as log:
        recorder = bind(log)
        recorder.outcome(write(recorder), "ok")
        read(recorder)
        recorder.entry("security_violation", "link_escape", "/repo/l", Zone.REPO, False, reason="leaves")
        stats = log.stats()
    assert (stats.rows, stats.entries, stats.denied, stats.violations) == (5, 3, 1, 1)
    assert stats.operations == {"read": 1, "security_violation": 1, "write": 1}
    assert (stats.first_sequence, stats.last_sequence) == (1, 5)
    assert stats.first_time is not None
    assert json.dumps(stats.to_dict())


def test_the_log_goes_on_where_it_was_when_it_is_opened_again(world: AuditWorld) -> None:
    numbers = []
    for _ in range(3):
        with world.open() as log:
            numbers.append(read(bind(log)))
            chain = log.chain
    with world.open() as log:
        assert log.chain == chain
        assert sequences(log.get_entries()) == numbers == [2, 3, 4]
        assert log.verify().ok


def test_closing_signs_for_the_newest_row_and_only_if_something_was_recorded(world: AuditWorld) -> None:
    with world.open() as log:
        read(bind(log))
    report = world.verify()
    assert (report.ok, report.heads_checked, report.unsigned_rows) == (True, 1, 0)
    with world.open() as log:
        log.get_entries()
    assert len(world.heads.read_bytes().splitlines()) == 1
    log.close()  # a second time


def test_opening_imports_nothing_slow(world: AuditWorld) -> None:
    world.fill(3)
    script = (
        "import sys; from vfs.kernel.audit import AuditLog; from vfs.kernel.keys import SigningKey\n"
        f"log = AuditLog.open({str(world.directory)!r}, signer=SigningKey.load({str(world.root / 'outside/key')!r}),"
        f" heads={str(world.heads)!r})\n"
        "log.bind(session_id='s', trust_level='full', face='api').entry('read', 'read', '/repo/a', 'repo', True)\n"
        "log.get_entries()\n"
        "slow = {'cryptography', 'sqlite_utils', 'click', 'fs'} & set(sys.modules)\n"
        "log.close()\n"
        "sys.exit(f'imported: {slow}' if slow else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
