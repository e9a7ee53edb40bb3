"""Nobody changes the log quietly: every kind of tampering is found, and the first bad row is named."""

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.kernel.auditing import AuditWorld, bind, read, write
from vfs.kernel.audit import AuditFilter, AuditLog, Problem, verify
from vfs.kernel.errors import AuditUnavailableError, ConfigError
from vfs.kernel.keys import SigningKey


@pytest.fixture
def world(tmp_path: Path) -> AuditWorld:
    return AuditWorld(tmp_path)


@pytest.fixture
def stored(world: AuditWorld) -> AuditWorld:
    """Rows 1 to 21 in the database, none in the journal, heads for every fifth and the last."""
    world.fill(20, heads_every=5)
    return world


@pytest.fixture
def journalled(world: AuditWorld) -> AuditWorld:
    """The same, with every row in the journal and no database."""
    world.fill(20, heads_every=5, stored=False)
    return world


def found(world: AuditWorld, *, heads: bool = True) -> tuple[Problem | None, int | None]:
    report = world.verify(heads=heads)
    assert report.ok == (report.problem is None)
    return report.problem, report.sequence


def test_an_honest_log_verifies(stored: AuditWorld) -> None:
    report = stored.verify()
    assert (report.ok, report.rows, report.first_sequence, report.last_sequence) == (True, 21, 1, 21)
    assert (report.heads_checked, report.unsigned_rows) == (5, 0)
    assert json.dumps(report.to_dict())


def test_rows_in_database_and_journal_verify_as_one_chain(stored: AuditWorld) -> None:
    stored.fill(7, stored=False)
    assert stored.verify().rows == 28
    with stored.open() as log:
        log.stats()  # moved, and still in the journal
        assert log.verify().rows == 28


def edit(world: AuditWorld, *statements: str) -> None:
    with world.tampering() as connection:
        for statement in statements:
            connection.execute(statement)


SWAP = (
    "UPDATE audit SET seq = 1000 WHERE seq = 8",
    "UPDATE audit SET seq = 8 WHERE seq = 9",
    "UPDATE audit SET seq = 9 WHERE seq = 1000",
)


@pytest.mark.parametrize(
    ("statements", "problem", "sequence"),
    [
        (["UPDATE audit SET record = replace(record, 'file6', 'file0') WHERE seq = 8"], "changed", 8),
        (["UPDATE audit SET record = replace(record, 'true', 'false') WHERE seq = 21"], "changed", 21),
        (["UPDATE audit SET record = 'x' WHERE seq = 8"], "changed", 8),
        (["UPDATE audit SET record = x'ff00' WHERE seq = 8"], "changed", 8),
        (["UPDATE audit SET hash = lower(hex(randomblob(32))) WHERE seq = 8"], "changed", 8),
        (["UPDATE audit SET hash = 7 WHERE seq = 8"], "changed", 8),
        (["UPDATE audit SET record = replace(record, 'repo', 'x') WHERE seq = 1", "SELECT 1"], None, None),
        (["UPDATE audit SET record = replace(record, 'genesis', 'x') WHERE seq = 1"], "changed", 1),
        (["DELETE FROM audit WHERE seq = 8"], "deleted", 8),
        (["DELETE FROM audit WHERE seq BETWEEN 8 AND 12"], "deleted", 8),
        (["DELETE FROM audit WHERE seq <= 3"], "deleted", 1),
        (["DELETE FROM audit WHERE seq >= 19"], "truncated", 19),
        (["DELETE FROM audit"], "truncated", 1),
        (SWAP, "reordered", 8),
        (["DELETE FROM audit WHERE seq = 8", "UPDATE audit SET seq = seq - 1 WHERE seq > 8"], "deleted", 8),
        (
            ["UPDATE audit SET record = (SELECT record FROM audit WHERE seq = 3) WHERE seq = 8"],
            "reordered",
            8,
        ),
    ],
)
def test_tampering_with_the_database_is_named(
    stored: AuditWorld, statements: list[str], problem: Problem | None, sequence: int | None
) -> None:
    edit(stored, *statements)
    assert found(stored) == (problem, sequence)


def test_a_changed_hash_is_told_from_a_changed_text(stored: AuditWorld) -> None:
    edit(stored, "UPDATE audit SET hash = upper(hash) WHERE seq = 8")
    assert stored.verify().message == "the hash beside row 8 was changed; its text is as recorded"


