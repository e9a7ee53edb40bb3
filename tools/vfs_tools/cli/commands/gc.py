"""`vfs gc`: removing what sessions that are over have left."""

import click

from vfs_tools.cli import output
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.parameters import json_option, pass_invocation
from vfs_tools.cli.progress import counting

__all__ = ["gc"]


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
@pass_invocation
def gc(
    invocation: Invocation,
    dry_run: bool,  # noqa: FBT001 (click passes by name)
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Remove the files of sessions that have ended or expired, and staged commits that were decided on.

    A staged commit that nobody has decided on stays. May be broken off and run again.
    """
    with invocation.kernel() as kernel:
        planned = kernel.collect(dry_run=True)
        found = planned
        if not dry_run:
            total = len(planned.sessions) + len(planned.staged)
            with counting("removed", total) as progress:
                done = 0

                def step(_what: str) -> None:
                    nonlocal done
                    done += 1
                    if progress is not None:
                        progress(done)

                found = kernel.collect(progress=step)
    if as_json:
        told = {"dry_run": dry_run, "sessions": list(found.sessions), "staged": list(found.staged)}
        output.document(told if dry_run else {**told, "failed": list(found.failed)})
        return
    verb = "would remove" if dry_run else "removed"
    for identity in found.sessions:
        output.text(f"{verb} session {identity}")
    for identity in found.staged:
        output.text(f"{verb} staged commit {identity}")
    for failure in found.failed:
        output.note(failure)
    if not found.sessions and not found.staged and not found.failed:
        output.text("nothing to remove")
