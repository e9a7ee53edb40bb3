"""Options and kinds of value that several commands share."""

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import ZONES, Zone
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.output import JSON_KEY

__all__ = [
    "DURATION",
    "SESSION_ID",
    "STAGED_ID",
    "TRUST",
    "WHEN",
    "ZONE",
    "ZONE_URL",
    "in_session",
    "json_option",
    "pass_invocation",
]

Function = TypeVar("Function", bound=Callable[..., Any])

pass_invocation = click.make_pass_decorator(Invocation)

_PATIENCE = 0.2
"""Seconds a key press waits for a database that is locked."""
_SHOWN = 200
"""So many ids are offered for completion at most."""


class _Trust(click.Choice):  # type: ignore[type-arg]  # generic only in later releases of click
    """A trust level."""

    def __init__(self) -> None:
        super().__init__([level.value for level in TrustLevel])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TrustLevel:
        """Return the level named."""
        return TrustLevel(super().convert(value, param, ctx))


class _Zone(click.Choice):  # type: ignore[type-arg]  # as above
    """One of the five zones."""

    def __init__(self) -> None:
        super().__init__(list(ZONES))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Zone:
        """Return the zone named."""
        return ZONES[super().convert(value, param, ctx)]


class _ZoneUrl(click.ParamType):  # type: ignore[type-arg]  # as above
    """A zone and where it is to live, as `NAME=URL`."""

    name = "zone"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Zone, str]:
        """Return both; what the URL means is the storage's to judge."""
        if isinstance(value, tuple):
            return value
        name, _, url = str(value).partition("=")
        if name not in ZONES or not url:
            self.fail(f"`{value}` is not NAME=URL, where NAME is one of {', '.join(ZONES)}", param, ctx)
        return ZONES[name], url


class _Duration(click.ParamType):  # type: ignore[type-arg]  # as above
    """A length of time, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds of `90s`, `30m`, `12h`, `14d`, `2w`, or of a number."""
        from vfs.config import parse_duration

        number = re.fullmatch(r"\d+(\.\d+)?", value) if isinstance(value, str) else None
        try:
            return parse_duration(float(value) if number else value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _When(click.ParamType):  # type: ignore[type-arg]  # as above
    """A moment: a date, a date and time, or a length of time before now."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment; one without a time zone is local time."""
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except ValueError:
            pass
        try:
            from vfs.config import parse_duration

            return datetime.now(UTC) - timedelta(seconds=parse_duration(value))
        except (ValueError, OverflowError):
            self.fail(
                f"`{value}` is no time; write `2026-11-21`, `2026-11-21T23:00:00Z`, or `30m` for half an hour ago",
                param,
                ctx,
            )


class _Id(click.ParamType):  # type: ignore[type-arg]  # as above
    """An id that is kept in the project's state; the kernel judges it."""

    def __init__(self, name: str, query: str) -> None:
        self.name = name
        self._query = query

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 (click's signature)
        incomplete: str,
    ) -> list[CompletionItem]:
        """Offer the ids there are, straight from the database: a key press must not open the kernel."""
        state = _state(ctx.find_root().params.get("project"))
        if state is None:
            return []
        try:
            with contextlib.closing(
                sqlite3.connect(f"{state.as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)
            ) as database:
                rows = database.execute(self._query, (f"{incomplete}*", _SHOWN)).fetchall()
        except sqlite3.Error:
            return []
        return [CompletionItem(identity, help=help_text) for identity, help_text in rows]


def _state(named: Path | None) -> Path | None:
    """Return the nearest state database upwards; `find_project` would import the kernel for a key press."""
    start = Path(named or os.environ.get("VFS_PROJECT") or Path.cwd()).absolute()
    places = (directory / ".sandbox" / "state.db" for directory in (start, *start.parents))
    return next((place for place in places if place.exists()), None)


TRUST = _Trust()
ZONE = _Zone()
ZONE_URL = _ZoneUrl()
DURATION = _Duration()
WHEN = _When()
SESSION_ID = _Id(
    "session",
    "SELECT id, trust_level FROM sessions WHERE ended_at IS NULL AND id GLOB ? ORDER BY created_at DESC LIMIT ?",
)
STAGED_ID = _Id(
    "staged commit",
    "SELECT id, message FROM staged_commits WHERE id GLOB ? ORDER BY created_at DESC LIMIT ?",
)


def json_option(function: Function) -> Function:
    """Give a command `--json`, as the argument `as_json`."""

    def remember(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:  # noqa: FBT001 (click's signature)
        if value:
            context.meta[JSON_KEY] = True
        return value

    return click.option(
        "--json", "as_json", is_flag=True, is_eager=True, callback=remember, help="Write JSON, for programs."
    )(function)


def in_session(function: Function) -> Function:
    """Give a command `--session` and `--trust`: whose eyes it looks with."""
    function = click.option(
        "--trust",
        metavar="LEVEL",
        type=TRUST,
        help="Trust level of the session that is started if none is named.",
    )(function)
    return click.option(
        "--session", "session_id", metavar="ID", type=SESSION_ID, help="The session to act in."
    )(function)