def swap_lines(lines: list[bytes]) -> list[bytes]:
    return [*lines[:7], lines[8], lines[7], *lines[9:]]


@pytest.mark.parametrize(
    ("change", "problem", "sequence"),
    [
        (lambda lines: [*lines[:7], lines[7].replace(b"file6", b"file0"), *lines[8:]], "changed", 8),
        (lambda lines: [*lines[:7], b"0" * 64 + lines[7][64:], *lines[8:]], "changed", 8),
        (lambda lines: [*lines[:7], b"garbage\n", *lines[8:]], "changed", 8),
        (lambda lines: [*lines[:7], *lines[8:]], "deleted", 8),
        (swap_lines, "reordered", 8),
        (lambda lines: lines[:18], "truncated", 19),
        (lambda lines: lines[:1], "truncated", 2),
        (lambda lines: lines[1:], "unreadable", 1),
        (lambda _: [], "unreadable", 1),
    ],
)
def test_tampering_with_the_journal_is_named(
    journalled: AuditWorld, change: Callable[[list[bytes]], list[bytes]], problem: Problem, sequence: int
) -> None:
    lines = journalled.journal.read_bytes().splitlines(keepends=True)
    journalled.journal.write_bytes(b"".join(change(lines)))
    assert found(journalled) == (problem, sequence)


def test_rows_lost_between_database_and_journal_are_named(stored: AuditWorld) -> None:
    stored.fill(3, stored=False)
    edit(stored, "DELETE FROM audit WHERE seq >= 20")
    assert found(stored, heads=False) == ("truncated", 20)


def test_a_journal_that_is_gone_is_named(stored: AuditWorld) -> None:
    stored.journal.unlink()
    report = stored.verify()
    assert (report.problem, report.message) == ("unreadable", "the journal is missing")


def test_a_stale_copy_in_the_journal_that_differs_is_named(world: AuditWorld) -> None:
    with world.open() as log:
        read(bind(log))
        read(bind(log))
        log.stats()
    world.journal.write_bytes(world.journal.read_bytes().replace(b"/repo/a", b"/repo/b", 1))
    assert found(world) == (None, None)  # the database has the row as it was, and that is what counts
    lines = world.journal.read_bytes().splitlines(keepends=True)
    lines[1] = b"1" * 64 + lines[1][64:]
    world.journal.write_bytes(b"".join(lines))
    assert found(world) == ("changed", 2)


def lie(sequence: int, record: str) -> str:
    return record.replace("file6", "file0") if sequence == 8 else record


def test_a_chain_hashed_anew_agrees_with_itself_but_with_no_head(stored: AuditWorld) -> None:
    stored.rewrite(lie)
    assert found(stored, heads=False) == ("truncated", 22) or stored.verify(heads=False).rows == 21
    report = stored.verify()
    assert (report.problem, report.sequence) == ("rewritten", 9)
    assert report.heads_checked == 1


def test_a_part_hashed_anew_is_found_at_its_first_head(stored: AuditWorld) -> None:
    stored.rewrite(lie, last=12)
    assert found(stored, heads=False) == ("changed", 13)
    assert found(stored) == ("rewritten", 9)


def test_a_forged_head_is_named(stored: AuditWorld) -> None:
    mallory = SigningKey.create(stored.root / "mallory")
    lines = stored.heads.read_text().splitlines()
    with AuditLog.open(stored.root / "other", signer=mallory, heads=stored.root / "forged") as log:
        read(bind(log))
    stored.heads.write_text("\n".join([*lines, *(stored.root / "forged").read_text().splitlines()]) + "\n")
    assert found(stored) == ("bad_signature", 2)


def test_a_head_changed_to_fit_a_rewritten_chain_is_named(stored: AuditWorld) -> None:
    lines = [json.loads(line) for line in stored.heads.read_text().splitlines()]
    last = json.loads(lines[-1]["head"])
    lines[-1]["head"] = json.dumps({**last, "hash": "0" * 64})
    stored.heads.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert found(stored) == ("bad_signature", 21)


