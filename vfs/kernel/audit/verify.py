"""Checking a log offline, from its files and the public key alone, changing nothing.

What is checked, in this order: the signature of every prune; every row of the database and then of the
journal against its predecessor's hash; every signed head against the row it names. The first bad row is
named, and what is wrong with it:

    changed        its text does not have the hash that stands beside it
    deleted        it is missing, and rows after it are there
    reordered      another row stands in its place
    truncated      a signed head, or the journal, knows of it, and the chain ends before
    rewritten      the chain agrees with itself, but not with a signed head: it was hashed anew
    bad_signature  a head or a prune was not signed by this key
    replaced       this is another chain than the one that was signed, or it was begun with another key
    unreadable     the file that should hold it is damaged or missing

Rows newer than the newest head can be cut off, or all replaced, without leaving a trace; `unsigned_rows`
says how many there are.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import sqlite3
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from vfs.kernel.audit import evidence
from vfs.kernel.audit.evidence import Evidence, RawRow
from vfs.kernel.audit.heads import Head, read_heads, verify_document
from vfs.kernel.audit.record import ZERO_HASH
from vfs.kernel.errors import ConfigError
from vfs.kernel.keys import VerifyKey

__all__ = ["Problem", "VerifyReport", "verify"]

Problem = Literal[
    "changed", "deleted", "reordered", "truncated", "rewritten", "bad_signature", "replaced", "unreadable"
]

_PROGRESS_EVERY: Final = 50_000
_OWN_SEQUENCE: Final = re.compile(rb'\{"seq":(\d+),')


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What `verify` found.

    `rows` were checked, from `first_sequence` to `last_sequence`; if not `ok`, `problem` says what is wrong
    with row `sequence` (None if it is about no row) and `message` says it in words. `heads_checked` heads
    hold; `unsigned_rows` are newer than the newest of them.
    """

    ok: bool
    chain: str
    rows: int
    first_sequence: int | None
    last_sequence: int | None
    problem: Problem | None
    sequence: int | None
    message: str
    heads_checked: int
    unsigned_rows: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for `json.dumps`."""
        return asdict(self)


class _BadError(Exception):
    """The verdict, from where it is found to where it is reported."""

    def __init__(self, problem: Problem, sequence: int | None, message: str) -> None:
        super().__init__(message)
        self.problem: Problem = problem
        self.sequence = sequence


def verify(
    directory: str | os.PathLike[str],
    public_key: VerifyKey,
    heads_path: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Check the log in `directory`; `progress` is called now and then with the number of rows checked.

    Works on a log in use and on a copy, on a read-only directory, and needs no lock. Without `heads_path`
    only the chain itself can be checked, which whoever may write the directory could have hashed anew.
    ConfigError if there is no log, or the heads cannot be read.
    """
    # Heads before rows: a head read later could be of a row that was not there yet when rows were read.
    try:
        heads = [] if heads_path is None else list(read_heads(os.fspath(heads_path)))
    except OSError as error:
        raise ConfigError(
            f"cannot read the signed heads `{os.fspath(heads_path or '')}`: {(error.strerror or '').lower()}"
        ) from error
    return _Verification(os.fspath(directory), public_key, heads, progress).run()


