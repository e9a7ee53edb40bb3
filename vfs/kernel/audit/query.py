"""From a filter to rows, with little more than the rows wanted being looked at.

Time: within the chain time only grows, except where a row says `skew`. Between two such rows the range asked
for is one range of sequence numbers, found by bisection.

Everything else that is filtered on is in `class`, of which there are few different values: those that satisfy
the filter are found by leaping through the index, and their rows, each list in sequence order, are merged.
"""

import heapq
import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from vfs.kernel.audit.entry import AuditFilter, literal_prefix, to_microseconds
from vfs.kernel.audit.record import Record, dump

__all__ = ["Found", "Joined", "find", "first_at", "followers", "segments"]

CHUNK: Final = 500
Found = tuple[int, str, str]
"""Sequence number, text and hash of an entry's row."""

Joined = tuple[str, Record, list[Record]]
"""An entry's hash, its record, and the records that refer to it."""

_ENTRIES: Final = "WHERE substr(record, instr(record, '\"kind\":') + 8, 5) = 'entry'"
"""The first `kind` in the canonical text is the row's own; strings hold no bare quotation mark."""

_decode: Final = json.JSONDecoder().raw_decode
"""What `json.loads` calls in the end, for text that has no white space around it."""

_NEWEST: Final = (1 << 63) - 1


def find(connection: sqlite3.Connection, wanted: AuditFilter) -> Iterator[Found]:
    """Yield the entries' rows that the filter takes, in its order, up to its limit."""
    rows = _candidates(connection, wanted)
    if wanted.path is not None:
        rows = (row for row in rows if wanted.matches_path(json.loads(row[1]).get("path")))
    return rows if wanted.limit is None else islice(rows, wanted.limit)


def followers(connection: sqlite3.Connection, rows: Iterable[Found]) -> Iterator[Joined]:
    """Yield hash, decoded record, and the decoded records that refer to it, for each row."""
    iterator = iter(rows)
    while chunk := list(islice(iterator, CHUNK)):
        records = [(row_hash, _decode(text)[0]) for _, text, row_hash in chunk]
        open_ones = [record["seq"] for _, record in records if "pending" in record]
        later: dict[int, list[Record]] = {}
        if open_ones:
            marks = ",".join("?" * len(open_ones))
            sql = f"SELECT record FROM audit INDEXED BY audit_ref WHERE ref IN ({marks})"  # noqa: S608 (marks)
            found = [json.loads(text) for (text,) in connection.execute(sql, open_ones)]
            for record in sorted(found, key=_sequence):
                later.setdefault(record["ref"], []).append(record)
        for row_hash, record in records:
            yield row_hash, record, later.get(record["seq"], [])


def _candidates(connection: sqlite3.Connection, wanted: AuditFilter) -> Iterator[Found]:
    ranges = _ranges(connection, wanted)
    if wanted.newest_first:
        ranges.reverse()
    classes = _classes(connection, wanted)
    for low, high in ranges:
        if classes is None:
            yield from _scan(connection, wanted, low, high, _ENTRIES, ())
        else:
            place, values = _place(wanted)
            scans = [_scan(connection, wanted, low, high, place, (*values, name)) for name in classes]
            yield from heapq.merge(*scans, reverse=wanted.newest_first)


def _place(wanted: AuditFilter) -> tuple[str, tuple[str, ...]]:
    if wanted.session_id is None:
        return "INDEXED BY audit_class WHERE class = ?", ()
    return "INDEXED BY audit_session WHERE session = ? AND class = ?", (_text(wanted.session_id),)