def test_a_line_that_is_no_head_is_named_but_after_any_bad_row(stored: AuditWorld) -> None:
    stored.heads.write_text(stored.heads.read_text() + "nonsense\n")
    assert found(stored) == ("bad_signature", None)
    edit(stored, "DELETE FROM audit WHERE seq = 8")
    assert found(stored) == ("deleted", 8)


def test_another_chain_in_its_place_is_named(world: AuditWorld) -> None:
    world.fill(20, heads_every=5)
    shutil.rmtree(world.directory)
    kept = world.heads.read_bytes()
    world.fill(30)
    world.heads.write_bytes(kept)
    assert found(world) == ("replaced", 1)


def test_a_chain_begun_with_another_key_is_named(stored: AuditWorld) -> None:
    other = SigningKey.create(stored.root / "other")
    report = verify(stored.directory, other.public)
    assert (report.problem, report.sequence) == ("replaced", 1)


def test_without_heads_the_end_can_be_cut_and_the_report_says_what_is_unsigned(stored: AuditWorld) -> None:
    edit(stored, "DELETE FROM audit WHERE seq >= 19")
    stored.journal.unlink()
    with sqlite3.connect(stored.database) as connection:
        row_hash, record = connection.execute("SELECT hash, record FROM audit WHERE seq = 18").fetchone()
    connection.close()
    carry = {
        "carry": {"chain": stored.verify().chain, "key": "", "sequence": 18, "time": 1, "hash": row_hash}
    }
    stored.journal.write_text(f"{row_hash} {json.dumps(carry)}\n")
    del record
    # The forger needs the chain's name, which stands in the genesis row.
    with sqlite3.connect(stored.database) as connection:
        (text,) = connection.execute("SELECT record FROM audit WHERE seq = 1").fetchone()
    connection.close()
    carry["carry"]["chain"] = json.loads(text)["chain"]
    stored.journal.write_text(f"{row_hash} {json.dumps(carry)}\n")
    report = stored.verify(heads=False)
    assert (report.ok, report.rows, report.unsigned_rows) == (True, 18, 18)
    assert found(stored) == ("truncated", 19)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET hash = '' WHERE seq = 8",
        "UPDATE audit SET record = record",
        "DELETE FROM audit WHERE seq = 8",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit (seq, record, hash) VALUES (8, '{}', '')",
        "DELETE FROM prunes",
        "UPDATE prunes SET seq = 99",
    ],
)
def test_triggers_refuse_to_change_or_delete(stored: AuditWorld, statement: str) -> None:
    with stored.open() as log:
        log.prune(log.get_entries()[3].timestamp, "me", "test")
    connection = sqlite3.connect(stored.database)
    connection.execute("PRAGMA recursive_triggers = ON")
    with pytest.raises(sqlite3.IntegrityError, match=r"cannot be (changed|deleted)"):
        connection.execute(statement)
    connection.close()
    assert stored.verify().ok


def test_the_log_itself_never_replaces_a_row(stored: AuditWorld) -> None:
    """INSERT OR REPLACE deletes without asking triggers, by SQLite's default: what it does must show."""
    connection = sqlite3.connect(stored.database, isolation_level=None)
    connection.execute("INSERT OR REPLACE INTO audit (seq, record, hash) VALUES (8, '{}', '')")
    connection.close()
    assert found(stored) == ("changed", 8)


def test_verify_works_on_a_read_only_copy_and_changes_nothing(stored: AuditWorld, tmp_path: Path) -> None:
    with stored.open() as log:
        read(bind(log))
        log.stats()
        copy = tmp_path / "copy"
        shutil.copytree(stored.directory, copy)  # with a write-ahead log of SQLite's that holds rows
    for name in ("audit.db-shm",):
        (copy / name).unlink(missing_ok=True)
    before = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    for path in [*copy.rglob("*"), copy]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        report = verify(copy, stored.signer.public, stored.heads)
        assert (report.ok, report.rows) == (True, 22)
        if os.getuid() != 0:
            assert {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()} == before
    finally:
        copy.chmod(stat.S_IRWXU)


