"""`vfs audit`: reading the log. What exports, verifies and prunes it is in `audit_keep`."""

import time
from typing import TYPE_CHECKING, Final, Unpack

import click

from vfs_tools.cli import output
from vfs_tools.cli.entries import write_entries
from vfs_tools.cli.filters import Chosen, chosen, filter_options
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.lazy import LazyCommand, LazyGroup
from vfs_tools.cli.parameters import json_option, pass_invocation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vfs.kernel.audit import AuditEntry

__all__ = ["COMMANDS", "audit", "log", "stats", "tail", "violations"]

_KEEP = f"{__name__}_keep"
_SECONDS: Final = 0.25
"""How often `tail -f` looks."""

COMMANDS = {
    "log": LazyCommand(f"{__name__}:log", "Show entries, the newest last."),
    "tail": LazyCommand(f"{__name__}:tail", "Show the newest entries, and follow."),
    "violations": LazyCommand(f"{__name__}:violations", "Show what was refused."),
    "export": LazyCommand(f"{_KEEP}:export", "Write entries as JSON, JSON lines or CSV."),
    "verify": LazyCommand(f"{_KEEP}:verify", "Check that no row was changed, removed or added."),
    "prune": LazyCommand(f"{_KEEP}:prune", "Remove old rows in one signed step."),
    "stats": LazyCommand(f"{__name__}:stats", "Say what the log holds, in numbers."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def audit() -> None:
    """Read, export and verify the audit log."""


@click.command()
@filter_options
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0), default=50, show_default=True,
    help="Only the newest N; 0 shows all.",
)  # fmt: skip
@json_option
@pass_invocation
def log(
    invocation: Invocation,
    limit: int,
    as_json: bool,  # noqa: FBT001 (click passes by name)
    **filters: Unpack[Chosen],
) -> None:
    """Show entries, the newest last. With `--json` one line for each."""
    with invocation.kernel() as kernel:
        entries: Iterable[AuditEntry]
        if limit:
            entries = reversed(kernel.log.get_entries(chosen(limit=limit, newest_first=True, **filters)))
        else:
            entries = kernel.log.iter_entries(chosen(**filters))
        _told(write_entries(entries, as_json=as_json), as_json=as_json)


@click.command()
@filter_options
@click.option("-f", "--follow", is_flag=True, help="Go on as entries come, until Ctrl-C.")
@click.option(
    "-n", "--lines", metavar="N", type=click.IntRange(min=0), default=20, show_default=True,
    help="Begin with the newest N.",
)  # fmt: skip
@json_option
@pass_invocation
def tail(
    invocation: Invocation,
    follow: bool,  # noqa: FBT001 (click passes by name)
    lines: int,
    as_json: bool,  # noqa: FBT001 (as above)
    **filters: Unpack[Chosen],
) -> None:
    """Show the newest entries, and follow. With `--json` one line for each."""
    with invocation.kernel() as kernel:
        # What comes between the two questions is new to both: follow from what the first one saw.
        last = kernel.log.stats().last_sequence or 0
        newest = kernel.log.get_entries(chosen(limit=lines, newest_first=True, **filters))
        last = max([last, *(entry.sequence for entry in newest)])
        shown = write_entries(reversed(newest), as_json=as_json)
        if not follow:
            _told(shown, as_json=as_json)
            return
        while True:
            output.finish()
            fresh = kernel.log.get_entries(chosen(after=last, **filters))
            shown += write_entries(fresh, as_json=as_json, header=not shown)
            last = fresh[-1].sequence if fresh else last
            time.sleep(_SECONDS)


@click.command()
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Only the newest N.",
)
@json_option
@pass_invocation
def violations(
    invocation: Invocation,
    limit: int,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Show what was refused, the newest first: denials, and boundaries that were attacked.

    With `--json` one line for each.
    """
    with invocation.kernel() as kernel:
        if not write_entries(kernel.log.get_violations(limit), as_json=as_json) and not as_json:
            output.note("nothing was refused")


@click.command()
@json_option
@pass_invocation
def stats(
    invocation: Invocation,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Say what the log holds, in numbers."""
    with invocation.kernel() as kernel:
        found = kernel.log.stats()
    if as_json:
        output.document(found.to_dict())
        return
    span = f"{found.first_sequence} to {found.last_sequence}" if found.rows else "none"
    output.fields(
        [
            ("chain", found.chain),
            ("key", found.key_id),
            ("rows", f"{found.rows} ({span})"),
            ("entries", found.entries),
            ("refused", f"{found.denied}, {found.violations} of them violations"),
            ("from", output.moment(found.first_time)),
            ("to", output.moment(found.last_time)),
            ("size", output.size(found.journal_bytes + found.database_bytes)),
        ]
    )
    output.text()
    output.table(("operation", "entries>"), sorted(found.operations.items()), empty="no entries")


def _told(count: int, *, as_json: bool) -> None:
    if not count and not as_json:
        output.note("no entries")