def _scan(
    connection: sqlite3.Connection,
    wanted: AuditFilter,
    low: int,
    high: int,
    place: str,
    values: tuple[object, ...],
) -> Iterator[Found]:
    """Return the rows of one place, in order; SQLite steps as the caller does."""
    order = "DESC" if wanted.newest_first else "ASC"
    place = f"{place} AND seq BETWEEN {low} AND {high}"
    if wanted.path is not None and (prefix := literal_prefix(wanted.path)):
        # The text is canonical, so that this is a necessary condition, and cheaper than to parse.
        place, values = f"{place} AND instr(record, ?)", (*values, f'"path":{dump(prefix)[:-1]}')
    sql = f"SELECT seq, record, hash FROM audit {place} ORDER BY seq {order}"  # noqa: S608 (no user's text)
    return connection.execute(sql, values)


def _sequence(record: Record) -> int:
    sequence: int = record["seq"]
    return sequence


def _classes(connection: sqlite3.Connection, wanted: AuditFilter) -> list[str] | None:
    """Return the classes that satisfy the filter; None if it is not about any of them."""
    asked = (
        wanted.operation,
        wanted.zone and str(wanted.zone),
        wanted.trust_level,
        wanted.allowed,
        wanted.face,
    )
    if wanted.session_id is None and all(value is None for value in asked):
        return None
    index, values = "audit_class WHERE", {"session": ""}
    if wanted.session_id is not None:
        index, values = "audit_session WHERE session = :session AND", {"session": _text(wanted.session_id)}
    leap = f"SELECT min(class) FROM audit INDEXED BY {index} class"  # noqa: S608 (no user's text)
    rows = connection.execute(
        f"WITH RECURSIVE c (class) AS ({leap} IS NOT NULL UNION ALL"  # noqa: S608 (no user's text)
        f" SELECT ({leap} > c.class) FROM c WHERE c.class IS NOT NULL)"
        " SELECT class FROM c WHERE class IS NOT NULL",
        values,
    )
    return [
        name
        for (name,) in rows
        if all(want is None or want == have for want, have in zip(asked, json.loads(name), strict=True))
    ]


def _ranges(connection: sqlite3.Connection, wanted: AuditFilter) -> list[tuple[int, int]]:
    """Return the ranges of sequence numbers that the filter's times and `after` leave, in order."""
    first = wanted.after + 1
    if wanted.start_time is None and wanted.end_time is None:
        return [(first, _NEWEST)]
    start = None if wanted.start_time is None else to_microseconds(wanted.start_time) * 1000
    stop = None if wanted.end_time is None else (to_microseconds(wanted.end_time) + 1) * 1000
    ranges: list[tuple[int, int]] = []
    for low, end in segments(connection):
        begin = low if start is None else first_at(connection, start, low, end)
        finish = end if stop is None else first_at(connection, stop, low, end)
        begin = max(begin, first)
        if begin < finish:
            ranges.append((begin, finish - 1))
    return ranges


def segments(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return the ranges [low, end) of sequence numbers within which time only grows, in order."""
    # Each by itself: asked for together, they make SQLite read every row.
    oldest, newest = connection.execute(
        "SELECT (SELECT min(seq) FROM audit), (SELECT max(seq) FROM audit)"
    ).fetchone()
    if oldest is None:
        return []
    skews = connection.execute("SELECT seq FROM audit INDEXED BY audit_skew WHERE skew IS NOT NULL")
    breaks = sorted(sequence for (sequence,) in skews)
    return list(zip([oldest, *breaks], [*breaks, newest + 1], strict=True))


def first_at(connection: sqlite3.Connection, time: int, low: int, end: int) -> int:
    """Return the first sequence number in [low, end) whose row is not before `time`, or `end`."""
    last = end
    while low < end:
        middle = (low + end) // 2
        found = connection.execute(
            "SELECT seq, json_extract(record, '$.time') FROM audit WHERE seq >= ? AND seq < ? ORDER BY seq LIMIT 1",
            (middle, last),
        ).fetchone()
        if found is None or found[1] >= time:
            end = middle
        else:
            low = found[0] + 1
    return low


def _text(value: str) -> str:
    # SQLite takes no lone surrogates; no row has them in a session id, so nothing can match.
    return value.encode("utf-8", "backslashreplace").decode()
