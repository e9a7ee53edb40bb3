"""The options that choose entries of the audit log (seed 001, AuditFilter)."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click

from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs_tools.cli.parameters import SESSION_ID, TRUST, WHEN, ZONE

if TYPE_CHECKING:
    from vfs.kernel.audit import AuditFilter

__all__ = ["Chosen", "chosen", "filter_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


class Chosen(TypedDict):
    """What the options said; None is what was not."""

    session_id: str | None
    operation: str | None
    zone: Zone | None
    trust: TrustLevel | None
    allowed: bool | None
    since: datetime | None
    until: datetime | None
    path: str | None
    face: str | None


class _Operation(click.ParamType):  # type: ignore[type-arg]  # generic only in later releases of click
    """An operation of the log; the names are known to the log alone, which is imported when one is given."""

    name = "operation"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from vfs.kernel.audit.entry import OPERATIONS

        if value not in OPERATIONS:
            self.fail(f"`{value}` is no operation; there are {', '.join(sorted(OPERATIONS))}", param, ctx)
        return str(value)


_OPTIONS = (
    click.option("--session", "session_id", metavar="ID", type=SESSION_ID, help="Of one session."),
    click.option(
        "--operation", metavar="NAME", type=_Operation(), help="Such as read, write, security_violation."
    ),
    click.option("--zone", metavar="ZONE", type=ZONE, help="In one zone."),
    click.option("--trust", metavar="LEVEL", type=TRUST, help="At one trust level."),
    click.option("--allowed/--denied", default=None, help="Only what was allowed, or refused."),
    click.option("--since", metavar="WHEN", type=WHEN, help="From then on: `2026-11-21`, or `30m` ago."),
    click.option("--until", metavar="WHEN", type=WHEN, help="Up to then."),
    click.option("--path", metavar="GLOB", help="Such as `/repo/src/**`."),
    click.option("--face", metavar="NAME", help="Through one face: api, cli, fuse, exec, tool."),
)


def filter_options(function: Function) -> Function:
    """Give a command the options of the filter; it takes them as `**filters: Unpack[Chosen]`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def chosen(
    *, limit: int | None = None, newest_first: bool = False, after: int = 0, **filters: Unpack[Chosen]
) -> "AuditFilter":
    """Return the filter that the options describe."""
    from vfs.kernel.audit import AuditFilter

    trust = filters["trust"]
    return AuditFilter(
        session_id=filters["session_id"],
        operation=filters["operation"],
        zone=filters["zone"],
        trust_level=None if trust is None else str(trust),
        allowed=filters["allowed"],
        start_time=filters["since"],
        end_time=filters["until"],
        path=filters["path"],
        face=filters["face"],
        limit=limit,
        newest_first=newest_first,
        after=after,
    )
