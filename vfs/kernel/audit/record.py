r"""The text of a row: canonical JSON, pure ASCII, no space and no line break.

Every row of the chain is one JSON object whose keys stand in a fixed order, those without value left out:

    {"seq":7,"time":1700000000000000000,"kind":"entry", …}

`kind` is one of
    genesis      the first row: `chain` (its random id), `key` and `public_key` (who signs heads)
    entry        an access that was decided, or an event
    first_write  `ref` says which entry's open file was written to for the first time
    outcome      `ref` says which entry ended, `outcome` how

A row's hash is SHA-256 over the 64 hexadecimal digits of its predecessor's hash and its own text; the
genesis row's predecessor is 64 zeros. Times are integer nanoseconds. Strings are escaped to ASCII, lone
surrogates as `\udcXX`, so that a name that is not UTF-8 comes back byte for byte.
"""

import hashlib
import json
import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, NamedTuple

from vfs.kernel.audit.entry import INTERRUPTED, PENDING, AuditEntry, from_nanoseconds
from vfs.kernel.zones import ZONES

__all__ = [
    "ZERO_HASH",
    "Carry",
    "Record",
    "Row",
    "chain_hash",
    "decode_entry",
    "dump",
    "genesis_record",
    "join",
    "last_row",
    "parse_carry",
    "parse_line",
    "recovery_body",
]

ZERO_HASH: Final = "0" * 64
HASH_LENGTH: Final = 64

Record = Mapping[str, Any]
"""A record as `json.loads` gives it."""

_LINE: Final = re.compile(
    rb'([0-9a-f]{64}) (\{"seq":([1-9]\d*),"time":(\d+),"kind":"[^\x00-\x1f\x7f-\xff]*\})'
)


class Row(NamedTuple):
    """One row as it stands in the journal or the store."""

    sequence: int
    time: int
    record: str
    hash: str


def parse_line(line: bytes) -> Row | None:
    """Return the row of a journal line (without its line break), or None if it has not the form of one."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    return Row(int(found[3]), int(found[4]), found[2].decode("ascii"), found[1].decode("ascii"))


def last_row(data: bytes) -> tuple[int, Row | None]:
    """Return the last row in these journal lines and where it ends; (0, None) if there is none.

    A zero byte is a page that never reached the disk: nothing from there on counts.
    """
    hole = data.find(b"\0")
    end = data.rfind(b"\n", 0, None if hole < 0 else hole) + 1
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        row = parse_line(data[start : end - 1])
        if row is not None:
            return end, row
        end = start
    return 0, None


class Carry(NamedTuple):
    """What the first line of a journal says: its chain, the key that signs it, the row it continues after."""

    chain: str
    key: str
    sequence: int
    time: int
    hash: str

    def line(self) -> bytes:
        """Return the line, with its line break."""
        return f"{self.hash} {dump({'carry': self._asdict()})}\n".encode()


def parse_carry(line: bytes) -> Carry | None:
    """Return what a journal's first line says: a carry line, or the genesis row itself. None if neither."""
    row_hash, _, text = line.partition(b" ")
    try:
        record = json.loads(text)
        if record.get("kind") == "genesis":
            return Carry(record["chain"], record["key"], 0, record["time"], ZERO_HASH)
        carry = Carry(**record["carry"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return carry if carry.hash.encode() == row_hash else None


def genesis_record(moment: int, chain: str, key: str, public_key: str) -> str:
    """Return the text of a chain's first row."""
    return (
        f'{{"seq":1,"time":{moment},"kind":"genesis","chain":{dump(chain)},"key":{dump(key)},'
        f'"public_key":{dump(public_key)}}}'
    )


def recovery_body(torn: bytes) -> str:
    """Return the entry that reports a cut-off tail, as `Journal.append` takes it."""
    what = dump({"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()})
    return f',"kind":"entry","op":"recovery","action":"cut_torn_tail","allowed":true,"meta":{what}}}'


def chain_hash(previous: str, record: str) -> str:
    """Return the hash of the row with this text whose predecessor has the hash `previous`."""
    return hashlib.sha256((previous + record).encode()).hexdigest()


def dump(value: object) -> str:
    """Return canonical JSON; TypeError or ValueError for what JSON cannot say, NaN included."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))


class Ending(NamedTuple):
    """What the rows that refer to an entry add to it. `first_write` is in nanoseconds."""

    outcome: str | None
    read: int | None
    written: int | None
    metadata: dict[str, Any] | None
    first_write: int | None


def join(record: Record, followers: Iterable[Record], living: Container[str]) -> Ending:
    """Return how the entry with this record ended, going by the records that refer to it.

    `living` holds the ids of the writers that are still running: what such a writer has begun and not
    ended is pending, what another has, interrupted.
    """
    get = record.get
    writer = get("pending")
    if writer is None:
        return Ending(get("outcome"), get("read"), get("written"), get("meta"), None)
    outcome = PENDING if writer in living else INTERRUPTED
    read, written, metadata, first_write = get("read"), get("written"), get("meta"), None
    for follower in followers:
        if follower["kind"] == "first_write":
            first_write = follower["time"]
        else:
            outcome = follower["outcome"]
            read, written = follower.get("read", read), follower.get("written", written)
            if "meta" in follower:
                metadata = {**(metadata or {}), **follower["meta"]}
    return Ending(outcome, read, written, metadata, first_write)


def decode_entry(
    chain: str, row_hash: str, record: Record, followers: Iterable[Record], living: Container[str]
) -> AuditEntry:
    """Return the entry with this record, joined with those that refer to it."""
    get = record.get
    ending = join(record, followers, living)
    sequence: int = record["seq"]
    return AuditEntry(
        id=f"{chain[:8]}-{sequence}",
        timestamp=from_nanoseconds(record["time"]),
        operation=record["op"],
        path=get("path"),
        zone=ZONES.get(get("zone", "")),
        session_id=get("session", ""),
        trust_level=get("trust", ""),
        allowed=record["allowed"],
        reason=get("reason"),
        metadata=ending.metadata,
        sequence=sequence,
        action=record["action"],
        rule=get("rule"),
        face=get("face", ""),
        pid=get("pid"),
        uid=get("uid"),
        command=get("command"),
        outcome=ending.outcome,
        bytes_read=ending.read,
        bytes_written=ending.written,
        first_write=None if ending.first_write is None else from_nanoseconds(ending.first_write),
        workspace_id=get("workspace"),
        lease=get("lease"),
        hash=row_hash,
    )
