r"""Writing entries out as JSON, JSON lines or CSV, in constant memory.

JSON is exact: a name that is not UTF-8 carries its bytes as `\udcXX`. CSV shows those as `\udcXX` in plain
text, and puts `'` before a cell that a spreadsheet would take for a formula. What is written of an entry is
what `AuditEntry.to_dict` returns; it is put together here without the detour, which is several times faster.
"""

import csv
import functools
import io
import time
from collections.abc import Callable, Container, Iterable, Iterator
from json.encoder import encode_basestring_ascii as _quote
from typing import Final, Literal, TextIO

from vfs.kernel.audit.entry import FIELDS
from vfs.kernel.audit.query import Joined
from vfs.kernel.audit.record import Record, dump, join
from vfs.kernel.paths import printable
from vfs.kernel.zones import ZONES

__all__ = ["FORMATS", "Format", "Progress", "write_entries"]

Format = Literal["json", "jsonl", "csv"]
FORMATS: Final[tuple[Format, ...]] = ("json", "jsonl", "csv")

Progress = Callable[[int], None]
"""Called now and then with the number of entries done so far."""

_PROGRESS_EVERY: Final = 10_000
_FORMULA: Final = "=+-@\t\r"


def write_entries(
    rows: Iterable[Joined],
    out: TextIO,
    form: Format,
    *,
    chain: str,
    living: Container[str],
    progress: Progress | None = None,
) -> int:
    """Write entries to `out` in that form and return how many; ValueError for an unknown form."""
    if form == "csv":
        texts = _csv_lines(rows, chain, living)
        before, between, after = ",".join(FIELDS) + "\r\n", "", ""
    elif form in FORMATS:
        texts = (_json_text(chain, living, *row) for row in rows)
        before, between, after = ("[\n", ",\n", "\n]\n") if form == "json" else ("", "\n", "\n")
    else:
        raise ValueError(f"unknown export format `{form}`; use one of {', '.join(FORMATS)}")
    write = out.write
    write(before)
    count = 0
    for text in texts:
        write(between + text if count else text)
        count += 1
        if progress is not None and not count % _PROGRESS_EVERY:
            progress(count)
    write(after if count or form == "json" else "")
    if progress is not None:
        progress(count)
    return count


@functools.lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _stamp(moment: int | None) -> str | None:
    return None if moment is None else f"{_second(moment // 1_000_000_000)}.{moment // 1000 % 1_000_000:06d}Z"


def _text(value: str | None) -> str:
    return "null" if value is None else _quote(value)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


# What repeats from entry to entry is encoded once.


@functools.lru_cache(maxsize=1024)
def _where(zone: str | None, session: str | None, trust: str | None, allowed: bool) -> str:  # noqa: FBT001 (a key)
    return (
        f'"zone":{_text(zone if zone in ZONES else None)},"session_id":{_quote(session or "")},'
        f'"trust_level":{_quote(trust or "")},"allowed":{"true" if allowed else "false"}'
    )


@functools.lru_cache(maxsize=1024)
def _how(
    action: str, rule: str | None, face: str | None, pid: int | None, uid: int | None, command: str | None
) -> str:
    return (
        f'"action":{_quote(action)},"rule":{_text(rule)},"face":{_quote(face or "")},'
        f'"pid":{_number(pid)},"uid":{_number(uid)},"command":{_text(command)}'
    )


@functools.lru_cache(maxsize=1024)
def _for_whom(workspace: str | None, lease: str | None) -> str:
    return f'"workspace_id":{_text(workspace)},"lease":{_text(lease)}'


def _json_text(
    chain: str, living: Container[str], row_hash: str, record: Record, followers: list[Record]
) -> str:
    get = record.get
    sequence = record["seq"]
    outcome, read, written, metadata, first_write = join(record, followers, living)
    where = _where(get("zone"), get("session"), get("trust"), record["allowed"])
    how = _how(record["action"], get("rule"), get("face"), get("pid"), get("uid"), get("command"))
    return (
        f'{{"id":"{chain[:8]}-{sequence}","timestamp":"{_stamp(record["time"])}",'
        f'"operation":"{record["op"]}","path":{_text(get("path"))},{where},'
        f'"reason":{_text(get("reason"))},"metadata":{"null" if metadata is None else dump(metadata)},'
        f'"sequence":{sequence},{how},"outcome":{_text(outcome)},'
        f'"bytes_read":{"null" if read is None else read},"bytes_written":{"null" if written is None else written},'
        f'"first_write":{_text(_stamp(first_write))},{_for_whom(get("workspace"), get("lease"))},'
        f'"hash":"{row_hash}"}}'
    )


def _csv_lines(rows: Iterable[Joined], chain: str, living: Container[str]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for row_hash, record, followers in rows:
        writer.writerow(_csv_cells(chain, living, row_hash, record, followers))
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _csv_cells(
    chain: str, living: Container[str], row_hash: str, record: Record, followers: list[Record]
) -> list[object]:
    get = record.get
    zone = get("zone")
    sequence = record["seq"]
    outcome, read, written, metadata, first_write = join(record, followers, living)
    return [
        f"{chain[:8]}-{sequence}",
        _stamp(record["time"]),
        record["op"],
        _cell(get("path")),
        zone if zone in ZONES else None,
        _cell(get("session", "")),
        _cell(get("trust", "")),
        "true" if record["allowed"] else "false",
        _cell(get("reason")),
        None if metadata is None else dump(metadata),
        sequence,
        _cell(record["action"]),
        _cell(get("rule")),
        _cell(get("face", "")),
        get("pid"),
        get("uid"),
        _cell(get("command")),
        _cell(outcome),
        read,
        written,
        _stamp(first_write),
        _cell(get("workspace")),
        _cell(get("lease")),
        row_hash,
    ]


def _cell(value: str | None) -> str | None:
    if not value:
        return value
    if value[0] in _FORMULA:
        value = "'" + value
    # A spreadsheet shows what is printable, and so does a terminal, without being steered.
    return printable(value)
