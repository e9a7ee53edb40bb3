"""Exports: every form says the same, exactly, in constant memory."""

import csv
import io
import json
import tracemalloc
from pathlib import Path

import pytest

from tests.kernel.auditing import AuditWorld, bind, read, write
from vfs.kernel.audit import FORMATS, Actor, AuditEntry, AuditFilter, AuditLog
from vfs.kernel.paths import printable
from vfs.kernel.zones import Zone


@pytest.fixture
def world(tmp_path: Path) -> AuditWorld:
    return AuditWorld(tmp_path)


def fill(log: AuditLog) -> None:
    recorder = bind(log, workspace_id="w", lease="l")
    read(recorder, '/repo/a "quoted"\n\udcff', actor=Actor(1, 2, "=cmd|x"), bytes_read=0, rule="r")
    recorder.entry("write", "create", "/staged/ä", Zone.STAGED, False, reason="no, \x1f never")
    sequence = write(recorder, metadata={"a": {"b": [1.5, None, "\udcfe"]}})
    recorder.first_write(sequence)
    recorder.outcome(sequence, "ok", 1, 2)
    write(recorder)
    log.log("session_end", session_id="", trust_level="full", allowed=True)


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_is_what_to_dict_returns(world: AuditWorld, form: str) -> None:
    with world.open() as log:
        fill(log)
        out = io.StringIO()
        count = log.export(format=form, out=out)  # type: ignore[arg-type]  # parametrized
        expected = [entry.to_dict() for entry in log.get_entries()]
    text = out.getvalue()
    told = json.loads(text) if form == "json" else [json.loads(line) for line in text.splitlines()]
    assert told == expected
    assert [list(one) for one in told] == [list(one) for one in expected]
    assert count == len(expected) == 5
    assert text.isascii()
    assert text.endswith("\n")


def test_csv_has_the_same_fields_and_no_formula(world: AuditWorld) -> None:
    with world.open() as log:
        fill(log)
        out = io.StringIO(newline="")
        log.export(format="csv", out=out)
        entries = log.get_entries()
    out.getvalue().encode()  # no lone surrogates
    rows = list(csv.DictReader(io.StringIO(out.getvalue(), newline="")))
    assert [row["id"] for row in rows] == [entry.id for entry in entries]
    assert list(rows[0]) == list(AuditEntry.__dataclass_fields__)
    assert rows[0]["path"] == '/repo/a "quoted"\\n\\xff'  # nothing in it can steer a terminal
    assert rows[0]["command"] == "'=cmd|x"
    assert (rows[0]["bytes_read"], rows[0]["allowed"], rows[1]["allowed"]) == ("0", "true", "false")
    assert json.loads(rows[2]["metadata"]) == {"a": {"b": [1.5, None, "\udcfe"]}}
    assert rows[1]["path"] == "/staged/ä"
    for row, entry in zip(rows, entries, strict=True):
        for name, value in entry.to_dict().items():
            if name not in ("allowed", "metadata", "path", "command"):
                assert row[name] == ("" if value is None else printable(str(value)))


def test_an_export_takes_filters_and_tells_its_progress(world: AuditWorld) -> None:
    world.fill(30)
    told: list[int] = []
    with world.open() as log:
        out = io.StringIO()
        count = log.export(AuditFilter(path="/repo/file2*"), "jsonl", out=out, progress=told.append)
    assert count == len(out.getvalue().splitlines()) == 11
    assert told == [11]


@pytest.mark.parametrize(("form", "empty"), [("json", "[]"), ("jsonl", ""), ("csv", None)])
def test_an_export_of_nothing_is_well_formed(world: AuditWorld, form: str, empty: str | None) -> None:
    with world.open() as log:
        out = io.StringIO()
        assert log.export(format=form, out=out) == 0  # type: ignore[arg-type]  # parametrized
    if empty is None:
        assert len(out.getvalue().splitlines()) == 1
    else:
        assert "".join(out.getvalue().split()) == empty


def test_an_unknown_form_is_refused(world: AuditWorld) -> None:
    with world.open() as log, pytest.raises(ValueError, match="unknown export format `xml`; use one of json"):
        log.export(format="xml", out=io.StringIO())  # type: ignore[arg-type]  # that is the test


class Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


@pytest.mark.parametrize("form", FORMATS)
def test_memory_does_not_grow_with_the_export(world: AuditWorld, form: str) -> None:
    def peak(limit: int) -> int:
        tracemalloc.start()
        log.export(AuditFilter(limit=limit), form, out=Nowhere())  # type: ignore[arg-type]  # parametrized
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    world.fill(6000)
    with world.open() as log:
        peak(10)
        assert peak(6000) < peak(1500) * 1.5
