"""Trust levels and what each may do in each zone: seed 001's table, nothing more.

The table is data. What narrows it (protected paths, path rules) is in `rules`; what joins both into one
verdict is in `policy`.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from vfs.kernel.zones import Zone

__all__ = ["MATRIX", "Operation", "SecurityContext", "TrustLevel", "ZoneConfig"]


class Operation(StrEnum):
    """One of the four rights; everything a program can ask for is one or several of them."""

    # Enum's own hash is Python code, and verdicts are looked up by these at each access.
    __hash__ = str.__hash__

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    LIST = "list"


class TrustLevel(StrEnum):
    """How far a session is trusted; compare with `rank`."""

    # Enum's own hash is Python code, and verdicts are looked up by these at each access.
    __hash__ = str.__hash__

    UNTRUSTED = "untrusted"
    SESSION = "session"
    WORKSPACE = "workspace"
    FULL = "full"

    @property
    def rank(self) -> int:
        """Return 0 for the lowest level to 3 for the highest."""
        return _RANKS[self]


_RANKS = {level: rank for rank, level in enumerate(TrustLevel)}


class ZoneConfig(NamedTuple):
    """What one trust level may do in one zone (seed 001, ZoneConfig)."""

    zone: Zone
    readable: bool
    writable: bool
    listable: bool
    deletable: bool
    requires_approval: bool = False
    """What is written there takes effect only after a person approved it."""
    create_only: bool = False
    """The `*` of the seed's table: may add, may not overwrite."""

    def grants(self, operation: Operation) -> bool:
        """Tell whether the table grants `operation`."""
        return bool(self[_COLUMN[operation]])


_COLUMN = {Operation.READ: 1, Operation.WRITE: 2, Operation.LIST: 3, Operation.DELETE: 4}


def _row(rights: Mapping[Zone, str]) -> Mapping[Zone, ZoneConfig]:
    return MappingProxyType(
        {
            zone: ZoneConfig(
                zone,
                "r" in text,
                "w" in text or "c" in text,
                "l" in text,
                "d" in text,
                requires_approval="c" in text,
                create_only="c" in text,
            )
            for zone, text in rights.items()
        }
    )


MATRIX: Mapping[TrustLevel, Mapping[Zone, ZoneConfig]] = MappingProxyType(
    {
        # r read, w write, l list, d delete, c write what does not exist yet, once approved it counts
        TrustLevel.UNTRUSTED: _row(
            {Zone.SESSION: "rwld", Zone.WORKSPACE: "", Zone.REPO: "", Zone.STAGED: "c", Zone.WORKERS: "rl"}
        ),
        TrustLevel.SESSION: _row(
            {
                Zone.SESSION: "rwld",
                Zone.WORKSPACE: "rwld",
                Zone.REPO: "",
                Zone.STAGED: "rwld",
                Zone.WORKERS: "rl",
            }
        ),
        TrustLevel.WORKSPACE: _row(
            {
                Zone.SESSION: "rwld",
                Zone.WORKSPACE: "rwld",
                Zone.REPO: "rl",
                Zone.STAGED: "rwld",
                Zone.WORKERS: "rl",
            }
        ),
        TrustLevel.FULL: _row(dict.fromkeys(Zone, "rwld")),
    }
)
"""Seed 001's PERMISSION_PROFILES: by trust level, then by zone."""


class SecurityContext(NamedTuple):
    """Who is asking, and with which rights (seed 001, SecurityContext)."""

    trust_level: TrustLevel
    session_id: str
    origin: str | None
    permissions: Mapping[Zone, ZoneConfig]