class _Verification:
    def __init__(
        self, directory: str, key: VerifyKey, heads: list[Head], progress: Callable[[int], None] | None
    ) -> None:
        self._directory = directory
        self._key = key
        self._heads = heads
        self._progress = progress
        self._chain = ""
        self._first: int | None = None
        self._next = 1
        self._rows = 0
        self._hash = ZERO_HASH.encode()
        self._checked = 0
        self._signed = 0

    def run(self) -> VerifyReport:
        wrong: list[_BadError] = []
        try:
            with evidence.collect(self._directory) as found:
                self._begin(found)
                try:
                    with contextlib.closing(self._in_order(found)) as rows:
                        self._check_rows(rows)
                    self._check_overlap(found)
                except _BadError as bad:
                    wrong.append(bad)
                wrong += self._check_heads(found, ends_early=not wrong)
        except _BadError as bad:
            wrong.append(bad)
        except evidence.UnreadableError as error:
            wrong.append(_BadError("unreadable", self._next, str(error)))
        return self._report(min(wrong, key=_place, default=None))

    def _report(self, verdict: _BadError | None) -> VerifyReport:
        last = self._next - 1 if self._rows else None
        unsigned = max(0, self._next - 1 - max(self._signed, (self._first or 1) - 1))
        message = str(verdict) if verdict else f"{self._rows} rows are as they were recorded"
        return VerifyReport(
            ok=verdict is None,
            chain=self._chain,
            rows=self._rows,
            first_sequence=self._first if self._rows else None,
            last_sequence=last,
            problem=None if verdict is None else verdict.problem,
            sequence=None if verdict is None else verdict.sequence,
            message=message,
            heads_checked=self._checked,
            unsigned_rows=unsigned,
        )

    def _begin(self, found: Evidence) -> None:
        """Find where the chain starts: at its genesis, or behind the last prune; and whose it is."""
        key = ""
        for sequence, document, signature in found.prunes():
            told = json.loads(document) if verify_document(self._key, document, signature) else {}
            if told.get("seq") != sequence:
                text = f"the prune up to row {sequence} was not signed by this key"
                raise _BadError("bad_signature", sequence, text)
            self._chain, key = told["chain"], told["key"]
            self._next, self._hash = sequence + 1, told["hash"].encode()
        carry = found.carry
        if not self._chain:
            genesis = found.genesis()
            self._chain, key = (genesis["chain"], genesis["key"]) if genesis else (carry.chain, carry.key)
        self._first = self._next
        if key != self._key.id:
            text = f"the chain was begun with the key {key}, not with {self._key.id}"
            raise _BadError("replaced", self._next, text)
        if carry.chain != self._chain:
            raise _BadError("replaced", self._next, "the journal is of another chain than the database")

    def _in_order(self, found: Evidence) -> Generator[RawRow, None, None]:
        """Yield the rows of the database and those the journal has beyond it."""
        last = self._next - 1
        yield from found.rows(self._next)
        last = max(last, found.last_stored())
        if found.carry.sequence > last:
            text = f"row {last + 1} is missing: the database ends before the journal begins"
            raise _BadError("truncated", last + 1, text)
        for row in found.journal_rows():
            if row[0] is None or row[0] > last:
                yield row

    def _check_rows(self, rows: Iterator[RawRow]) -> None:
        sha256 = hashlib.sha256
        previous, expected, due = self._hash, self._next, self._next + _PROGRESS_EVERY
        try:
            for sequence, record, row_hash in rows:
                digest = sha256(previous + record).hexdigest().encode()
                if digest != row_hash or sequence != expected:
                    raise self._diagnose(expected, previous, (sequence, record, row_hash), next(rows, None))
                previous = digest
                expected += 1
                if expected == due:
                    due += _PROGRESS_EVERY
                    if self._progress is not None:
                        self._progress(expected - (self._first or 1))
        except (TypeError, sqlite3.Error) as error:
            raise _BadError("unreadable", expected, f"row {expected} cannot be read: {error}") from error
        finally:
            self._rows += expected - self._next
            self._next, self._hash = expected, previous

    @staticmethod
    def _diagnose(expected: int, previous: bytes, row: RawRow, after: RawRow | None) -> _BadError:
        sequence, record, row_hash = row
        own, own_after = _own_sequence(record), after and _own_sequence(after[1])
        if sequence is None or own is None:
            return _BadError("changed", expected, f"row {expected} was changed: its text is no record")
        if own != expected:
            if own < expected or own_after == expected:
                text = f"row {own} stands in the place of row {expected}"
                return _BadError("reordered", expected, text)
            return _BadError(
                "deleted", expected, f"row {expected} is missing: row {own} follows on {expected - 1}"
            )
        digest = hashlib.sha256(previous + record).hexdigest().encode()
        if digest == row_hash:
            return _BadError("reordered", expected, f"row {expected} stands in the place of row {sequence}")
        if after is not None and hashlib.sha256(digest + after[1]).hexdigest().encode() == after[2]:
            text = f"the hash beside row {expected} was changed; its text is as recorded"
            return _BadError("changed", expected, text)
        text = f"row {expected} was changed: its text does not have the hash beside it"
        return _BadError("changed", expected, text)

    def _check_heads(self, found: Evidence, *, ends_early: bool) -> list[_BadError]:
        """Compare heads with the rows that were found good; return what is wrong.

        `ends_early` says that the chain held to its end, so that a head beyond it means rows cut off.
        """
        wrong: list[_BadError] = []
        first, last, foreign = self._first or 1, self._next - 1, 0
        for head in self._heads:
            if head.sequence < 0 or not verify_document(self._key, head.document, head.signature):
                row = f" for row {head.sequence}" if head.sequence > 0 else ""
                text = f"line {head.line} of the heads{row} was not signed by this key"
                wrong.append(_BadError("bad_signature", head.sequence if row else None, text))
            elif head.chain != self._chain:
                foreign += 1
            elif head.sequence > last:
                if ends_early:
                    text = f"row {last + 1} is missing: a head was signed for row {head.sequence}"
                    wrong.append(_BadError("truncated", last + 1, text))
            elif head.sequence >= first and found.hash_of(head.sequence) == head.hash:
                self._checked += 1
                self._signed = max(self._signed, head.sequence)
            elif head.sequence >= first:
                text = f"row {head.sequence} is not the one that was signed: rows up to it were hashed anew"
                wrong.append(_BadError("rewritten", head.sequence, text))
        if foreign and not self._checked and not wrong:
            text = f"{foreign} heads were signed, none of them for this chain"
            wrong.append(_BadError("replaced", self._first, text))
        return wrong

    def _check_overlap(self, found: Evidence) -> None:
        """Compare the rows that stand in both, journal and database."""
        for sequence, _, row_hash in found.journal_rows():
            if sequence is None or sequence < (self._first or 1) or sequence > found.last_stored():
                continue
            if found.hash_of(sequence) != row_hash.decode("ascii", "replace"):
                raise _BadError("changed", sequence, f"row {sequence} differs between journal and database")


def _place(bad: _BadError) -> float:
    return math.inf if bad.sequence is None else bad.sequence


def _own_sequence(record: bytes) -> int | None:
    found = _OWN_SEQUENCE.match(record)
    return None if found is None else int(found[1])