def test_verify_tells_progress_and_that_there_is_nothing(world: AuditWorld, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no audit log in"):
        world.verify()
    world.fill(2)
    with pytest.raises(ConfigError, match="cannot read the signed heads"):
        verify(world.directory, world.signer.public, tmp_path)


# Pruning


def moment_of(log: AuditLog, sequence: int) -> datetime:
    return log.get_entries(AuditFilter(after=sequence - 1, limit=1))[0].timestamp


def test_a_pruned_chain_verifies_from_its_cut(stored: AuditWorld) -> None:
    with stored.open() as log:
        cut = moment_of(log, 12)
        count = log.prune(cut, "alice", "retention")
        assert 0 < count <= 11
        oldest = log.get_entries()[0]
        assert oldest.timestamp >= cut
        last = log.get_entries()[-1]
        assert (last.operation, last.reason, last.outcome) == ("prune", "retention", "ok")
        assert last.metadata is not None
        assert (last.metadata["who"], last.metadata["deleted"]) == ("alice", count)
        report = log.verify()
        assert (report.ok, report.first_sequence) == (True, oldest.sequence)
        read(bind(log))
    assert stored.verify().ok
    with stored.open() as log:
        log.prune(log.get_entries()[-1].timestamp, "alice", "again")
    assert stored.verify().ok


def test_prune_keeps_the_newest_row_and_does_nothing_where_nothing_is_old(stored: AuditWorld) -> None:
    with stored.open() as log:
        assert log.prune(datetime(2000, 1, 1, tzinfo=UTC), "me", "x") == 0
        assert log.stats().rows == 21
        assert log.prune(datetime.now(UTC) + timedelta(days=1), "me", "x") == 20
        assert log.verify().first_sequence == 21
        with pytest.raises(ValueError, match="no time zone"):
            log.prune(datetime(2026, 1, 1), "me", "x")  # noqa: DTZ001 (that is what is refused)
    assert stored.verify().ok


def pruned(world: AuditWorld) -> int:
    with world.open() as log:
        log.prune(moment_of(log, 12), "me", "x")
        return log.get_entries()[0].sequence


def test_rows_behind_the_cut_are_still_checked(stored: AuditWorld) -> None:
    first = pruned(stored)
    edit(stored, f"DELETE FROM audit WHERE seq = {first}")
    assert found(stored) == ("deleted", first)


def test_a_forged_prune_is_named(stored: AuditWorld) -> None:
    edit(
        stored,
        "DELETE FROM audit WHERE seq <= 8",
        "INSERT INTO prunes (seq, document, signature) VALUES"
        """ (8, '{"seq":8,"chain":"x","key":"x","hash":"x"}', 'AAAA')""",
    )
    assert found(stored) == ("bad_signature", 8)


def test_a_prune_moved_to_another_row_is_named(stored: AuditWorld) -> None:
    first = pruned(stored)
    edit(stored, f"UPDATE prunes SET seq = {first + 2}", f"DELETE FROM audit WHERE seq <= {first + 2}")
    assert found(stored) == ("bad_signature", first + 2)


def test_a_prune_that_was_taken_away_is_named(stored: AuditWorld) -> None:
    pruned(stored)
    edit(stored, "DELETE FROM prunes")
    assert found(stored) == ("deleted", 1)


def test_a_prune_that_fails_leaves_every_row_and_says_so(stored: AuditWorld) -> None:
    with stored.open() as log:
        edit(stored, "CREATE TRIGGER no BEFORE INSERT ON prunes BEGIN SELECT raise(ABORT, 'no'); END")
        with pytest.raises(AuditUnavailableError):
            log.prune(moment_of(log, 12), "me", "x")
        entry = log.get_entries()[-1]
        assert (entry.operation, entry.outcome) == ("prune", "AUDIT_UNAVAILABLE")
        assert log.verify().first_sequence == 1


def test_the_log_is_continued_only_with_the_key_it_was_begun_with(stored: AuditWorld) -> None:
    other = SigningKey.create(stored.root / "other")
    with pytest.raises(AuditUnavailableError, match="was begun with the key"):
        AuditLog.open(stored.directory, signer=other, heads=stored.heads)
    assert stored.verify().ok


def test_an_outcome_may_outlive_its_pruned_entry(world: AuditWorld) -> None:
    with world.open() as log:
        recorder = bind(log)
        sequence = write(recorder)
        read(recorder)
        log.prune(datetime.now(UTC) + timedelta(days=1), "me", "x")
        recorder.outcome(sequence, "ok")
        assert [entry.operation for entry in log.get_entries()] == ["read", "prune"]
    assert world.verify().ok
