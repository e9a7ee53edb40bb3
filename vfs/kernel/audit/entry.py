"""What the audit log gives back: entries, and the filter that chooses them (seed 001, Audit Log Types)."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from vfs.kernel.zones import Zone

__all__ = ["OPERATIONS", "Actor", "AuditEntry", "AuditFilter"]

OPERATIONS: Final = frozenset(
    {
        "read",
        "write",
        "delete",
        "list",
        "stage",
        "permission_check",
        "security_violation",
        # Beyond the seed: events of the session and of the log itself.
        "promote",
        "demote",
        "session_start",
        "session_end",
        "prune",
        "recovery",
        "rekey",
        "exec",
    }
)
"""Every value of `AuditEntry.operation`."""

PENDING: Final = "pending"
INTERRUPTED: Final = "interrupted"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def from_nanoseconds(time: int) -> datetime:
    """Return the moment as UTC; what is finer than a microsecond is cut off."""
    return _EPOCH + timedelta(microseconds=time // 1000)


def to_microseconds(moment: datetime) -> int:
    """Return microseconds since the epoch; ValueError for a time without zone."""
    if moment.tzinfo is None:
        raise ValueError(f"`{moment.isoformat()}` has no time zone; say which one is meant, e.g. +00:00")
    return (moment - _EPOCH) // _MICROSECOND


class Actor(NamedTuple):
    """The process behind an access, where the face knows it (FUSE, exec)."""

    pid: int
    uid: int
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One operation: what was asked, what was decided, and how it ended.

    `id` is unique over all logs: the chain's short name and the sequence number. `timestamp` is the moment
    of the decision, in UTC. `operation` is one of `OPERATIONS`, `action` the finer verb, e.g. `rename`.
    `path` is virtual; a name that is not UTF-8 carries lone surrogates (`os.fsencode` gives its bytes).

    `outcome` is `ok`, an error code, `pending` while a mutation or an open file is under way,
    `interrupted` if its process died meanwhile, or None where nothing was to be done (denied, events).
    `first_write` is when an opened file was first written to. Bytes are those that the operation moved.

    `sequence` is the place in the chain, counted from 1 over rows of all kinds, so entries may be several
    apart. `hash` is the hexadecimal SHA-256 of the row and its predecessor's hash.
    """

    id: str
    timestamp: datetime
    operation: str
    path: str | None
    zone: Zone | None
    session_id: str
    trust_level: str
    allowed: bool
    reason: str | None
    metadata: Mapping[str, Any] | None
    sequence: int
    action: str
    rule: str | None
    face: str
    pid: int | None
    uid: int | None
    command: str | None
    outcome: str | None
    bytes_read: int | None
    bytes_written: int | None
    first_write: datetime | None
    workspace_id: str | None
    lease: str | None
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for `json.dumps`: times as ISO 8601 in UTC, the zone by its name."""
        return {name: _plain(getattr(self, name)) for name in FIELDS}


FIELDS: Final = tuple(AuditEntry.__dataclass_fields__)
"""The names of `AuditEntry`'s fields, in the order in which exports show them."""


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, Mapping):
        return dict(value)
    return value.value if isinstance(value, Zone) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries, in which order; what is None does not narrow.

    `start_time` and `end_time` both belong to the range, to the microsecond, and need a time zone.
    `path` is a glob on the virtual path: `*` and `?` stay within one name, `**` spans names,
    `[…]` is a set of characters; `/repo/src/**` also takes `/repo/src` itself.
    `after` leaves out everything up to that sequence number (paging, following).
    Entries come oldest first, or `newest_first`; `limit` keeps that many from the beginning of that order.

    ValueError for an unknown operation, a time without zone, a negative limit.
    """

    session_id: str | None = None
    operation: str | None = None
    zone: Zone | None = None
    trust_level: str | None = None
    allowed: bool | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    limit: int | None = None
    path: str | None = None
    face: str | None = None
    newest_first: bool = False
    after: int = 0
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.operation is not None and self.operation not in OPERATIONS:
            raise ValueError(
                f"unknown operation `{self.operation}`; use one of {', '.join(sorted(OPERATIONS))}"
            )
        if self.limit is not None and self.limit < 0:
            raise ValueError(f"a limit cannot be negative: `{self.limit}`")
        for moment in (self.start_time, self.end_time):
            if moment is not None:
                to_microseconds(moment)
        if self.path is not None:
            object.__setattr__(self, "_pattern", glob_pattern(self.path))

    def matches_path(self, path: str | None) -> bool:
        """Return whether the virtual path satisfies the glob `path`."""
        if self._pattern is None:
            return True
        return path is not None and self._pattern.fullmatch(path) is not None


@functools.lru_cache(maxsize=256)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a glob on virtual paths, as `AuditFilter.path` explains it. A lone `[` means itself."""
    parts: list[str] = []
    at = 0
    while at < len(glob):
        if glob.startswith("/**", at) and at + 3 == len(glob):
            parts.append("(?:/.*)?")
            at += 3
        elif glob.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif glob.startswith("**", at):
            parts.append(".*")
            at += 2
        elif glob[at] == "[" and (found := _SET.match(glob, at)):
            negated, content = found.groups()
            parts.append(f"[{'^/' if negated else ''}{_escape_set(content)}]")
            at = found.end()
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(glob[at]) or re.escape(glob[at]))
            at += 1
    return re.compile("".join(parts), re.DOTALL)


_SET: Final = re.compile(r"\[([!^]?)(\]?[^\]/]*)\]")


def _escape_set(content: str) -> str:
    return re.sub(r"([\\\[\]^&~|])", r"\\\1", content)


def literal_prefix(glob: str) -> str:
    """Return what every path that the glob takes begins with."""
    found = re.search(r"/\*\*$|[*?\[]", glob)
    return glob if found is None else glob[: found.start()]
